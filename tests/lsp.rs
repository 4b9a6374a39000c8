//! The language server, as an editor speaks with it: a real process, from `initialize` to `exit`.

use crate::support::{Scratch, TODAY, read, trainc};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use trainc_check::codes::T0142;
use trainc_syntax::codes::T0120;

struct Editor {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    next: i64,
    /// Problems by URI, as last published.
    problems: std::collections::BTreeMap<String, Vec<Value>>,
}

impl Editor {
    /// Starts the server and says hello; `encodings` is what the client offers.
    fn start(encodings: &[&str]) -> (Self, Value) {
        Self::start_with(json!({"capabilities": {"general": {"positionEncodings": encodings}}}))
    }

    /// Starts the server in a folder, as a client that watches files.
    fn start_in(folder: &Path) -> Self {
        let uri = format!("file://{}", folder.display());
        let watched = json!({"didChangeWatchedFiles": {"dynamicRegistration": true}});
        let folders = json!([{"uri": uri, "name": "jobs"}]);
        Self::start_with(json!({"capabilities": {"workspace": watched}, "workspaceFolders": folders})).0
    }

    fn start_with(hello: Value) -> (Self, Value) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_trainc"))
            .args(["lsp", "--today", TODAY])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            loop {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if out.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if let Some(given) = line.strip_prefix("Content-Length: ") {
                        length = given.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        break;
                    }
                }
                let mut body = vec![0; length];
                out.read_exact(&mut body).unwrap();
                if send.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        let to = child.stdin.take();
        let mut editor = Self { child, to, from, next: 0, problems: std::collections::BTreeMap::new() };
        let hello = editor.ask("initialize", hello);
        editor.tell("initialized", json!({}));
        (editor, hello)
    }

    fn write(&mut self, message: &Value) {
        let body = message.to_string();
        let to = self.to.as_mut().unwrap();
        write!(to, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        to.flush().unwrap();
    }

    /// The codes of the errors that answer bytes which are no message.
    fn refused(&mut self, bytes: &str) -> Value {
        self.to.as_mut().unwrap().write_all(bytes.as_bytes()).unwrap();
        self.from.recv_timeout(Duration::from_mins(2)).unwrap()["error"]["code"].clone()
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The whole answer to a request; what is published meanwhile is kept.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.read();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The next message; published problems are kept.
    fn read(&mut self) -> Value {
        let message = self.from.recv_timeout(Duration::from_mins(2)).unwrap();
        if message["method"] == "textDocument/publishDiagnostics" {
            let list = message["params"]["diagnostics"].as_array().unwrap().clone();
            self.problems.insert(message["params"]["uri"].as_str().unwrap().to_owned(), list);
        }
        message
    }

    /// Waits until a file has problems that pass the test.
    fn wait(&mut self, uri: &str, wanted: impl Fn(&[Value]) -> bool) {
        while !self.problems.get(uri).is_some_and(|list| wanted(list)) {
            self.read();
        }
    }

    /// Says that a file on disk changed; 1: created, 2: changed, 3: deleted.
    fn tell_of_file(&mut self, uri: &str, kind: u8) {
        let changes = json!([{"uri": uri, "type": kind}]);
        self.tell("workspace/didChangeWatchedFiles", json!({"changes": changes}));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({"uri": uri, "languageId": "kdl", "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
    }

    fn change(&mut self, uri: &str, text: &str) {
        let document = json!({"uri": uri, "version": 2});
        self.tell(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": [{"text": text}]}),
        );
    }

    /// The codes published for a file, once the server has read all that was told.
    fn codes(&mut self, uri: &str) -> Vec<String> {
        // Messages are taken in order: an answer comes after what was published before.
        self.ask("textDocument/documentSymbol", json!({"textDocument": {"uri": uri}}));
        let list = self.problems.get(uri).cloned().unwrap_or_default();
        list.iter().map(|problem| problem["code"].as_str().unwrap().to_owned()).collect()
    }

    fn stop(mut self) -> Option<i32> {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        drop(self.to.take());
        self.child.wait().unwrap().code()
    }
}

/// Where the first `|` stands in a text, and the text without it.
fn marked(text: &str) -> (String, Value) {
    let at = text.find('|').unwrap();
    let before = &text[..at];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
    (text.replacen('|', "", 1), json!({"line": line, "character": column}))
}

fn labels(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect()
}

/// A directory with a layer and a job over it.
struct Files {
    _dir: Scratch,
    base: String,
    job: String,
}

fn files(name: &str) -> Files {
    let dir = Scratch::new(name);
    let base = dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "");
    let job = dir.write("job.kdl", "extends \"base.kdl\"\njob \"example\" {\n}\n");
    let uri = |path: &std::path::Path| format!("file://{}", path.canonicalize().unwrap().display());
    Files { base: uri(&base), job: uri(&job), _dir: dir }
}

#[test]
fn a_faulty_message_does_not_end_the_session() {
    let (mut editor, _) = Editor::start(&["utf-8"]);
    for bytes in [
        "Content-Length: 9223372036854775807\r\n\r\n",
        "Content-Length: 99999999999\r\n\r\n",
        "Content-Length: x\r\n\r\n",
        "Content-Length: 1\r\n\r\n{",
    ] {
        // A message without a fault follows, by which the next is found.
        assert_eq!(editor.refused(bytes), -32700, "{bytes:?}");
        let uri = "file:///nowhere/job.kdl";
        editor.open(uri, "job \"x\" {\n}\n");
        assert!(!editor.codes(uri).is_empty(), "{bytes:?}");
    }
}

#[test]
fn a_session_from_initialize_to_exit() {
    let files = files("lsp-session");
    let (mut editor, hello) = Editor::start(&["utf-16"]);
    assert_eq!(hello["capabilities"]["positionEncoding"], "utf-16");
    assert_eq!(hello["serverInfo"]["name"], "trainc");

    let text = "extends \"base.kdl\"\njob \"example\" {\n    /* ä😀 */ train { micro-batchh 2; }\n}\n";
    editor.open(&files.job, text);
    assert_eq!(editor.codes(&files.job), [T0120.id], "{:?}", editor.problems);
    let problem = editor.problems[&files.job][0].clone();
    // In units of UTF-16 the sign before it counts two.
    let start = text.lines().nth(2).unwrap().split("micro").next().unwrap().encode_utf16().count();
    assert_eq!(problem["range"]["start"], json!({"line": 2, "character": start}));
    assert_eq!(problem["severity"], 1);
    assert!(problem["message"].as_str().unwrap().contains("help: did you mean `micro-batch`?"), "{problem}");

    // Its edit mends it.
    let actions = editor.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": files.job}, "range": problem["range"], "context": {"diagnostics": []}}),
    );
    let edit = &actions[0]["edit"]["changes"][&files.job][0];
    assert_eq!(edit["newText"], "micro-batch", "{actions}");
    editor.change(&files.job, &text.replace("micro-batchh", "micro-batch"));
    assert!(editor.codes(&files.job).is_empty(), "{:?}", editor.problems);

    // A method that it does not have is refused, and the session goes on.
    let answer = editor.answer("textDocument/rename", json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(editor.stop(), Some(0));
}

#[test]
fn unsaved_layers_count() {
    let files = files("lsp-layers");
    let (mut editor, hello) = Editor::start(&["utf-16", "utf-8"]);
    assert_eq!(hello["capabilities"]["positionEncoding"], "utf-8");
    editor.open(&files.job, "extends \"base.kdl\"\njob \"example\" {\n}\n");
    assert!(editor.codes(&files.job).is_empty());
    // The layer itself is no mistake for lack of a job.
    let base = read("tests/fixtures/base.kdl");
    editor.open(&files.base, &base);
    assert!(!editor.codes(&files.base).contains(&"T0207".to_owned()));
    // What is typed into it is a problem of it, seen from the job, without being saved.
    editor.change(
        &files.base,
        &base.replace("nodes=2", "nodes=2 {\n    max-run 5").replace("{\n    max-run \"1d\"", ""),
    );
    assert_eq!(editor.codes(&files.base).first().map(String::as_str), Some("T0125"), "{:?}", editor.problems);
    // Closed, the file on disk counts again.
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": files.base}}));
    assert!(editor.codes(&files.job).is_empty());
    assert!(
        !editor.problems[&files.base].iter().any(|problem| problem["severity"] == 1),
        "{:?}",
        editor.problems
    );
    assert_eq!(editor.stop(), Some(0));
}

/// A job next to an open one is compared with it, open or not.
#[test]
fn rules_across_jobs_are_checked() {
    let dir = Scratch::new("lsp-across-jobs");
    dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "");
    let job = |name: &str| format!("extends \"base.kdl\"\njob \"{name}\" {{\n}}\n");
    let path = |name: &str| dir.write(name, job("example")).canonicalize().unwrap();
    let uri = |path: &std::path::Path| format!("file://{}", path.display());
    let (first, second) = (uri(&path("first.kdl")), uri(&path("second.kdl")));
    let (mut editor, _) = Editor::start(&[]);
    editor.open(&first, &job("example"));
    // The other one is checked in the background.
    editor.wait(&first, |list| list.iter().any(|one| one["code"] == T0142.id));
    assert_eq!(editor.codes(&first), [T0142.id], "{:?}", editor.problems);
    let related = &editor.problems[&first][0]["relatedInformation"][0]["location"];
    assert_eq!((&related["uri"], &related["range"]["start"]["line"]), (&json!(second), &json!(1)));
    // Of two open jobs the later by name has the problem.
    editor.open(&second, &job("example"));
    assert!(editor.codes(&first).is_empty());
    assert_eq!(editor.codes(&second), [T0142.id], "{:?}", editor.problems);
    // Another name solves it without being saved.
    editor.change(&second, &job("other"));
    assert!(editor.codes(&second).is_empty());
    assert_eq!(editor.stop(), Some(0));
}

#[test]
fn hover_says_what_it_is_and_what_became_of_it() {
    let files = files("lsp-hover");
    let (mut editor, _) = Editor::start(&[]);
    let mut hover = |nodes: &str| {
        let (text, position) = marked(&format!("extends \"base.kdl\"\njob \"example\" {{\n{nodes}\n}}\n"));
        editor.open(&files.job, &text);
        let place = json!({"textDocument": {"uri": files.job}, "position": position});
        editor.ask("textDocument/hover", place)["contents"]["value"].as_str().unwrap_or("").to_owned()
    };
    let node = hover("    tra|in { micro-batch 2; }");
    assert!(node.contains("exactly one of steps, tokens and epochs"), "{node}");
    let value = hover("    train { micro-batch |2; }");
    assert!(
        value.contains("sequences per data-parallel rank") && value.contains("`train.micro-batch` = 2"),
        "{value}"
    );
    let property = hover("    cluster \"ml.p4d.24xlarge\" no|des=4");
    assert!(
        property.contains("a whole number from 1") && property.contains("`cluster.nodes` = 4"),
        "{property}"
    );
    let placeholder = hover("    program \"train.py\" { hyperparameter \"steps\" \"{{ run.st|eps }}\"; }");
    assert!(placeholder.starts_with("`{{ run.steps }}`: "), "{placeholder}");
    assert!(placeholder.contains("`run.steps` = 100, from "), "{placeholder}");
    // In the words of `trainc explain`.
    for (nodes, topic) in [
        ("    clus|ter \"ml.p4d.24xlarge\" nodes=4 { spot max-wait=\"9d\"; }", "cluster"),
        ("    cluster \"ml.p4d.24xlarge\" nodes=4 { sp|ot max-wait=\"9d\"; }", "cluster.spot"),
        ("    cluster \"ml.p4d.24xlarge\" nodes=4 { spot max-w|ait=\"9d\"; }", "cluster.spot.max-wait"),
        ("    program \"train.py\" { hyperparameter \"b\" \"{{ batch.mi|cro }}\"; }", "batch.micro"),
        ("    allow \"T03|01\"", "T0301"),
    ] {
        let words = |text: &str| {
            // A terminal shows no fences of code.
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("```")).collect();
            let marks = |c: char| !c.is_ascii_alphanumeric();
            let lines = lines.join("\n");
            let words = lines.split(marks).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let (shown, printed) = (words(&hover(nodes)), words(&trainc(&["explain", topic]).out));
        assert!(printed.len() > 5 && shown.starts_with(&printed), "{topic}: {shown:?} {printed:?}");
    }
    assert_eq!(hover("    |"), "");
    assert_eq!(editor.stop(), Some(0));
}

#[test]
fn completion_knows_the_language_and_the_catalogue() {
    let files = files("lsp-complete");
    let (mut editor, _) = Editor::start(&[]);
    let mut complete = |nodes: &str| {
        let (text, position) = marked(&format!("extends \"base.kdl\"\njob \"example\" {{\n{nodes}\n}}\n"));
        editor.open(&files.job, &text);
        editor
            .ask("textDocument/completion", json!({"textDocument": {"uri": files.job}, "position": position}))
    };
    let nodes = complete("    train {\n        steps 5\n        |\n    }");
    assert!(labels(&nodes).contains(&"micro-batch") && !labels(&nodes).contains(&"steps"), "{nodes}");
    let job = complete("    che|");
    assert!(labels(&job).contains(&"checkpoint") && labels(&job).contains(&"channel"), "{job}");
    let engines = complete("    parallel engine=\"|\"");
    assert_eq!(labels(&engines), trainc_syntax::nodes::ENGINE_NAMES);
    assert_eq!(engines[0]["textEdit"]["newText"], "\"fsdp\"");
    let of_engine = complete("    parallel engine=\"fsdp\" {\n        |\n    }");
    assert!(
        labels(&of_engine).contains(&"wrap") && !labels(&of_engine).contains(&"tensor-degree"),
        "{of_engine}"
    );
    let words = complete("    train { precision \"|\"; }");
    assert_eq!(labels(&words), ["fp32", "fp16", "bf16", "fp8"]);
    for (place, wanted) in [
        ("    region \"|\"", "us-west-2"),
        ("    cluster \"|\" nodes=2", "ml.p4d.24xlarge"),
        ("    model \"|\"", "gpt2-xl"),
        ("    image \"pytorch\" version=\"|\"", "2.8.0"),
        ("    cluster \"ml.p4d.24xlarge\" |", "nodes="),
        ("    train { flash-attention |; }", "#true"),
    ] {
        let found = complete(place);
        assert!(labels(&found).contains(&wanted), "{place}: {:?}", labels(&found));
    }
    let found = complete("    cluster \"|\" nodes=2");
    let p4d = found.as_array().unwrap().iter().find(|item| item["label"] == "ml.p4d.24xlarge").unwrap();
    let instance = p4d["detail"].as_str().unwrap();
    assert!(instance.starts_with("8 × ") && instance.contains(" GiB, $"), "{instance}");
    let model = complete("    model \"|\"");
    let item = model.as_array().unwrap().iter().find(|item| item["label"] == "gpt2-xl").unwrap().clone();
    assert_eq!(editor.ask("completionItem/resolve", item)["detail"], "1.56 billion parameters");
    assert_eq!(editor.stop(), Some(0));
}

#[test]
fn definition_outline_and_layout() {
    let files = files("lsp-define");
    let (mut editor, _) = Editor::start(&[]);
    let (text, position) = marked("extends \"ba|se.kdl\"\njob \"example\" {\n}\n");
    editor.open(&files.job, &text);
    let place = |position: &Value| json!({"textDocument": {"uri": files.job}, "position": position});
    let found = editor.ask("textDocument/definition", place(&position));
    assert_eq!(found["uri"], json!(files.base), "{found}");

    let (text, position) = marked(
        "extends \"base.kdl\"\njob \"example\" {\n  program \"train.py\" {\n    hyperparameter \
            \"lr\" \"{{ train.l|r }}\"\n  }\n}\n",
    );
    editor.change(&files.job, &text);
    let found = editor.ask("textDocument/definition", place(&position));
    assert_eq!(found["uri"], json!(files.base), "{found}");
    let line = read("tests/fixtures/base.kdl").lines().position(|line| line.contains("optimizer")).unwrap();
    assert_eq!(found["range"]["start"]["line"], json!(line));

    let outline = editor.ask("textDocument/documentSymbol", json!({"textDocument": {"uri": files.job}}));
    assert_eq!(outline[1]["name"], "job");
    assert_eq!(outline[1]["detail"], "example");
    assert_eq!(outline[1]["children"][0]["children"][0]["detail"], "lr");

    let options = json!({"tabSize": 4, "insertSpaces": true});
    let ask = json!({"textDocument": {"uri": files.job}, "options": options});
    let edits = editor.ask("textDocument/formatting", ask.clone());
    let new = edits[0]["newText"].as_str().unwrap().to_owned();
    assert!(new.contains("\n    program \"train.py\" {\n        hyperparameter"), "{new}");
    editor.change(&files.job, &new);
    assert_eq!(editor.ask("textDocument/formatting", ask), json!([]));
    assert_eq!(editor.stop(), Some(0));
}

/// All manifests of a folder, open or not, with names relative to it; again when what they read changes.
#[test]
fn a_folder_is_checked_as_a_whole() {
    let dir = Scratch::new("lsp-folder");
    let folder = dir.write("trainc.kdl", "").parent().unwrap().canonicalize().unwrap();
    dir.write("layers/base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("layers/scripts/train.py", "");
    dir.write("zellij.kdl", "keybinds {\n    bind \"Alt h\"\n}\n");
    let job = "extends \"../layers/base.kdl\"\njob \"example\" {\n}\n";
    dir.write("jobs/a.kdl", job);
    dir.write("jobs/b.kdl", job);
    let uri = |name: &str| format!("file://{}/{name}", folder.display());
    let has = |code: &'static str| move |list: &[Value]| list.iter().any(|one| one["code"] == code);
    let mut editor = Editor::start_in(&folder);
    // Nothing is open.
    editor.wait(&uri("jobs/b.kdl"), has(T0142.id));
    let message = editor.problems[&uri("jobs/b.kdl")][0]["message"].clone();
    assert!(message.as_str().unwrap().starts_with("`jobs/a.kdl` describes a job"), "{message}");
    dir.write("jobs/b.kdl", job.replace("example", "other"));
    editor.tell_of_file(&uri("jobs/b.kdl"), 2);
    editor.wait(&uri("jobs/b.kdl"), <[serde_json::Value]>::is_empty);
    // A layer of both, and the directory of their program.
    let base = read("tests/fixtures/base.kdl");
    dir.write("layers/base.kdl", base.replace("micro-batch", "micro-batchh"));
    editor.tell_of_file(&uri("layers/base.kdl"), 2);
    editor.wait(&uri("layers/base.kdl"), has(T0120.id));
    dir.write("layers/base.kdl", &base);
    editor.tell_of_file(&uri("layers/base.kdl"), 2);
    editor.wait(&uri("layers/base.kdl"), |list| !has(T0120.id)(list));
    std::fs::remove_dir_all(folder.join("layers/scripts")).unwrap();
    editor.tell_of_file(&uri("layers/scripts"), 3);
    editor.wait(&uri("layers/base.kdl"), has("T0501"));
    dir.write("layers/scripts/train.py", "");
    editor.tell_of_file(&uri("layers/scripts/train.py"), 1);
    editor.wait(&uri("layers/base.kdl"), |list| !has("T0501")(list));
    // Unsaved text of a layer counts for manifests that are not open.
    editor.open(&uri("layers/base.kdl"), &base.replace("micro-batch", "micro-batchh"));
    assert!(editor.codes(&uri("layers/base.kdl")).contains(&T0120.id.to_owned()));
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": uri("layers/base.kdl")}}));
    editor.wait(&uri("layers/base.kdl"), |list| !has(T0120.id)(list));
    // A deleted manifest has no problems.
    dir.write("jobs/b.kdl", job);
    editor.tell_of_file(&uri("jobs/b.kdl"), 2);
    editor.wait(&uri("jobs/b.kdl"), has(T0142.id));
    std::fs::remove_file(folder.join("jobs/b.kdl")).unwrap();
    editor.tell_of_file(&uri("jobs/b.kdl"), 3);
    editor.wait(&uri("jobs/b.kdl"), <[serde_json::Value]>::is_empty);
    assert!(!editor.problems.contains_key(&uri("zellij.kdl")), "{:?}", editor.problems);
    // A folder that is added later, and removed again.
    let later = Scratch::new("lsp-folder-later");
    let second = later.write("wrong.kdl", "job 7\n").canonicalize().unwrap();
    let wrong = format!("file://{}", second.display());
    let folder = json!({"uri": format!("file://{}", second.parent().unwrap().display()), "name": "later"});
    let change = |added: Value, removed: Value| json!({"event": {"added": added, "removed": removed}});
    editor.tell("workspace/didChangeWorkspaceFolders", change(json!([folder]), json!([])));
    editor.wait(&wrong, |list| !list.is_empty());
    editor.tell("workspace/didChangeWorkspaceFolders", change(json!([]), json!([folder])));
    editor.wait(&wrong, <[serde_json::Value]>::is_empty);
    assert_eq!(editor.stop(), Some(0));
}

/// A manifest that a link leads to, outside of the repository, is not read.
#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_not_read() {
    let dir = Scratch::new("lsp-link");
    let folder =
        dir.write("repository/.git/HEAD", "").parent().unwrap().parent().unwrap().canonicalize().unwrap();
    let broken = "job \"example\" {\n    banana\n}\n";
    let outside = dir.write("outside.kdl", broken).canonicalize().unwrap();
    std::os::unix::fs::symlink(outside, folder.join("a.kdl")).unwrap();
    dir.write("repository/b.kdl", broken);
    let mut editor = Editor::start_in(&folder);
    let uri = |name: &str| format!("file://{}/{name}", folder.display());
    editor.wait(&uri("b.kdl"), |list| !list.is_empty());
    assert!(!editor.problems.contains_key(&uri("a.kdl")), "{:?}", editor.problems);
    assert_eq!(editor.stop(), Some(0));
}

/// A request that the client takes back while it waits is not computed.
#[test]
fn a_cancelled_request_is_not_answered() {
    let files = files("lsp-cancel");
    let (mut editor, _) = Editor::start(&[]);
    let text = "extends \"base.kdl\"\njob \"example\" {\n}\n";
    editor.open(&files.job, text);
    for number in 1_000.. {
        // Both are sent while the change before them is compiled; how far the server has come is not known.
        editor.change(&files.job, text);
        let document = json!({"textDocument": {"uri": files.job}});
        let method = "textDocument/documentSymbol";
        editor.write(&json!({"jsonrpc": "2.0", "id": number, "method": method, "params": document}));
        editor.tell("$/cancelRequest", json!({"id": number}));
        let answer = loop {
            let message = editor.read();
            if message["id"] == number {
                break message;
            }
        };
        if answer["error"]["code"] == -32800 {
            break;
        }
        assert!(number < 1_200, "never cancelled: {answer}");
    }
    assert_eq!(editor.stop(), Some(0));
}
