//! A manifest with errors beside a job that runs: it can still be looked at, stopped and taken away.

use crate::apply::commands::Repo;

const LLAMA: &str = "llama-7b-fsdp/trainc.kdl";

#[test]
fn a_job_can_be_stopped_after_a_bad_edit() {
    let repo = Repo::new("apply-unsound", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    repo.edit(LLAMA, "global-batch 1024", "global-batch 1025");
    for command in ["plan", "apply"] {
        let refused = repo.run(&[command, LLAMA]);
        assert_eq!(refused.code, Some(3), "{command}: {}", refused.err);
        assert!(
            format!("{}{}", refused.out, refused.err).contains("error[T0310]"),
            "{command}: {}",
            refused.err
        );
    }
    for command in ["status", "watch", "logs"] {
        let looked = repo.run(&[command, LLAMA]);
        assert_eq!(looked.code, Some(0), "{command}: {}{}", looked.out, looked.err);
        assert!(looked.err.contains("note[T0310]") && !looked.err.contains("error["), "{}", looked.err);
        let words = format!("`{command}` requires only name, region and account of the job");
        assert!(looked.err.contains(&words), "{}", looked.err);
    }
    let status = repo.run(&["status", LLAMA, "-o", "json"]);
    assert!(status.json()["training_job"].as_str().unwrap().starts_with("llama-7b-fsdp-"), "one object");
    let repo = Repo::new("apply-unsound-stop", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    repo.edit(LLAMA, "global-batch 1024", "global-batch 1025");
    let stopped = repo.run(&["stop", LLAMA, "--yes", "-o", "json"]);
    assert_eq!(stopped.code, Some(0), "{}{}", stopped.out, stopped.err);
    assert!(stopped.out.contains(r#""code":"T0310""#), "{}", stopped.out);
    let jobs = repo.account()["jobs"].as_object().unwrap().clone();
    assert!(jobs.values().all(|job| job["job"]["status"] == "Stopped"), "{jobs:#?}");
    let gone = repo.run(&["destroy", LLAMA, "--yes", "--delete-data"]);
    assert_eq!(gone.code, Some(0), "{}{}", gone.out, gone.err);
    assert!(gone.out.contains("delete  file-system") && gone.out.contains("delete  role"), "{}", gone.out);
}

#[test]
fn what_a_command_needs_must_be_sound() {
    let repo = Repo::new("apply-unsound-name", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let text = std::fs::read_to_string(repo.0.0.join(LLAMA)).unwrap();
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        repo.0.write(LLAMA, text.replace(from, to));
    };
    // Whose job it is, and where, nobody guesses; nor what a layer would have said that is not there.
    for (from, to) in [
        ("job \"llama-7b-fsdp\"", "job \"llama 7b fsdp\""),
        ("region \"us-west-2\"", "region \"us-west-9\""),
        ("job \"llama-7b-fsdp\"", "extends \"none.kdl\"\njob \"llama-7b-fsdp\""),
    ] {
        with(from, to);
        for command in ["status", "stop", "destroy"] {
            let refused = repo.run(&[command, LLAMA]);
            assert_eq!(refused.code, Some(3), "{command} of {to}: {}{}", refused.out, refused.err);
        }
    }
    // What goes must be known to whoever takes it away.
    with("storage \"lustre\" name=\"corpus\"", "storage \"lustre\" name=7");
    let status = repo.run(&["status", LLAMA]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    assert_eq!(repo.run(&["destroy", LLAMA]).code, Some(3));
    // What was typed wrong with the command is typed again.
    repo.0.write(LLAMA, &text);
    assert_eq!(repo.run(&["stop", LLAMA, "--set", "cluster.regoin=us-west-2"]).code, Some(3));
    assert_eq!(repo.run(&["stop", LLAMA, "--yes"]).code, Some(0));
}
