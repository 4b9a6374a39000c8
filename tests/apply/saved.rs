//! A saved plan goes on from what it made itself, wherever it was cut off; what anybody else changed ends it.

use super::{End, cloud, counts, drive, look, plan, run};
use trainc_apply::calls::{Call, Effect};
use trainc_apply::diff::Choices;
use trainc_apply::fake::{Account, Fake, Faults, Moment};
use trainc_apply::saved_plan::{SavedPlan, SavedPlanSource};
use trainc_ir::Plan;

/// How an apply of a saved plan ended.
#[derive(Debug)]
enum Ended {
    Stale(String),
    Nothing,
    Driven(End),
}

/// A plan saved, and read again.
fn save(account: &Account, plan: &Plan, choices: Choices) -> SavedPlan {
    let calm = Fake::new(account.clone());
    let prospect = run(&calm, look(&calm).prospect(plan, choices)).unwrap().unwrap().unwrap();
    let saved = SavedPlan::new(&SavedPlanSource::default(), &[&prospect], choices);
    SavedPlan::read(&serde_json::to_string(&saved).unwrap()).unwrap().unwrap()
}

/// One apply of it, as the command does it.
async fn apply(cloud: &Fake, plan: &Plan, saved: &SavedPlan) -> Ended {
    let job = plan.job.name.value().unwrap();
    let choices = saved.choices(job);
    let prospect = match look(cloud).prospect(plan, choices).await {
        Ok(prospect) => prospect.unwrap(),
        Err(fault) => panic!("{fault:?}"),
    };
    if let Some(why) = saved.stale_reason("", &prospect, &[job]) {
        return Ended::Stale(why);
    }
    assert_eq!(prospect.obstacles().count(), 0, "{:?}", prospect.changes);
    if prospect.is_empty() {
        return Ended::Nothing;
    }
    Ended::Driven(drive(look(cloud), &prospect, choices).await)
}

fn is_done(ended: &Ended) -> bool {
    matches!(ended, Ended::Nothing | Ended::Driven(End::Done(_)))
}

/// Applies it again until it is done, then once more, which must write nothing; it never says that it is stale.
#[track_caller]
fn goes_on(account: Account, plan: &Plan, saved: &SavedPlan, what: &str) -> Account {
    let second = Fake::new(account);
    let ended = run(&second, apply(&second, plan, saved)).unwrap();
    assert!(is_done(&ended), "{what}: {ended:?}");
    is_at_rest(second.account(), plan, saved, what)
}

/// Applies it where everything is there.
#[track_caller]
fn is_at_rest(account: Account, plan: &Plan, saved: &SavedPlan, what: &str) -> Account {
    let last = Fake::new(account);
    let ended = run(&last, apply(&last, plan, saved)).unwrap();
    assert!(matches!(ended, Ended::Nothing), "{what}: {ended:?}");
    let writes: Vec<Call> =
        last.calls().into_iter().filter(|call| call.row().effect == Effect::Write).collect();
    assert!(writes.is_empty(), "{what}: {writes:?}");
    last.account()
}

/// Kills an apply of a plan that was saved in an account at each of its calls; what is there at the end.
#[track_caller]
fn killed_everywhere(account: &Account, plan: &Plan, choices: Choices, expected: [usize; 5], name: &str) {
    let saved = save(account, plan, choices);
    let calm = Fake::new(account.clone());
    assert!(is_done(&run(&calm, apply(&calm, plan, &saved)).unwrap()), "{name}");
    let mut went_on = 0;
    for k in 1..=calm.calls().len() {
        for moment in [Moment::Before, Moment::After] {
            let what = format!("{name}: killed {moment:?} call {k}");
            let faults = Faults { crash: Some((k, moment)), ..Faults::default() };
            let first = cloud(account.clone(), faults);
            assert!(run(&first, apply(&first, plan, &saved)).is_none(), "{what}");
            let is_half = first.account() != *account;
            let end = goes_on(first.account(), plan, &saved, &what);
            assert_eq!(counts(&end), expected, "{what}");
            went_on += usize::from(is_half);
        }
    }
    assert!(went_on > 2, "{name}: only {went_on} were killed after a write");
}

/// An account after an apply of a plan.
fn applied(account: Account, plan: &Plan, choices: Choices) -> Account {
    let calm = Fake::new(account);
    assert!(matches!(run(&calm, super::apply(&calm, plan, choices)), Some(End::Done(_))));
    calm.account()
}

/// The same, with all of its jobs over.
fn over(mut account: Account, status: &str, failure: Option<&str>) -> Account {
    for job in account.jobs.values_mut() {
        status.clone_into(&mut job.job.status);
        job.job.failure = failure.map(str::to_owned);
    }
    account
}

const NEW_RUN: Choices = Choices { adopt: false, new_run: true, run: None };

#[test]
fn killed_at_every_call_it_goes_on() {
    let jobs = [("llama-7b-fsdp", [1, 1, 1, 1, 1]), ("starter", [1, 0, 0, 1, 1])];
    for (example, expected) in jobs {
        let plan = plan(example, &[]);
        killed_everywhere(&Account::default(), &plan, Choices::default(), expected, example);
    }
}

#[test]
fn a_role_that_is_brought_back_is_brought_back_in_parts() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut account = applied(Account::default(), &plan, Choices::default());
    account.jobs.clear();
    for role in account.roles.values_mut() {
        role.role.trust = r#"{"Statement": []}"#.to_owned();
        role.role.tags.remove("trainc:resource");
        for policy in role.policies.values_mut() {
            *policy = r#"{"Statement": []}"#.to_owned();
        }
    }
    killed_everywhere(&account, &plan, Choices::default(), [1, 1, 1, 1, 1], "a role changed by hand");
    // Nobody is told apart from trainc who takes its job's tag away: it is taken over because the plan says so.
    for role in account.roles.values_mut() {
        role.role.tags.clear();
    }
    let adopt = Choices { adopt: true, ..Choices::default() };
    killed_everywhere(&account, &plan, adopt, [1, 1, 1, 1, 1], "a role that is taken over");
}

#[test]
fn another_run_is_started_once() {
    let plan = plan("starter", &[]);
    let first = over(applied(Account::default(), &plan, Choices::default()), "Completed", None);
    let saved = save(&first, &plan, NEW_RUN);
    killed_everywhere(&first, &plan, NEW_RUN, [1, 0, 0, 1, 2], "another run");
    // It is done once its own run is there: also when that is over.
    let second = over(goes_on(first, &plan, &saved, "another run"), "Completed", None);
    let second = is_at_rest(second, &plan, &saved, "another run that is over");
    assert_eq!(counts(&second), [1, 0, 0, 1, 2]);
    // Beside another digest.
    let other = super::plan("starter", &["train.steps=77"]);
    let saved = save(&second, &other, NEW_RUN);
    let third = over(goes_on(second, &other, &saved, "another digest"), "Stopped", None);
    assert_eq!(counts(&is_at_rest(third, &other, &saved, "another digest that is over"))[4], 3);
}

#[test]
fn a_run_that_found_no_machines_is_followed_by_the_next() {
    let plan = plan("starter", &[]);
    let saved = save(&Account::default(), &plan, Choices::default());
    let account = applied(Account::default(), &plan, Choices::default());
    let account = over(account, "Failed", Some("CapacityError: no machines"));
    let account = goes_on(account, &plan, &saved, "after a run that found no machines");
    assert_eq!(counts(&account), [1, 0, 0, 1, 2]);
    // One that failed otherwise is what was asked for, and it is over.
    let account = over(account, "Failed", Some("AlgorithmError: exit code 1"));
    is_at_rest(account, &plan, &saved, "a run that failed");
}

/// What somebody else did after the plan was cut off where its role was there and nothing else was.
#[track_caller]
fn ends_it(what: &str, change: impl Fn(&mut Account)) {
    let plan = plan("llama-7b-fsdp", &[]);
    let saved = save(&Account::default(), &plan, Choices::default());
    let mut account = applied(Account::default(), &plan, Choices::default());
    account.jobs.clear();
    account.objects.clear();
    account.file_systems.clear();
    account.associations.clear();
    let half = Fake::new(account.clone());
    let ended = run(&half, apply(&half, &plan, &saved)).unwrap();
    assert!(is_done(&ended), "{ended:?}");
    change(&mut account);
    let changed = Fake::new(account);
    let Ended::Stale(why) = run(&changed, apply(&changed, &plan, &saved)).unwrap() else {
        panic!("`{what}` went unseen")
    };
    assert!(why.contains(what), "{why}");
    assert!(!changed.calls().iter().any(|call| call.row().effect == Effect::Write), "{what}");
}

#[test]
fn what_somebody_else_changed_in_what_it_made_ends_it() {
    ends_it("`role trainc-", |account| {
        let more = "arn:aws:iam::aws:policy/AdministratorAccess".to_owned();
        account.roles.values_mut().for_each(|role| role.attached.push(more.clone()));
    });
    ends_it("`role trainc-", |account| {
        for role in account.roles.values_mut() {
            role.role.trust = r#"{"Statement": []}"#.to_owned();
        }
    });
    ends_it("`role-policy trainc-", |account| {
        for role in account.roles.values_mut() {
            for policy in role.policies.values_mut() {
                *policy = r#"{"Statement": []}"#.to_owned();
            }
        }
    });
    ends_it("`training-job` has changed", |account| {
        let other = super::plan("llama-7b-fsdp", &["train.optimizer.lr=1e-4"]);
        let theirs = applied(Account::default(), &other, Choices::default());
        account.jobs.extend(theirs.jobs);
    });
}
