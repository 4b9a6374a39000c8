//! The commands that may be given an untrusted manifest: no connection, no git, no credentials, no file outside the
//! repository.

use crate::support::{Scratch, read};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A manifest with its replaced lines, and the code that it is refused with.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);

/// What files outside of the repository hold: shown nowhere.
const OUTSIDE: &str = "held-outside-of-the-repository";

/// A repository of a stranger, and what it must not touch: the address of every service, `git`, `~/.aws` and the
/// directory above.
struct Stranger {
    scratch: Scratch,
    listener: TcpListener,
}

impl Stranger {
    fn new() -> Self {
        let scratch = Scratch::new("untrusted");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        scratch.write("bin/git", "#!/bin/sh\necho \"$@\" >>\"${0%/*}/../git-calls\"\nexit 1\n");
        fs::set_permissions(scratch.0.join("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
        // Whoever opens a pipe that has no writer waits for ever.
        fs::create_dir_all(scratch.0.join("home/.aws")).unwrap();
        for name in ["config", "credentials"] {
            let made = Command::new("mkfifo").arg(scratch.0.join("home/.aws").join(name)).status().unwrap();
            assert!(made.success());
        }
        scratch.write("layer.kdl", format!("tags note=\"{OUTSIDE}\"\n"));
        scratch.write("outside/train.py", format!("# {OUTSIDE}\n"));
        scratch.write("config.json", format!("{{\"model_type\": \"{OUTSIDE}\"}}\n"));
        fs::create_dir_all(scratch.0.join("repo/.git")).unwrap();
        for file in ["train.py", "requirements.txt"] {
            scratch.write(&format!("repo/scripts/{file}"), read(&format!("examples/starter/scripts/{file}")));
        }
        Self { scratch, listener }
    }

    fn repo(&self) -> std::path::PathBuf {
        self.scratch.0.join("repo")
    }

    fn write(&self, name: &str, edits: &[(&str, &str)]) {
        let mut text = read("examples/starter/trainc.kdl");
        for (old, new) in edits {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        self.scratch.write(&format!("repo/{name}"), text);
    }

    /// Runs a command; one that waits on a pipe is killed, and fails the test.
    #[track_caller]
    fn trainc(&self, args: &[&str]) -> Output {
        let address = format!("http://{}", self.listener.local_addr().unwrap());
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainc"));
        command
            .args(args)
            .current_dir(self.repo())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.scratch.0.join("bin").display()))
            .env("HOME", self.scratch.0.join("home"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in ["AWS_ENDPOINT_URL", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(name, &address);
        }
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let mut done = false;
        let (out, err) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
        while !done && start.elapsed() < Duration::from_mins(2) {
            thread::sleep(Duration::from_millis(5));
            done = child.try_wait().unwrap().is_some();
        }
        if !done {
            let _ = child.kill();
        }
        let output = Output {
            status: child.wait().unwrap(),
            stdout: out.join().unwrap(),
            stderr: err.join().unwrap(),
        };
        let text = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
        assert!(done, "{args:?} does not end: {text}");
        assert!(!text.contains("panicked") && !text.contains(OUTSIDE), "{args:?}: {text}");
        assert!(self.listener.accept().is_err(), "{args:?} opens a connection: {text}");
        let git = fs::read_to_string(self.scratch.0.join("git-calls")).unwrap_or_default();
        assert!(git.is_empty(), "{args:?} runs git: {git}");
        output
    }
}

fn drain(mut from: impl std::io::Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

#[test]
fn an_untrusted_manifest_reaches_nothing_outside_its_repository() {
    let stranger = Stranger::new();
    let program = "program \"train.py\" source=\"./scripts\" {";
    let fetched = "program \"train.py\" git=\"https://127.0.0.1/x.git\" branch=\"main\" {";
    let region = "region \"us-west-2\"";
    let secret = |region: &str| {
        format!(
            "{program}\n        secret \"TOKEN\" from=\"arn:aws:secretsmanager:{region}:111122223333:secret:k-AbCdEf\""
        )
    };
    let job = "job \"my-first-job\" {";
    let extends = |path: &str| format!("extends \"{path}\"\n{job}");
    symlink("../layer.kdl", stranger.repo().join("link.kdl")).unwrap();
    symlink("../outside", stranger.repo().join("linked")).unwrap();
    symlink("../config.json", stranger.repo().join("config.json")).unwrap();
    let absolute = stranger.scratch.0.join("layer.kdl").display().to_string();
    let cases: [Case<'_>; 11] = [
        ("valid.kdl", &[(program, &secret("us-west-2"))], None),
        ("git.kdl", &[(program, fetched)], None),
        ("host.kdl", &[(program, &secret("x@127.0.0.1/#"))], Some("T0437")),
        ("region.kdl", &[(region, "region \"x@127.0.0.1/#\"")], Some("T0321")),
        ("layer.kdl", &[(job, &extends("../layer.kdl"))], Some("T0203")),
        ("absolute.kdl", &[(job, &extends(&absolute))], Some("T0203")),
        ("linked-layer.kdl", &[(job, &extends("link.kdl"))], Some("T0203")),
        ("source.kdl", &[("./scripts", "../outside")], Some("T0501")),
        ("linked-source.kdl", &[("./scripts", "./linked")], Some("T0501")),
        ("config.kdl", &[("model \"gpt2-xl\"", "model config=\"../config.json\"")], Some("T0342")),
        ("linked-config.kdl", &[("model \"gpt2-xl\"", "model config=\"config.json\"")], Some("T0342")),
    ];
    for (name, edits, error) in cases {
        stranger.write(name, edits);
        let out = format!("../out-{name}");
        for args in [
            &["check", name][..],
            &["plan", "--offline", name],
            &["emit", name, "--out", &out],
            &["tune", name],
            &["fmt", "--check", name],
        ] {
            let ran = stranger.trainc(args);
            let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
            let code = ran.status.code().unwrap();
            match error.filter(|_| args[0] != "fmt") {
                Some(id) => assert!(code == 3 && text.contains(id), "{args:?}: {code} {text}"),
                None => assert!(code == 0 || args[0] == "fmt", "{args:?}: {code} {text}"),
            }
        }
    }
    stranger.trainc(&["explain", "T0437"]);
    // The commands that ask the account do not ask where the manifest says.
    for (name, commands) in
        [("host.kdl", &["plan", "apply"][..]), ("region.kdl", &["plan", "apply", "status", "watch", "logs"])]
    {
        for command in commands {
            let ran = stranger.trainc(&[command, name]);
            let text = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(3), "{command} {name}: {text}");
        }
    }
}
