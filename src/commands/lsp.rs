//! `trainc lsp`.

mod transport;
mod workspace;

use crate::exit;
use crossbeam_channel::{Receiver, Sender, select};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::{DidChangeWorkspaceFoldersParams, InitializeParams, WorkspaceFolder};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainc_diag::source::SourceMap;
use trainc_ir::date::epoch_days;
use trainc_lsp::{Buffers, Changed, CheckedManifest, Client, RequestError, Server, file_path};
use trainc_plan::Options;
use trainc_plan::resolve::Choices;
use trainc_project::files::describe;
use transport::Transport;
use workspace::Update;

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
    // Files are named as on a command line in the first folder.
    let first = folders.first().filter(|folder| std::env::set_current_dir(folder).is_ok());
    let client = Client::new(&given, first.map(String::as_str));
    let options = Arc::new(Options {
        choices: Choices {
            env: args.env.clone(),
            role_boundary: crate::args::overlay::role_boundary(),
            ..Choices::default()
        },
        today: today.to_owned(),
        later_codes: crate::later_codes(),
        ..Options::default()
    });
    let compile = |name: &str, text: &str, buffers: &Buffers, sources: SourceMap| {
        workspace::compile_manifest(name, text, &Arc::new(workspace::edits(buffers)), &options, sources)
    };
    let mut server = Server::new(&compile, client.clone()).today(epoch_days(today)).codes(crate::codes());
    let me = json!({
        "capabilities": server.capabilities(),
        "serverInfo": {"name": "trainc", "version": env!("CARGO_PKG_VERSION")},
    });
    connection.initialize_finish(id, me).map_err(|error| describe_end(&error))?;
    let folders: Vec<PathBuf> =
        folders.iter().filter_map(|folder| Path::new(folder).canonicalize().ok()).collect();
    let (updates, to_check) = crossbeam_channel::unbounded();
    let (send_checked, checked) = crossbeam_channel::unbounded();
    let checker = workspace::Checker::new(Arc::clone(&options), client);
    // Not joined: it may be reading a large directory when the session ends.
    std::thread::spawn(move || checker.run(&to_check, &send_checked));
    let mut session = Session {
        connection,
        server: &mut server,
        waiting: VecDeque::new(),
        folders,
        updates,
        checked,
        is_shut_down: false,
    };
    if watches_files(&given) {
        session.send(Message::Request(watch_request()))?;
    }
    session.update(Changed { names: Vec::new(), is_list_outdated: true });
    session.run()
}

/// Returns the paths of the workspace folders of the client, as it writes them.
fn folders(given: &InitializeParams) -> Vec<String> {
    let folders = given.workspace_folders.iter().flatten().map(|folder| folder.uri.as_str());
    let mut paths: Vec<String> = folders.filter_map(file_path).collect();
    if paths.is_empty() {
        #[expect(deprecated, reason = "older clients name no folders")]
        paths.extend(given.root_uri.as_ref().and_then(|uri| file_path(uri.as_str())));
    }
    paths
}

fn watches_files(given: &InitializeParams) -> bool {
    let workspace = given.capabilities.workspace.as_ref();
    let watched = workspace.and_then(|workspace| workspace.did_change_watched_files.as_ref());
    watched.and_then(|watched| watched.dynamic_registration).unwrap_or_default()
}

/// Asks the client to report changes of any file: programs, configs and data of any name may be read.
fn watch_request() -> Request {
    let watchers = json!({"watchers": [{"globPattern": "**/*"}]});
    let method = "workspace/didChangeWatchedFiles";
    let registration = json!({"id": "files", "method": method, "registerOptions": watchers});
    let id = lsp_server::RequestId::from("watch-files".to_owned());
    Request::new(id, "client/registerCapability".to_owned(), json!({"registrations": [registration]}))
}

/// A session after `initialize`.
struct Session<'a, 'b> {
    connection: &'a Connection,
    server: &'a mut Server<'b>,
    /// Messages that were received and not yet handled.
    waiting: VecDeque<Message>,
    /// Canonical paths of the workspace folders.
    folders: Vec<PathBuf>,
    updates: Sender<Update>,
    checked: Receiver<Vec<(String, Option<CheckedManifest>)>>,
    is_shut_down: bool,
}

impl Session<'_, '_> {
    /// Handles messages to the end of the session; returns the exit code.
    fn run(&mut self) -> Result<u8, String> {
        loop {
            if self.waiting.is_empty() {
                self.publish()?;
                select! {
                    recv(self.connection.receiver) -> message => match message {
                        Ok(message) => self.waiting.push_back(message),
                        Err(_) => return Ok(exit::DONE),
                    },
                    recv(self.checked) -> checked => {
                        self.server.replace_closed(checked.into_iter().flatten());
                        continue;
                    }
                }
            }
            self.waiting.extend(self.connection.receiver.try_iter());
            let Some(message) = self.waiting.pop_front() else { continue };
            if let Some(code) = self.handle(message)? {
                return Ok(code);
            }
        }
    }

    /// Handles a message; returns the exit code if it ends the session.
    fn handle(&mut self, message: Message) -> Result<Option<u8>, String> {
        match message {
            Message::Request(request) => {
                let response = self.answer(request)?;
                self.send(Message::Response(response))?;
            }
            Message::Notification(notification) if notification.method == "exit" => {
                return Ok(Some(if self.is_shut_down { exit::DONE } else { EXIT_WITHOUT_SHUTDOWN }));
            }
            Message::Notification(one) if one.method == "workspace/didChangeWorkspaceFolders" => {
                if let Ok(changed) = serde_json::from_value(one.params) {
                    self.change_folders(&changed);
                    self.update(Changed { names: Vec::new(), is_list_outdated: true });
                }
            }
            Message::Notification(Notification { method, params }) => {
                let changed = self.server.notify(&method, params);
                if changed != Changed::default() {
                    self.update(changed);
                }
            }
            Message::Response(_) => {}
        }
        Ok(None)
    }

    fn answer(&mut self, request: Request) -> Result<Response, String> {
        let Request { id, method, params } = request;
        if self.is_shut_down {
            let why = "the session is shut down".to_owned();
            return Ok(Response::new_err(id, ErrorCode::InvalidRequest as i32, why));
        }
        if method == "shutdown" {
            self.is_shut_down = true;
            return Ok(Response::new_ok(id, Value::Null));
        }
        let cancels = |message: &Message| {
            matches!(message, Message::Notification(one)
                if one.method == "$/cancelRequest" && one.params.get("id") == Some(&json!(id)))
        };
        if self.waiting.iter().any(cancels) {
            let why = "cancelled by the client".to_owned();
            return Ok(Response::new_err(id, ErrorCode::RequestCanceled as i32, why));
        }
        // Completion needs the text alone.
        if !matches!(method.as_str(), "textDocument/completion" | "completionItem/resolve") {
            self.publish()?;
        }
        Ok(response(id, self.server.answer(&method, params)))
    }

    /// Compiles what changed, and publishes its problems.
    fn publish(&mut self) -> Result<(), String> {
        for problems in self.server.settle() {
            let method = "textDocument/publishDiagnostics".to_owned();
            self.send(Message::Notification(Notification::new(method, problems)))?;
        }
        Ok(())
    }

    /// Notes what changed, for the open documents and for the other manifests.
    fn update(&mut self, changed: Changed) {
        let paths: Vec<PathBuf> =
            changed.names.iter().filter_map(|name| workspace::canonical(name)).collect();
        self.server.files_changed(&paths);
        let edits = Arc::new(workspace::edits(&self.server.buffers()));
        let is_list_outdated = changed.is_list_outdated;
        // The checker ends with the session.
        let folders = self.folders.clone();
        let _ = self.updates.send(Update { folders, edits, paths, is_list_outdated });
    }

    /// Adds and removes workspace folders. Names of files stay relative to the first folder of the session.
    fn change_folders(&mut self, changed: &DidChangeWorkspaceFoldersParams) {
        let path =
            |folder: &WorkspaceFolder| PathBuf::from(file_path(folder.uri.as_str())?).canonicalize().ok();
        let removed: Vec<PathBuf> = changed.event.removed.iter().filter_map(path).collect();
        self.folders.retain(|folder| !removed.contains(folder));
        for folder in changed.event.added.iter().filter_map(path) {
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
    }

    fn send(&self, message: Message) -> Result<(), String> {
        self.connection.sender.send(message).map_err(|error| error.to_string())
    }
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
