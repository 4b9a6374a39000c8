//! What the account fills in stands where trainc left room for it; a user's own text is sent as it was written.

use super::{End, apply, plan, run};
use serde_json::Value;
use trainc_apply::account::Caller;
use trainc_apply::desired::Desired;
use trainc_apply::diff::Choices;
use trainc_apply::fake::Fake;

const WORDS: [&str; 4] = ["${account}", "${role_arn}", "${fsx.corpus.id}", "${HOME}/x"];

fn sets() -> Vec<String> {
    let mut sets: Vec<String> = WORDS
        .iter()
        .enumerate()
        .flat_map(|(at, word)| {
            [
                format!("program.environment.W{at}={word}"),
                format!("program.hyperparameter.w{at}={word}"),
                format!("tags.w{at}={}", word.replace(['$', '{', '}'], "_")),
            ]
        })
        .collect();
    // In an address the mark as such is written by a placeholder.
    sets.push("output.s3=s3://runs-${account}/{{ '${' }}account}/".to_owned());
    sets
}

#[test]
fn a_text_of_the_user_is_never_filled_in() {
    let sets = sets();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let plan = plan("llama-7b-fsdp", &sets);
    let fake = Fake::default();
    let ended = run(&fake, apply(&fake, &plan, Choices::default())).unwrap();
    assert!(matches!(ended, End::Done(_)), "the service takes such texts");
    let account = fake.account();
    let sent = &account.jobs.values().next().unwrap().job.request;
    for (at, word) in WORDS.iter().enumerate() {
        assert_eq!(sent["Environment"][format!("W{at}")], *word);
        let argument = sent["HyperParameters"][format!("w{at}")].as_str().unwrap();
        assert!(argument.contains(word), "{argument}");
    }
    // A bucket's name cannot have such letters itself; what comes behind it can.
    assert_eq!(sent["OutputDataConfig"]["S3OutputPath"], "s3://runs-111122223333/${account}/");
    assert!(sent["RoleArn"].as_str().unwrap().starts_with("arn:aws:iam::111122223333:role/trainc/"));
    let channels: Vec<&Value> = sent["InputDataConfig"].as_array().unwrap().iter().collect();
    assert!(channels.iter().all(|channel| !channel.to_string().contains("${")), "{channels:?}");
    let role = account.roles.values().next().unwrap();
    let policy: Vec<&String> = role.policies.values().collect();
    assert!(policy.iter().all(|text| !text.contains("${account}")), "{policy:?}");
    assert!(policy.iter().any(|text| text.contains("runs-111122223333/${$}{account}/*")), "{policy:?}");
}

#[test]
fn the_account_is_no_part_of_the_digest() {
    let caller =
        Caller { account: "111122223333".to_owned(), arn: "arn:aws:iam::111122223333:user/me".to_owned() };
    let open = "output.s3=s3://runs-${account}/out/";
    let offline = plan("llama-7b-fsdp", &[open]);
    let written = plan("llama-7b-fsdp", &[open, "account=111122223333"]);
    let digest = trainc_emit::identity(&offline).digest;
    assert_eq!(trainc_emit::identity(&written).digest, digest);
    assert_eq!(Desired::new(&offline, &caller).unwrap().digest, digest);
    // `account` removes the mark from all that is emitted.
    for (path, bytes) in trainc_emit::emit(&written).files {
        assert!(!String::from_utf8_lossy(&bytes).contains("${account}"), "{path}");
    }
    assert_ne!(trainc_emit::identity(&plan("llama-7b-fsdp", &[])).digest, digest);
}

#[test]
fn a_decimal_variable_is_the_text_that_was_written() {
    let sets = ["program.environment.D=1.50", "program.environment.X=1e-7", "program.environment.N=1_000"];
    let plan = plan("llama-7b-fsdp", &sets);
    let request = trainc_emit::training_job_request(&plan, &trainc_emit::identity(&plan));
    assert_eq!(request["Environment"]["D"], "1.50");
    assert_eq!(request["Environment"]["X"], "1e-7");
    assert_eq!(request["Environment"]["N"], "1000");
}

#[test]
fn a_program_that_the_image_starts_by_itself_has_no_archive() {
    let with = plan("llama-7b-fsdp", &[]);
    let mut changed = with.clone();
    let word = trainc_ir::Val::written("serve".to_owned(), changed.job.span);
    changed.job.program.as_mut().unwrap().entrypoint.push(word);
    let without = trainc_plan::plan::decide_bound_values(changed);
    let sources = |plan| {
        let files = trainc_emit::emit(plan).files;
        files.iter().filter(|(path, _)| path.starts_with("source/")).count()
    };
    assert!(sources(&with) > 0);
    assert_eq!(sources(&without), 0);
}
