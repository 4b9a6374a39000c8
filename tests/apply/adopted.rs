//! What carries our name or came of our request, and is not ours: in the way, until somebody says to take it and has
//! seen what differs.

use super::{End, apply, counts, drive, look, plan, run};
use trainc_apply::account::Tags;
use trainc_apply::calls::{Call, Effect};
use trainc_apply::diff::{Action, Change, Choices, Obstacle};
use trainc_apply::fake::{Account, Fake};
use trainc_apply::ledger::{Cause, Event, Item, Ledger, Recorder, Silent};
use trainc_apply::prospect::Prospect;
use trainc_apply::run::Driver;
use trainc_apply::run::ResourceLocks;
use trainc_apply::verdict;
use trainc_emit::{ResourceKind, Verb};

const LLAMA: &str = "llama-7b-fsdp";
const ADOPT: Choices = Choices { adopt: true, new_run: false, run: None };

fn applied(example: &str) -> Account {
    let calm = Fake::default();
    let end = run(&calm, apply(&calm, &plan(example, &[]), Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    calm.account()
}

fn prospect(cloud: &Fake, example: &str, sets: &[&str], choices: Choices) -> Prospect {
    run(cloud, look(cloud).prospect(&plan(example, sets), choices)).unwrap().unwrap().unwrap()
}

#[track_caller]
fn change(prospect: &Prospect, kind: ResourceKind) -> &Change {
    prospect.changes.iter().find(|change| change.kind == kind).unwrap()
}

#[track_caller]
fn second_plan_is_empty(cloud: &Fake, example: &str) {
    let later = prospect(cloud, example, &[], Choices::default());
    assert!(later.is_empty(), "{:#?}", later.changes);
}

/// All that was told while it was taken over.
fn taken(cloud: &Fake, example: &str) -> Vec<Event> {
    let seen = prospect(cloud, example, &[], ADOPT);
    let ledger = Ledger::default();
    let driver = Driver {
        look: look(cloud),
        desired: &seen.desired,
        choices: ADOPT,
        recorder: Recorder { ledger: &ledger, listener: &Silent },
        wrote_iam: false.into(),
        written: std::cell::RefCell::default(),
        locks: &ResourceLocks::default(),
    };
    assert!(run(cloud, driver.run(&seen.target)).unwrap().is_some(), "{:?}", ledger.failures());
    ledger.events()
}

#[test]
fn a_file_system_whose_tags_were_changed_is_not_retaken_through_its_token() {
    let whole = applied(LLAMA);
    let edits: [fn(&mut Tags); 3] = [
        Tags::clear,
        |tags| drop(tags.remove("trainc:resource")),
        // One that another job uses for something else; where it uses it for the same, both share it.
        |tags| {
            tags.extend(
                [("trainc:job", "vision"), ("trainc:digest", "0")].map(|(k, v)| (k.to_owned(), v.to_owned())),
            );
        },
    ];
    for edit in edits {
        let mut account = whole.clone();
        account.jobs.clear();
        let state = account.file_systems.values_mut().next().unwrap();
        edit(&mut state.system.tags);
        let (id, tags) = (state.system.id.clone(), state.system.tags.clone());

        let refused = Fake::new(account.clone());
        let end = run(&refused, apply(&refused, &plan(LLAMA, &[]), Choices::default())).unwrap();
        let seen = prospect(&refused, LLAMA, &[], Choices::default());
        let found = match &end {
            // What is left of its tags says what it is.
            End::Stopped(_) => change(&seen, ResourceKind::FileSystem),
            End::Failed(causes) => match causes.as_slice() {
                [(Item { kind: ResourceKind::FileSystem, .. }, Cause::Obstacle(found))] => found,
                _ => panic!("{causes:?}"),
            },
            End::Done(_) => panic!("{end:?}"),
        };
        assert_eq!(found.action, Action::Stop(Obstacle::Foreign));
        assert!(found.because.starts_with(&id), "{}", found.because);
        assert!(found.differences.iter().any(|one| one.what.starts_with("tag trainc:")), "{found:#?}");
        let after = refused.account();
        assert_eq!(after.file_systems.values().next().unwrap().system.tags, tags, "nothing of it is changed");
        assert_eq!((after.file_systems.len(), after.jobs.len()), (1, 0));

        let cloud = Fake::new(account);
        let events = taken(&cloud, LLAMA);
        let told = events.iter().position(|event| matches!(event, Event::Taking { .. })).unwrap();
        let Event::Taking { item, differences, .. } = &events[told] else { unreachable!() };
        assert_eq!((item.kind, differences.is_empty()), (ResourceKind::FileSystem, false));
        let is_update = |item: &Item, verb| verb == Verb::Update && item.kind == ResourceKind::FileSystem;
        let written = events
            .iter()
            .position(|event| matches!(event, Event::Doing { item, what } if is_update(item, *what)));
        assert!(Some(told) < written, "what differs is told before it is changed: {events:#?}");
        let state = cloud.account();
        assert_eq!((state.file_systems.len(), state.jobs.len()), (1, 1));
        assert_eq!(state.file_systems[&id].system.tags["trainc:job"], LLAMA);
        second_plan_is_empty(&cloud, LLAMA);
    }
}

/// A second file system is paid for by the month: none is made where the first may only have lost its tags.
#[test]
fn a_file_system_that_lost_its_tags_is_never_made_twice() {
    let whole = applied(LLAMA);
    type Edit = fn(&mut Tags);
    let edits: [(&str, Edit); 4] = [
        ("lacks `trainc:resource`", |tags| drop(tags.remove("trainc:resource"))),
        ("lacks `trainc:job`", |tags| drop(tags.remove("trainc:job"))),
        ("same client token", Tags::clear),
        ("same client token", |tags| tags.retain(|key, _| !key.starts_with("trainc:"))),
    ];
    // Grown since, so that its own token was used with another capacity.
    let grown = ["storage.corpus.capacity=9600GiB"];
    for (words, edit) in edits {
        let mut account = whole.clone();
        account.jobs.clear();
        let state = account.file_systems.values_mut().next().unwrap();
        edit(&mut state.system.tags);
        let id = state.system.id.clone();
        let refused = Fake::new(account.clone());
        let end = run(&refused, apply(&refused, &plan(LLAMA, &grown), Choices::default())).unwrap();
        let seen = prospect(&refused, LLAMA, &grown, Choices::default());
        let found = match &end {
            End::Stopped(why) if why == &[Obstacle::Foreign] => change(&seen, ResourceKind::FileSystem),
            End::Failed(causes) => match causes.as_slice() {
                [(_, Cause::Obstacle(found))] => found,
                _ => panic!("{causes:?}"),
            },
            _ => panic!("{end:?}"),
        };
        assert!(found.because.starts_with(&id) && found.because.contains(words), "{}", found.because);
        let verdict = verdict::obstacle(found, plan(LLAMA, &grown).job.span);
        assert_eq!((verdict.exit, verdict.flag), (7, Some("--adopt")), "{verdict:?}");
        let after = refused.account();
        assert_eq!((after.file_systems.len(), after.jobs.len()), (1, 0), "{words}");
        // Taken over, it grows.
        let cloud = Fake::new(account);
        let end = run(&cloud, apply(&cloud, &plan(LLAMA, &grown), ADOPT)).unwrap();
        assert!(matches!(end, End::Done(_)), "{end:?}");
        let state = cloud.account();
        assert_eq!((state.file_systems.len(), state.jobs.len()), (1, 1));
        assert_eq!(state.file_systems[&id].system.tags["trainc:resource"], "file-system/corpus");
        assert_eq!(state.file_systems[&id].system.capacity_gib, 9_600);
    }
    // One of other settings, which nobody tagged, stands in nobody's way.
    let mut account = whole.clone();
    account.jobs.clear();
    let state = account.file_systems.values_mut().next().unwrap();
    state.system.tags.clear();
    state.system.subnets = vec!["subnet-0fedcba9876543210".to_owned()];
    let cloud = Fake::new(account);
    let end = run(&cloud, apply(&cloud, &plan(LLAMA, &grown), Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(cloud.account().file_systems.len(), 2);
}

/// A job is never changed: taken over it would be called this digest, and it was started with something else.
#[test]
fn a_job_that_was_started_with_something_else_is_shown_and_never_taken() {
    let mut account = applied(LLAMA);
    for state in account.jobs.values_mut() {
        state.tags.clear();
        state.job.request["HyperParameters"]["lr"] = "0.5".into();
        state.job.request["HyperParameters"]["api_key"] = "sk-ABCDEFGHIJKLMNOP".into();
        state.job.request["HyperParameters"]["db_password"] = "a".into();
        state.job.request["Environment"]["THEIR_TOKEN"] = "abcdefghijkl".into();
        state.job.request["Environment"]["THEIRS"] = "seen".into();
        state.job.request["RoleArn"] = "arn:aws:iam::111122223333:role/x".into();
    }
    let cloud = Fake::new(account.clone());
    for choices in [Choices::default(), ADOPT] {
        let seen = prospect(&cloud, LLAMA, &[], choices);
        let job = change(&seen, ResourceKind::TrainingJob);
        assert_eq!(job.action, Action::Stop(Obstacle::DifferentContent));
        let lr = job.differences.iter().find(|one| one.what == "HyperParameters.lr").unwrap();
        assert_eq!((lr.found.as_str(), lr.wanted.as_str()), ("0.5", "0.0003"));
        // What it does stands before whose it is.
        let place = |what: &str| job.differences.iter().position(|one| one.what == what).unwrap();
        assert!(
            place("HyperParameters.lr") < place("RoleArn") && place("RoleArn") < place("tag trainc:digest")
        );
        let found = |what: &str| {
            let one = job.differences.iter().find(|one| one.what == what);
            one.unwrap_or_else(|| panic!("{what}: {job:#?}")).found.clone()
        };
        // All that only the other has stands there, and no credential of anybody's, however short.
        assert_eq!(found("RoleArn"), "arn:aws:iam::111122223333:role/x");
        assert_eq!(found("Environment.THEIRS"), "seen");
        assert_eq!(found("HyperParameters.api_key"), "hidden, 19 characters");
        assert_eq!(found("HyperParameters.db_password"), "hidden, 1 characters");
        assert_eq!(found("Environment.THEIR_TOKEN"), "hidden, 12 characters");
        let verdict = verdict::obstacle(job, plan(LLAMA, &[]).job.span);
        assert_eq!((verdict.diagnostic.code.id, verdict.exit, verdict.flag), ("T0605", 7, None));
        let end = run(&cloud, apply(&cloud, &plan(LLAMA, &[]), choices)).unwrap();
        assert!(matches!(&end, End::Stopped(why) if why == &[Obstacle::DifferentContent]), "{end:?}");
    }
    let after = cloud.account();
    assert_eq!(after.jobs, account.jobs, "nothing of it is changed");
}

/// Settings that only the other job has differ as well, though the plan says nothing of them.
#[test]
fn what_only_the_other_job_has_keeps_it_from_being_taken() {
    let vpc = serde_json::json!({"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]});
    for (member, value) in [("VpcConfig", vpc), ("EnableNetworkIsolation", true.into())] {
        let mut account = applied("distilbert-spot");
        for state in account.jobs.values_mut() {
            state.tags.clear();
            state.job.request[member] = value.clone();
        }
        let cloud = Fake::new(account);
        let seen = prospect(&cloud, "distilbert-spot", &[], ADOPT);
        let job = change(&seen, ResourceKind::TrainingJob);
        assert_eq!(job.action, Action::Stop(Obstacle::DifferentContent), "{member}");
        assert!(job.differences.iter().any(|one| one.what == member), "{job:#?}");
    }
}

/// One that only lost its tags, or runs as another role: the digest says nothing of these, and is told as it is.
#[test]
fn a_job_that_is_what_is_wanted_is_shown_before_it_is_taken() {
    let mut account = applied(LLAMA);
    for state in account.jobs.values_mut() {
        state.tags.clear();
        state.job.request["RoleArn"] = "arn:aws:iam::111122223333:role/x".into();
        // The order of channels is no part of a job.
        state.job.request["InputDataConfig"].as_array_mut().unwrap().reverse();
    }
    let cloud = Fake::new(account);
    for choices in [Choices::default(), ADOPT] {
        let seen = prospect(&cloud, LLAMA, &[], choices);
        let job = change(&seen, ResourceKind::TrainingJob);
        let expected = if choices.adopt { Action::Adopt } else { Action::Stop(Obstacle::Foreign) };
        assert_eq!(job.action, expected, "{job:#?}");
        assert!(job.differences.iter().any(|one| one.what == "tag trainc:digest"), "{job:#?}");
        assert!(job.differences.iter().any(|one| one.what == "RoleArn"), "{job:#?}");
        assert!(!seen.is_empty());
    }
    let end = run(&cloud, apply(&cloud, &plan(LLAMA, &[]), ADOPT)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(counts(&cloud.account()), [1, 1, 1, 1, 1]);
    second_plan_is_empty(&cloud, LLAMA);
}

/// A run that is over needs nothing any more: what is shown as `skip` is not made when it is taken over.
#[test]
fn a_job_that_is_over_is_taken_and_nothing_is_made_for_it() {
    let mut account = applied(LLAMA);
    account.now += 100_000.0;
    account.roles.clear();
    account.file_systems.clear();
    account.associations.clear();
    account.jobs.values_mut().for_each(|state| state.tags.clear());
    let cloud = Fake::new(account);
    let seen = prospect(&cloud, LLAMA, &[], ADOPT);
    for one in &seen.changes {
        let expected: &[Action] = match one.kind {
            ResourceKind::TrainingJob => &[Action::Adopt],
            _ => &[Action::Skip, Action::Unchanged],
        };
        assert!(expected.contains(&one.action), "{one:?}");
    }
    let end = run(&cloud, drive(look(&cloud), &seen, ADOPT)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let writes: Vec<Call> =
        cloud.calls().into_iter().filter(|call| call.row().effect == Effect::Write).collect();
    assert_eq!(writes, [Call::AddTags]);
    second_plan_is_empty(&cloud, LLAMA);
}

/// What stands in the way of a run that is over stands in nobody's way.
#[test]
fn a_foreign_role_does_not_stop_a_job_that_is_over() {
    let mut account = applied("starter");
    account.now += 100_000.0;
    account.roles.values_mut().for_each(|state| state.role.tags.clear());
    second_plan_is_empty(&Fake::new(account), "starter");
}

#[test]
fn a_role_at_another_path_is_taken_as_it_is() {
    let mut account = applied("starter");
    account.jobs.clear();
    for state in account.roles.values_mut() {
        state.role.tags.clear();
        state.role.path = "/".to_owned();
        state.role.arn = format!("arn:aws:iam::{}:role/{}", account.account, state.role.name);
        state.policies.clear();
    }
    let arn = account.roles.values().next().unwrap().role.arn.clone();
    let cloud = Fake::new(account);
    let seen = prospect(&cloud, "starter", &[], ADOPT);
    let role = change(&seen, ResourceKind::Role);
    assert_eq!(role.action, Action::Adopt);
    assert!(role.because.contains("it stays at path `/`"), "{}", role.because);
    let end = run(&cloud, apply(&cloud, &plan("starter", &[]), ADOPT)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let job = cloud.account().jobs.into_values().next().unwrap();
    assert_eq!(job.job.request["RoleArn"], arn.as_str());
    second_plan_is_empty(&cloud, "starter");
}

/// What is written over is what the user must see before `--adopt` is typed.
#[test]
fn what_would_be_lost_in_a_foreign_role_is_listed_where_it_stands_in_the_way() {
    let mut account = applied("starter");
    account.jobs.clear();
    for state in account.roles.values_mut() {
        state.role.tags.clear();
        for policy in state.policies.values_mut() {
            *policy = serde_json::json!({"Version": "2012-10-17", "Statement": [
                {"Sid": "TheirTable", "Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*"},
            ]})
            .to_string();
        }
    }
    let seen = prospect(&Fake::new(account), "starter", &[], Choices::default());
    let role = change(&seen, ResourceKind::Role);
    assert_eq!(role.action, Action::Stop(Obstacle::Foreign));
    let plan = plan("starter", &[]);
    let verdict = verdict::obstacle(role, plan.job.span);
    let said = "inline policy trainc, statement TheirTable: `present` in the account, `removed` in the plan";
    assert!(verdict.diagnostic.notes.iter().any(|note| note == said), "{:#?}", verdict.diagnostic.notes);
}

/// Who else could assume the role is what the user must see before it is taken.
#[test]
fn the_principal_of_a_foreign_role_is_shown() {
    let mut account = applied("starter");
    account.jobs.clear();
    let theirs = "arn:aws:iam::999999999999:root";
    for state in account.roles.values_mut() {
        state.role.tags.clear();
        let mut trust: serde_json::Value = serde_json::from_str(&state.role.trust).unwrap();
        trust["Statement"][0]["Principal"] = serde_json::json!({"AWS": theirs});
        state.role.trust = trust.to_string();
    }
    let seen = prospect(&Fake::new(account), "starter", &[], ADOPT);
    let role = change(&seen, ResourceKind::Role);
    let one = role.differences.iter().find(|one| one.what.ends_with(".Principal.AWS")).unwrap();
    assert_eq!((one.found.as_str(), one.wanted.as_str()), (theirs, "none"));
    assert!(role.differences.iter().all(|one| one.what != "AssumeRolePolicyDocument"), "{role:#?}");
}
