//! Attacks on a running rendezvous by a stranger who can connect to it and knows the config, but not the key.

use std::fs::{File, read_to_string};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use trainc_worker::config::Config;

use crate::cases::{Place, mesh};
use crate::hosts::{free_port, hosts, two_hosts};
use crate::processes::{alone, place, signal, text, wait_for_checkpoint, wait_until, worker, write};

/// A training run of two hosts, whose errors are in files: nobody reads them while it runs.
struct Run {
    place: Place,
    hosts: [Child; 2],
    port: u16,
    /// Text of the config as an earlier protocol sent it.
    settings: String,
}

impl Run {
    fn start(name: &str) -> Self {
        let (place, config) = place(name);
        let mut config = mesh(config, 4, 1, 1);
        config["cluster"]["nodes"] = json!(2);
        config["schedule"]["steps"] = json!(1_000_000);
        config["checkpoint"]["every_steps"] = json!(20);
        config["communication"]["environment"] = json!({"SECRET": "swordfish"});
        let path = write(&place, &config);
        let mut settings = serde_json::to_value(Config::parse(&config.to_string()).unwrap()).unwrap();
        settings["version of trainc-worker"] = json!(env!("CARGO_PKG_VERSION"));
        let port = free_port();
        let commands = hosts(&["launch", &path], port, [Path::new("."); 2], &[]);
        let errors = ["first", "second"].map(|name| File::create(place.at(name)).unwrap());
        let started = commands.into_iter().zip(errors);
        let started = started.map(|(mut host, to)| host.stdout(Stdio::null()).stderr(to).spawn().unwrap());
        let mut hosts: [Child; 2] = started.collect::<Vec<_>>().try_into().unwrap();
        wait_for_checkpoint(&mut hosts[0], &place.at("checkpoints"));
        Self { place, hosts, port, settings: settings.to_string() }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// Sends a line; returns the answer, which is empty if the connection is closed.
    fn ask(&self, line: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let bytes = stream.read(&mut answer).unwrap_or(0);
        text(&answer[..bytes])
    }

    /// Returns the number in a line of the first launcher's status.
    fn status(&self, name: &str) -> u64 {
        let all = read_to_string(format!("/proc/{}/status", self.hosts[0].id())).unwrap();
        let line = all.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().find_map(|word| word.parse().ok()).unwrap()
    }

    /// Ends the run, which must go on until then. Returns the first host's stderr.
    fn finish(mut self) -> String {
        wait_for_checkpoint(&mut self.hosts[0], &self.place.at("checkpoints"));
        self.hosts.iter().for_each(|host| signal(host.id(), "-TERM"));
        let codes = self.hosts.each_mut().map(|host| host.wait().unwrap().code());
        let [first, second] = ["first", "second"].map(|name| read_to_string(self.place.at(name)).unwrap());
        assert_eq!(codes, [Some(75); 2], "{first}\n{second}");
        first
    }
}

#[test]
fn a_stranger_cannot_end_a_job_or_write_to_its_error() {
    let _alone = alone();
    let run = Run::start("attack-end");
    let host = json!({"host": {"host": 1, "config": run.settings}});
    let gone = json!({"gone": [2, "\u{1b}]0;owned\u{7}"]});
    run.ask(&format!("{host}\n{gone}"));
    assert!(!run.finish().contains('\u{1b}'));
}

#[test]
fn a_stranger_cannot_read_the_config() {
    let _alone = alone();
    let run = Run::start("attack-read");
    let mut settings: serde_json::Value = serde_json::from_str(&run.settings).unwrap();
    settings.as_object_mut().unwrap().remove("communication");
    let answer = run.ask(&json!({"host": {"host": 1, "config": settings.to_string()}}).to_string());
    assert!(!answer.contains("communication") && !answer.contains("swordfish"), "{answer}");
    run.finish();
}

#[test]
fn an_endless_line_takes_no_memory() {
    let _alone = alone();
    let run = Run::start("attack-line");
    let before = run.status("VmRSS:");
    let mut stream = run.connect();
    let part = vec![b'a'; 1 << 20];
    for _ in 0..256 {
        // The connection is closed early.
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    let after = run.status("VmRSS:");
    assert!(after < before + (64 << 10), "{before} KiB, then {after} KiB");
    run.finish();
}

#[test]
fn connections_are_bounded() {
    let _alone = alone();
    let run = Run::start("attack-threads");
    let idle: Vec<TcpStream> = (0..300).map(|_| run.connect()).collect();
    // A connection that sends byte by byte is closed, too, before its hello of 48 bytes is complete.
    let mut slow = run.connect();
    let (mut sent, mut threads) = (0, 0);
    wait_until("the end of a slow connection", || {
        threads = threads.max(run.status("Threads:"));
        std::thread::sleep(Duration::from_millis(300));
        sent += 1;
        slow.write_all(b"t").is_err()
    });
    assert!(sent < 48, "closed after {sent} bytes");
    assert!(threads < 100, "{threads} threads");
    drop(idle);
    run.finish();
}

#[test]
fn only_the_interface_of_the_job_listens() {
    let _alone = alone();
    let run = Run::start("attack-interface");
    // MASTER_ADDR is 127.0.0.1; 127.0.0.2 is another address of this machine.
    assert!(TcpStream::connect(("127.0.0.2", run.port)).is_err());
    run.finish();
}

#[test]
fn hosts_require_the_same_key() {
    let _alone = alone();
    let (place, config) = place("keys");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    let path = write(&place, &config);
    for key in [None, Some("secret"), Some(&*"0".repeat(63))] {
        let _ = std::fs::remove_file(place.at("rendezvous.key"));
        if let Some(key) = key {
            std::fs::write(place.at("rendezvous.key"), key).unwrap();
        }
        for host in two_hosts(&path, free_port()) {
            let output = host.wait_with_output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{errors}");
            assert!(
                errors.contains("2 hosts require a key") && errors.contains("rendezvous.key"),
                "{errors}"
            );
            assert!(!errors.contains("secret"), "{errors}");
        }
    }
    // A run on one host does not.
    let output = worker(&["launch", &path, "--ranks", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let other = place.0.join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::copy(&path, other.join("worker.json")).unwrap();
    for (at, digit) in [(&place.0, "1"), (&other, "2")] {
        std::fs::write(at.join("rendezvous.key"), digit.repeat(64)).unwrap();
    }
    let (port, here) = (free_port(), [Path::new("."); 2]);
    let [mut first, _] = hosts(&["launch", &path], port, here, &[]);
    let [_, mut second] = hosts(&["launch", other.join("worker.json").to_str().unwrap()], port, here, &[]);
    let mut first = first.spawn().unwrap();
    let second = second.spawn().unwrap().wait_with_output().unwrap();
    // It cannot know that a stranger should have been one of its hosts.
    first.kill().unwrap();
    first.wait().unwrap();
    let errors = text(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{errors}");
    assert!(errors.contains("has another key than this host"), "{errors}");
}
