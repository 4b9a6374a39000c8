//! A program in a git repository: fetched where the content counts, at one commit, from a cache.

use crate::support::{Scratch, read};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

const URL: &str = "https://git.invalid/team/train.git";

/// A repository of a program, a manifest that names it by an address, and a home where git knows the way.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        let place = Self(Scratch::new(name));
        let dir = place.0.0.display().to_string();
        place.0.write("home/.gitconfig", format!("[url \"file://{dir}/origin\"]\n    insteadOf = {URL}\n"));
        place.0.write("jobs/.git/HEAD", "");
        let text = read("examples/starter/trainc.kdl");
        assert!(text.contains("source=\"./scripts\""));
        place.0.write(
            "jobs/job.kdl",
            text.replace("source=\"./scripts\"", &format!("git=\"{URL}\" branch=\"main\" dir=\"code\"")),
        );
        place.git(&["init", "-q", "-b", "main", "."]);
        place.commit("train.py", "print('one')\n");
        place
    }

    fn git(&self, words: &[&str]) -> String {
        let dir = self.0.0.join("origin");
        fs::create_dir_all(&dir).unwrap();
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"];
        let done = Command::new("git")
            .args(who)
            .args(words)
            .current_dir(&dir)
            .env("HOME", self.0.0.join("home"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// Writes a file of the program and commits it; the commit.
    fn commit(&self, file: &str, text: &str) -> String {
        self.0.write(&format!("origin/code/{file}"), text);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "next"]);
        self.git(&["rev-parse", "HEAD"])
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
fn the_content_at_the_commit_is_what_is_uploaded() {
    let place = Place::new("git-content");
    let first = place.git(&["rev-parse", "HEAD"]);
    let (offline, online) = (place.plan(&["--offline"]), place.plan(&["--simulate"]));
    assert_eq!(offline["source"], Value::Null);
    assert_eq!(online["source"]["files"], 1);
    assert_ne!(offline["digest"], online["digest"], "offline, url and ref stand for the content");
    let shown = place.trainc(&["plan", "job.kdl", "--simulate"]);
    assert!(said(&shown).contains(&format!("1 file from commit {}", &first[..12])), "{}", said(&shown));
    // A branch that goes on is another job; the first commit by its id, whole or short, stays the same one.
    place.commit("train.py", "print('two')\n");
    let next = place.plan(&["--simulate"]);
    assert_ne!(next["digest"], online["digest"]);
    for commit in [&first[..], &first[..10]] {
        let pinned = place.plan(&["--simulate", "--set", &format!("program.commit={commit}")]);
        assert_eq!(pinned["digest"], online["digest"], "{commit}");
    }
    // What is emitted beside the account, and what apply uploads, is that tree.
    let out = place.trainc(&["emit", "job.kdl", "--out", "../out", "--resolve", "--simulate"]);
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(fs::read_to_string(place.0.0.join("out/source/train.py")).unwrap(), "print('two')\n");
    let applied = place.trainc(&["apply", "job.kdl", "--simulate=account.json"]);
    assert!(applied.status.success(), "{}", said(&applied));
    let digest = next["source"]["digest"].as_str().unwrap();
    let account = fs::read_to_string(place.0.0.join("jobs/account.json")).unwrap();
    assert!(account.contains(&format!("/source/{}/sourcedir.tar.gz", &digest[..16])), "{account}");
    // The commands about the job find it by the same content.
    let status = place.trainc(&["status", "job.kdl", "--simulate=account.json"]);
    assert!(status.status.success() && !said(&status).contains("another digest"), "{}", said(&status));
    // A commit that was fetched needs the repository no more.
    fs::remove_dir_all(place.0.0.join("origin")).unwrap();
    let pinned = place.plan(&["--simulate", "--set", &format!("program.commit={first}")]);
    assert_eq!(pinned["digest"], online["digest"]);
}

#[test]
fn what_git_cannot_give_is_said_before_anything_is_made() {
    let place = Place::new("git-refused");
    let refused = |flags: &[&str], words: &str| {
        let mut args = vec!["apply", "job.kdl", "--simulate=account.json"];
        args.extend(flags);
        let done = place.trainc(&args);
        assert_eq!(done.status.code(), Some(3), "{}", said(&done));
        assert!(
            said(&done).contains("error[T0503]") && said(&done).contains(words),
            "{words}: {}",
            said(&done)
        );
        assert!(!place.0.0.join("jobs/account.json").exists(), "nothing is made");
    };
    refused(&["--set", "program.branch=mian"], "no branch or tag `mian`");
    refused(&["--set", &format!("program.commit={}", "0".repeat(40))], "no commit");
    refused(&["--set", "program.dir=elsewhere"], "it has no directory `elsewhere`");
    std::os::unix::fs::symlink("../../../etc/passwd", place.0.0.join("origin/code/out")).unwrap();
    place.commit("train.py", "print('three')\n");
    refused(&[], "the link `out` leaves the directory");
    fs::remove_file(place.0.0.join("origin/code/out")).unwrap();
    std::os::unix::fs::symlink("train.py", place.0.0.join("origin/code/again.py")).unwrap();
    place.commit("train.py", "print('four')\n");
    assert_eq!(
        place.plan(&["--simulate"])["source"]["files"],
        2,
        "a link inside is the file that it leads to"
    );
    let this = place.0.0.join("origin").display().to_string();
    place.git(&["submodule", "--quiet", "add", &this, "code/part"]);
    place.commit("train.py", "print('five')\n");
    refused(&[], "submodules");
    // A name that git cannot have is one mistake: that nothing was fetched by it follows.
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
