//! `trainc lsp`.

mod transport;

use crate::exit;
use lsp_server::{Connection, ErrorCode, Message, Notification, Response};
use lsp_types::InitializeParams;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use trainc_check::{JobSummary, compile};
use trainc_diag::source::SourceMap;
use trainc_ir::SourceTree;
use trainc_ir::date::epoch_days;
use trainc_lsp::{Buffers, Encoding, RequestError, Server, file_path};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{Choices, LayerLoader, LoadedLayer};
use trainc_project::files::{Files, Tree as _, describe};
use trainc_project::manifest_paths::{Named, expand, root_of};
use transport::Transport;

/// Serve editors over the Language Server Protocol: diagnostics, hover, completion and fixes
///
/// Started by the editor, over standard input and output; docs/editors.md shows the setup. Unsaved text is
/// used as if it were saved.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc lsp\n  trainc lsp --env prod")]
pub(crate) struct Args {
    /// Apply an environment to every manifest: the node `env "NAME" { … }`
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
}

/// Exit code if the client sent `exit` without `shutdown` (LSP 3.17, `exit`: "the server should exit
/// with … 1").
const EXIT_WITHOUT_SHUTDOWN: u8 = 1;

/// Runs the command. Standard output is reserved for the protocol.
pub(crate) fn run(args: &Args, today: &str) -> u8 {
    if std::io::stdin().is_terminal() {
        let hint = "trainc lsp is waiting for an editor on standard input (Language Server Protocol); press \
            Ctrl-C to exit\n";
        let _ = std::io::stderr().write_all(hint.as_bytes());
    }
    let (connection, transport) = Transport::start();
    let code = match serve(&connection, args, today) {
        Ok(code) => code,
        Err(why) => {
            let _ = std::io::stderr().write_all(format!("error: {why}\n").as_bytes());
            exit::USAGE
        }
    };
    // The writer thread ends with the connection.
    drop(connection);
    match transport.join() {
        Err(error) if code == exit::DONE => {
            let _ = std::io::stderr().write_all(format!("error: {}\n", describe(&error)).as_bytes());
            exit::USAGE
        }
        _ => code,
    }
}

fn describe_end(error: &lsp_server::ProtocolError) -> String {
    if error.channel_is_disconnected() {
        return "the editor closed the connection without `shutdown` and `exit`".to_owned();
    }
    error.to_string()
}

fn serve(connection: &Connection, args: &Args, today: &str) -> Result<u8, String> {
    let (id, given) = loop {
        let (id, given) = connection.initialize_start().map_err(|error| describe_end(&error))?;
        match serde_json::from_value::<InitializeParams>(given) {
            Ok(given) => break (id, given),
            Err(error) => {
                let refusal = Response::new_err(id, ErrorCode::InvalidParams as i32, error.to_string());
                connection.sender.send(refusal.into()).map_err(|error| error.to_string())?;
            }
        }
    };
    let folders = folders(&given);
    let offered = given.capabilities.general.and_then(|general| general.position_encodings);
    let options = Options {
        choices: Choices {
            env: args.env.clone(),
            role_boundary: crate::args::overlay::role_boundary(),
            ..Choices::default()
        },
        today: today.to_owned(),
        ..Options::default()
    };
    let files_around = |path: &Path| Files::new(root_of(path, None), &Options::default());
    let compile_open = |name: &str, text: &str, buffers: &Buffers, mut sources: SourceMap| {
        let source = sources.add(name, text);
        let mut world = Overlay { files: files_around(Path::new(name)), buffers, reads_programs: true };
        let compiled = compile(source, text, &options, &mut world, &mut sources);
        (compiled, sources, source)
    };
    let summarize_others = |buffers: &Buffers| {
        let mut sources = SourceMap::default();
        let mut jobs = Vec::new();
        for file in manifests_around(&folders, buffers) {
            let mut files = files_around(&file.path);
            let Some(text) = files.read(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
                continue;
            };
            let name = file.shown;
            let source = sources.add(name.as_str(), text.as_str());
            let mut world = Overlay { files, buffers, reads_programs: false };
            let compiled = compile(source, &text, &options, &mut world, &mut sources);
            jobs.push(JobSummary::new(&name, &compiled));
        }
        (jobs, sources)
    };
    let mut server = Server::new(&compile_open, &summarize_others, Encoding::negotiate(offered.as_deref()))
        .today(epoch_days(today));
    let me = json!({
        "capabilities": server.capabilities(),
        "serverInfo": {"name": "trainc", "version": env!("CARGO_PKG_VERSION")},
    });
    connection.initialize_finish(id, me).map_err(|error| describe_end(&error))?;
    let send = |message: Message| connection.sender.send(message).map_err(|error| error.to_string());
    for message in &connection.receiver {
        match message {
            Message::Request(request) => {
                if connection.handle_shutdown(&request).map_err(|error| describe_end(&error))? {
                    return Ok(exit::DONE);
                }
                let answer = server.answer(&request.method, request.params);
                send(Message::Response(response(request.id, answer)))?;
            }
            Message::Notification(notification) if notification.method == "exit" => {
                return Ok(EXIT_WITHOUT_SHUTDOWN);
            }
            Message::Notification(Notification { method, params }) => {
                for problems in server.notify(&method, params) {
                    let method = "textDocument/publishDiagnostics".to_owned();
                    send(Message::Notification(Notification::new(method, problems)))?;
                }
            }
            Message::Response(_) => {}
        }
    }
    Ok(exit::DONE)
}

/// Returns the canonical workspace folders of the client.
fn folders(given: &InitializeParams) -> Vec<PathBuf> {
    let uris = given.workspace_folders.iter().flatten().map(|folder| folder.uri.as_str());
    uris.filter_map(file_path).filter_map(|path| Path::new(&path).canonicalize().ok()).collect()
}

/// Maximum number of manifests that are compiled in addition to the open ones.
const MOST_AROUND: usize = 1_000;

/// Returns the manifests in the workspace folders of open texts, or next to an open text outside of all
/// folders, without the open ones.
fn manifests_around(folders: &[PathBuf], buffers: &Buffers) -> Vec<Named> {
    let open: BTreeSet<PathBuf> =
        buffers.keys().filter_map(|name| Path::new(name).canonicalize().ok()).collect();
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for path in &open {
        let folder = folders.iter().find(|folder| path.starts_with(folder));
        let Some(dir) = folder.map(PathBuf::as_path).or(path.parent()).filter(|dir| seen.insert(*dir)) else {
            continue;
        };
        if folder.is_some() {
            found.extend(expand(&dir.to_string_lossy()).files.into_iter().map(|file| file.path));
        } else {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            let is_manifest = |path: &PathBuf| {
                path.is_file() && path.extension().is_some_and(|extension| extension == "kdl")
            };
            found.extend(entries.map(|entry| entry.path()).filter(is_manifest));
        }
    }
    let around = found.into_iter().filter(|path| !open.contains(path)).take(MOST_AROUND);
    let named = |path: PathBuf| Named {
        shown: path.to_string_lossy().into_owned(),
        walked: path.parent().map(Path::to_path_buf),
        path,
    };
    around.map(named).collect()
}

fn response(id: lsp_server::RequestId, answer: Result<Value, RequestError>) -> Response {
    match answer {
        Ok(value) => Response::new_ok(id, value),
        Err(RequestError::UnknownMethod(method)) => Response::new_err(
            id,
            ErrorCode::MethodNotFound as i32,
            format!("trainc does not support `{method}`"),
        ),
        Err(RequestError::BadParameters(why)) => Response::new_err(id, ErrorCode::InvalidParams as i32, why),
    }
}

/// The file system, overlaid with the editor's unsaved text.
struct Overlay<'a> {
    files: Files,
    buffers: &'a Buffers,
    /// True if program directories are read; a job's summary does not need them.
    reads_programs: bool,
}

impl Overlay<'_> {
    /// Returns the open text of the file at this canonical path.
    fn open(&self, canonical: &Path) -> Option<&String> {
        let same = |name: &&String| Path::new(name).canonicalize().is_ok_and(|path| path == canonical);
        self.buffers.keys().find(same).and_then(|name| self.buffers.get(name))
    }
}

impl LayerLoader for Overlay<'_> {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let mut loaded = self.files.read_layer(from, path)?;
        if let Some(text) = self.open(Path::new(&loaded.identity)) {
            loaded.text.clone_from(text);
        }
        Ok(loaded)
    }

    fn file_identity(&self, name: &str) -> String {
        self.files.file_identity(name)
    }
}

impl World for Overlay<'_> {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        if self.reads_programs { self.files.read_directory(from, path) } else { Err(ReadError::NotFound) }
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        let open = self.files.find(from, path).ok().and_then(|found| self.open(&found).cloned());
        open.map_or_else(|| self.files.read_text(from, path), Ok)
    }
}
