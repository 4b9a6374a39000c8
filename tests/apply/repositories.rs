//! A program in a git repository: nothing is fetched for a simulated account.

use crate::support::{Scratch, read};
use serde_json::Value;
use std::process::{Command, Output};

const URL: &str = "https://git.invalid/team/train.git";

/// A manifest that names a repository by an address, and a home.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        let place = Self(Scratch::new(name));
        place.0.write("jobs/.git/HEAD", "");
        let text = read("examples/starter/trainc.kdl");
        assert!(text.contains("source=\"./scripts\""));
        place.0.write(
            "jobs/job.kdl",
            text.replace("source=\"./scripts\"", &format!("git=\"{URL}\" branch=\"main\" dir=\"code\"")),
        );
        place
    }

    fn trainc(&self, args: &[&str]) -> Output {
        let home = self.0.0.join("home");
        Command::new(env!("CARGO_BIN_EXE_trainc"))
            .args(args)
            .current_dir(self.0.0.join("jobs"))
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .output()
            .unwrap()
    }

    /// The plan of the job, with values laid over it.
    fn plan(&self, flags: &[&str]) -> Value {
        let mut args = vec!["plan", "job.kdl", "-o", "json"];
        args.extend(flags);
        let done = self.trainc(&args);
        serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", said(&done)))
    }
}

fn said(done: &Output) -> String {
    let text = [&done.stdout[..], &done.stderr[..]].concat();
    String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_simulated_account_asks_no_host() {
    let place = Place::new("git-simulated");
    let offline = place.plan(&["--offline"]);
    let simulated = place.plan(&["--simulate"]);
    assert_eq!((&simulated["source"], &simulated["digest"]), (&Value::Null, &offline["digest"]));
    for command in ["apply", "status", "logs", "watch", "report", "stop", "destroy"] {
        let args: &[&str] = match command {
            "apply" | "stop" | "destroy" => &["--yes"],
            _ => &[],
        };
        let done = place.trainc(&[&[command, "job.kdl", "--simulate=account.json"], args].concat());
        assert!(matches!(done.status.code(), Some(0 | 8)), "{command}: {}", said(&done));
        assert!(!said(&done).contains("another version"), "{command}: {}", said(&done));
    }
    let out = place.trainc(&["emit", "job.kdl", "--out", "../out", "--resolve", "--simulate"]);
    assert!(out.status.success(), "{}", said(&out));
    // Nothing was fetched: a fetch would have made the cache.
    assert!(!place.0.0.join("home/cache").exists());
}

#[test]
fn names_that_git_cannot_have_are_refused_without_a_fetch() {
    let place = Place::new("git-names");
    let done = place.trainc(&["apply", "job.kdl", "--simulate", "--set", "program.commit=zzz"]);
    assert_eq!(done.status.code(), Some(3));
    assert!(said(&done).contains("T0516") && !said(&done).contains("T0503"), "{}", said(&done));
    // An address with a password in it is no address to ask at.
    let done = place.trainc(&[
        "apply",
        "job.kdl",
        "--simulate",
        "--set",
        "program.git=https://me:hunter22@git.invalid/x.git",
    ]);
    assert_eq!(done.status.code(), Some(3));
    assert!(!said(&done).contains("T0503"), "{}", said(&done));
}
