//! File systems that jobs share: made once, left one by one, gone with the last.

use super::destroys::{ALL, destroy};
use super::{End, apply, cloud, counts, look, plan, run};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use trainc_apply::calls::Call;
use trainc_apply::cloud::{Clock as _, Observe as _};
use trainc_apply::desired::Desired;
use trainc_apply::destroy::{Consent, Inventory, Remover};
use trainc_apply::diff::{Action, Choices, Obstacle};
use trainc_apply::fake::{Account, Fake, Faults, Moment};
use trainc_apply::ledger::{Cause, Item, Ledger, Recorder, Silent};
use trainc_apply::orphaned_jobs::plan_with_job_name;
use trainc_emit::{ResourceKind, Verb};
use trainc_ir::Plan;

const PLAIN: Choices = Choices { adopt: false, new_run: false, run: None };

/// One job under several names: they describe their file system alike.
fn jobs(names: &[&str]) -> Vec<Plan> {
    let plan = plan("llama-7b-fsdp", &[]);
    names.iter().map(|name| plan_with_job_name(&plan, name)).collect()
}

fn applied(cloud: &Fake, plan: &Plan) {
    let end = run(cloud, apply(cloud, plan, PLAIN)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
}

/// What `plan` says of the file system and of all else.
fn seen(cloud: &Fake, plan: &Plan) -> (Action, String, bool) {
    let prospect = run(cloud, look(cloud).prospect(plan, PLAIN)).unwrap().unwrap().unwrap();
    let one = prospect.changes.iter().find(|change| change.kind == ResourceKind::FileSystem).unwrap();
    (one.action.clone(), one.because.clone(), prospect.is_empty())
}

/// The tags by which jobs say that they use the one file system.
fn users(account: &Account) -> BTreeMap<String, String> {
    let systems: Vec<_> = account.file_systems.values().map(|state| &state.system).collect();
    let [system] = systems.as_slice() else { panic!("{} file systems", systems.len()) };
    let all = system.tags.iter().filter(|(key, _)| key.starts_with("trainc:job"));
    all.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn keys(account: &Account) -> Vec<String> {
    users(account).into_keys().collect()
}

#[test]
fn jobs_that_describe_a_file_system_alike_share_it_and_the_last_takes_it_away() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    let (action, because, _) = seen(&fake, &b);
    assert_eq!(action, Action::Update);
    assert!(because.ends_with(" exists, shared with `a`"), "{because}");
    applied(&fake, &b);
    let [roles, systems, links, _, started] = counts(&fake.account());
    assert_eq!((roles, systems, links, started), (2, 1, 1, 2), "one file system with one link");
    assert_eq!(keys(&fake.account()), ["trainc:job", "trainc:job:b"]);
    assert!(fake.account().file_systems.values().all(|one| one.system.tags["trainc:shared"] == "true"));
    for (plan, other) in [(&a, "`b`"), (&b, "`a`")] {
        let (action, because, nothing) = seen(&fake, plan);
        assert!(action == Action::Unchanged && nothing, "{because}");
        assert!(because.ends_with(&format!(", shared with {other}")), "{because}");
    }
    // The first one leaves: its place is the second's.
    let (remains, failed) = run(&fake, destroy(&fake, &a, ALL)).unwrap();
    let removals = remains.removals(ALL);
    let lines = &removals.0;
    let line = lines.iter().find(|one| one.item.kind == ResourceKind::FileSystem).unwrap();
    assert_eq!((line.verb(), line.because.as_str(), failed), (Verb::Leave, "`b` also uses it", 0));
    assert!(lines.iter().all(|one| one.item.kind != ResourceKind::Association) && !removals.leaves_foreign());
    assert_eq!(users(&fake.account()), BTreeMap::from([("trainc:job".to_owned(), "b".to_owned())]));
    assert!(seen(&fake, &b).2, "nothing of the second one's went");
    assert!(run(&fake, destroy(&fake, &a, ALL)).unwrap().0.is_empty());
    // It comes back, and the second leaves: of that one nothing stays.
    let end = run(&fake, apply(&fake, &a, Choices { new_run: true, ..PLAIN })).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(keys(&fake.account()), ["trainc:job", "trainc:job:a"]);
    assert_eq!(run(&fake, destroy(&fake, &b, ALL)).unwrap().1, 0);
    assert_eq!(users(&fake.account()), BTreeMap::from([("trainc:job".to_owned(), "a".to_owned())]));
    assert_eq!(run(&fake, destroy(&fake, &a, ALL)).unwrap().1, 0);
    assert_eq!(&counts(&fake.account())[..3], [0, 0, 0], "the last one takes it");
}

#[test]
fn what_differs_in_what_cannot_change_is_not_shared() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    for edit in ["network", "link", "name"] {
        let mut other = b.clone();
        match edit {
            "network" => {
                let network = other.job.network.as_mut().unwrap();
                network.security_groups[0].value = "sg-0fedcba9876543210".to_owned();
            }
            "link" => {
                *other.job.storage[0].imports[0].s3.value_mut().unwrap() =
                    trainc_ir::Address::new("s3://example-corpus/x/")
            }
            _ => *other.job.storage[0].name.value_mut().unwrap() = "other".to_owned(),
        }
        assert_eq!(seen(&fake, &other).0, Action::Create, "{edit}");
    }
    // What can change in place is no other file system, and one that wants less of what only grows takes more.
    let mut more = b.clone();
    let bytes = more.job.storage[0].capacity_bytes.value_mut().unwrap();
    *bytes *= 2;
    let (action, because, _) = seen(&fake, &more);
    assert_eq!(action, Action::Update, "{because}");
    applied(&fake, &more);
    assert_eq!(fake.account().file_systems.len(), 1);
    let (action, because, nothing) = seen(&fake, &a);
    assert!(action == Action::Unchanged && nothing, "{because}");
}

#[test]
fn applied_at_the_same_time_by_several_commands_there_is_one() {
    for lag in [0, 5] {
        let plans = jobs(&["a", "b", "c", "d"]);
        let fake = cloud(Account::default(), Faults { lag, ..Faults::default() });
        let all = plans.iter().map(|plan| apply(&fake, plan, PLAIN));
        let ends = run(&fake, join_all(all)).unwrap();
        assert!(ends.iter().all(|end| matches!(end, End::Done(_))), "lag {lag}: {ends:?}");
        let [_, systems, links, _, started] = counts(&fake.account());
        assert_eq!((systems, links, started), (1, 1, 4), "lag {lag}");
        assert_eq!(users(&fake.account()).len(), 4, "lag {lag}");
        let calm = Fake::new(fake.account());
        let all = plans.iter().map(|plan| destroy(&calm, plan, ALL));
        run(&calm, join_all(all)).unwrap();
        // Whom all others leave meanwhile is told so, and takes it away once that was shown.
        for plan in &plans {
            run(&calm, destroy(&calm, plan, ALL)).unwrap();
        }
        assert_eq!(&counts(&calm.account())[..3], [0, 0, 0], "lag {lag}");
    }
}

#[test]
fn killed_at_every_call_coming_and_leaving_go_on() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let calm = Fake::default();
    applied(&calm, &a);
    let alone = calm.account();
    let count = |start: &Account, leave: bool| {
        let fake = Fake::new(start.clone());
        if leave {
            run(&fake, destroy(&fake, &a, ALL)).unwrap();
        } else {
            applied(&fake, &b);
        }
        (fake.calls().len(), fake.account())
    };
    let (calls, both) = count(&alone, false);
    for (k, moment) in (1..=calls).flat_map(|k| [(k, Moment::Before), (k, Moment::After)]) {
        let first = cloud(alone.clone(), Faults { crash: Some((k, moment)), ..Faults::default() });
        assert!(run(&first, apply(&first, &b, PLAIN)).is_none());
        let second = Fake::new(first.account());
        applied(&second, &b);
        assert_eq!(keys(&second.account()), ["trainc:job", "trainc:job:b"], "killed {moment:?} call {k}");
        assert_eq!(second.account().jobs.len(), 2);
    }
    let (leaving, left) = count(&both, true);
    assert_eq!(users(&left), BTreeMap::from([("trainc:job".to_owned(), "b".to_owned())]));
    for (k, moment) in (1..=leaving).flat_map(|k| [(k, Moment::Before), (k, Moment::After)]) {
        let first = cloud(both.clone(), Faults { crash: Some((k, moment)), ..Faults::default() });
        assert!(run(&first, destroy(&first, &a, ALL)).is_none());
        let second = Fake::new(first.account());
        assert_eq!(run(&second, destroy(&second, &a, ALL)).unwrap().1, 0, "killed {moment:?} call {k}");
        assert_eq!(users(&second.account())["trainc:job"], "b", "killed {moment:?} call {k}");
        assert!(
            second.calls().iter().all(|call| *call != Call::DeleteFileSystem),
            "killed {moment:?} call {k}"
        );
        assert!(seen(&second, &b).2, "killed {moment:?} call {k}");
        // Whatever the crash left of the first one's tags, the last takes the file system away.
        run(&second, destroy(&second, &b, ALL)).unwrap();
        assert_eq!(second.account().file_systems.len(), 0, "killed {moment:?} call {k}");
    }
    println!("sharing: killed before and after each of {calls} calls that come and {leaving} that leave");
}

/// What is found before a question is answered, and what is done after.
fn remains(cloud: &Fake, plan: &Plan) -> Inventory {
    run(cloud, async {
        let look = look(cloud);
        let caller = look.ask(async |cloud| cloud.caller_identity().await).await.unwrap();
        look.inventory(&Desired::new(plan, &caller).unwrap(), &[]).await.unwrap()
    })
    .unwrap()
}

fn remove(cloud: &Fake, remains: &Inventory) -> Vec<(Item, Cause)> {
    let ledger = Ledger::default();
    let remover = Remover { look: look(cloud), recorder: Recorder { ledger: &ledger, listener: &Silent } };
    run(cloud, remover.run(remains, &remains.removals(ALL))).unwrap();
    ledger.failures()
}

#[test]
fn what_comes_or_goes_between_the_look_and_the_answer_is_seen() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    // Shown as its own, and another one has come since: it stays, and is that one's.
    let seen = remains(&fake, &a);
    applied(&fake, &b);
    assert!(remove(&fake, &seen).is_empty());
    assert_eq!(users(&fake.account()), BTreeMap::from([("trainc:job".to_owned(), "b".to_owned())]));
    assert_eq!(fake.account().associations.len(), 1);
    // Shown as shared, and the other has left since: it was not shown that it goes, so it does not, and that is said.
    let fake = Fake::default();
    applied(&fake, &a);
    applied(&fake, &b);
    let seen = remains(&fake, &b);
    assert_eq!(run(&fake, destroy(&fake, &a, ALL)).unwrap().1, 0);
    let failed = remove(&fake, &seen);
    let [(Item { kind: ResourceKind::FileSystem, .. }, Cause::Obstacle(change))] = failed.as_slice() else {
        panic!("{failed:?}")
    };
    let verdict = trainc_apply::verdict::obstacle(change, b.job.span);
    let said = &verdict.diagnostic;
    assert_eq!((said.code.id, said.code.name, verdict.exit), ("T0673", "became-sole-user", 5));
    assert!(said.message.contains("its only user"), "{said:?}");
    assert_eq!(
        fake.account().file_systems.values().filter(|one| one.system.lifecycle == "AVAILABLE").count(),
        1
    );
    assert_eq!(run(&fake, destroy(&fake, &b, ALL)).unwrap().1, 0);
    assert_eq!(&counts(&fake.account())[..3], [0, 0, 0]);
}

/// Links go slowly, and meanwhile another job may come: what it uses stays.
#[test]
fn who_comes_while_the_links_go_keeps_the_file_system() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let calm = Fake::default();
    applied(&calm, &a);
    let alone = calm.account();
    let whole = Fake::new(alone.clone());
    assert!(remove(&whole, &remains(&whole, &a)).is_empty());
    let calls = whole.calls();
    let last = calls.iter().position(|call| *call == Call::DeleteDataRepositoryAssociation).unwrap() + 1;
    // Cut off once the link is asked to go, it is gone on with when another has come.
    let first = cloud(alone, Faults { crash: Some((last, Moment::After)), ..Faults::default() });
    let seen = remains(&first, &a);
    let ledger = Ledger::default();
    let remover = Remover { look: look(&first), recorder: Recorder { ledger: &ledger, listener: &Silent } };
    assert!(run(&first, remover.run(&seen, &seen.removals(ALL))).is_none());
    let second = Fake::new(first.account());
    applied(&second, &b);
    assert!(remove(&second, &seen).is_empty());
    assert_eq!(users(&second.account()), BTreeMap::from([("trainc:job".to_owned(), "b".to_owned())]));
}

/// The jobs of one command end at the same time, and each lets the file system go: the last one takes it away.
#[test]
fn sharers_that_let_it_go_with_them_leave_nothing() {
    let mut plans = jobs(&["a", "b", "c"]);
    for plan in &mut plans {
        plan.job.storage[0].delete_after_job = trainc_ir::Field::Is(trainc_ir::Val::default(true, "a test"));
    }
    let fake = Fake::default();
    plans.iter().for_each(|plan| applied(&fake, plan));
    let mut account = fake.account();
    for job in account.jobs.values_mut() {
        "Completed".clone_into(&mut job.job.status);
        job.job.ended = Some(0.0);
    }
    let fake = Fake::new(account);
    let all: Vec<Inventory> = plans.iter().map(|plan| remains(&fake, plan).only_released()).collect();
    let ledgers: Vec<Ledger> = plans.iter().map(|_| Ledger::default()).collect();
    let removers: Vec<_> = ledgers
        .iter()
        .map(|ledger| Remover { look: look(&fake), recorder: Recorder { ledger, listener: &Silent } })
        .collect();
    let removals: Vec<_> = all.iter().map(|remains| remains.removals(Consent::default())).collect();
    let each = removers.iter().zip(&all).zip(&removals);
    let going = each.map(|((remover, remains), removals)| remover.run(remains, removals));
    run(&fake, join_all(going)).unwrap();
    assert!(ledgers.iter().all(|ledger| ledger.failures().is_empty()));
    assert_eq!(fake.account().file_systems.len(), 0);
}

#[test]
fn what_another_job_made_larger_is_no_difference_when_it_has_left() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    let mut more = b.clone();
    *more.job.storage[0].capacity_bytes.value_mut().unwrap() *= 2;
    applied(&fake, &more);
    assert_eq!(run(&fake, destroy(&fake, &more, ALL)).unwrap().1, 0);
    let (action, because, nothing) = seen(&fake, &a);
    assert!(action == Action::Unchanged && nothing, "{because}");
}

#[test]
fn a_link_that_lies_in_another_is_in_the_way_before_anything_is_written() {
    let [a, c] = jobs(&["a", "c"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    let edited = |plan: &Plan| {
        let mut plan = plan.clone();
        *plan.job.storage[0].imports[0].s3.value_mut().unwrap() =
            trainc_ir::Address::new("s3://example-corpus/tokens/sub/");
        plan
    };
    let before = users(&fake.account());
    let end = run(&fake, apply(&fake, &edited(&a), Choices { new_run: true, ..PLAIN })).unwrap();
    assert!(matches!(&end, End::Stopped(why) if why == &[Obstacle::Replace]), "{end:?}");
    assert_eq!(users(&fake.account()), before);
    // Another job that is described so makes one of its own, and one that is described as before shares the first.
    assert_eq!(seen(&fake, &edited(&c)).0, Action::Create);
    assert_eq!(seen(&fake, &c).0, Action::Update);
}

#[test]
fn one_that_failed_for_one_job_is_made_again_for_another() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    let mut account = fake.account();
    for state in account.file_systems.values_mut() {
        "FAILED".clone_into(&mut state.system.lifecycle);
    }
    let fake = Fake::new(account);
    assert_eq!(seen(&fake, &a).0, Action::Stop(Obstacle::Broken), "its own is its own to mend");
    applied(&fake, &b);
    assert_eq!(fake.account().file_systems.len(), 2);
    assert!(seen(&fake, &b).2);
}

/// Two use it when it fails: what is to be typed works for each of them, in either order, and leaves nothing.
#[test]
fn one_that_failed_for_all_its_jobs_is_left_and_made_again() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    applied(&fake, &b);
    let mut account = fake.account();
    for state in account.file_systems.values_mut() {
        "FAILED".clone_into(&mut state.system.lifecycle);
    }
    for [first, second] in [[&a, &b], [&b, &a]] {
        let fake = Fake::new(account.clone());
        for plan in [first, second] {
            let prospect = run(&fake, look(&fake).prospect(plan, PLAIN)).unwrap().unwrap().unwrap();
            let found: Vec<_> = prospect.obstacles().collect();
            let [(change, Obstacle::Broken)] = found.as_slice() else { panic!("{found:?}") };
            let verdict = trainc_apply::verdict::plan_obstacle(plan, change);
            let other = if std::ptr::eq(plan, &raw const a) { "`b`" } else { "`a`" };
            let said = format!(", shared with {other}, has failed: ");
            assert!(verdict.diagnostic.message.contains(&said), "{verdict:?}");
            let help = verdict.diagnostic.help.unwrap();
            assert_eq!(&*help, "trainc destroy MANIFEST && trainc apply MANIFEST --new-run");
        }
        assert_eq!(run(&fake, destroy(&fake, first, Consent::default())).unwrap().1, 0);
        let again = Choices { new_run: true, ..PLAIN };
        let end = run(&fake, apply(&fake, first, again)).unwrap();
        assert!(matches!(end, End::Done(_)), "{end:?}");
        assert_eq!(fake.account().file_systems.len(), 2);
        // The other one finds what was made, and is still told of the failed one, which is its own by now.
        let (action, because, _) = seen(&fake, second);
        assert!(action == Action::Update && because.contains(" exists, shared with "), "{because}");
        let end = run(&fake, apply(&fake, second, again)).unwrap();
        assert!(matches!(end, End::Done(_)), "{end:?}");
        for plan in [first, second] {
            assert_eq!(run(&fake, destroy(&fake, plan, ALL)).unwrap().1, 0);
        }
        assert_eq!(&counts(&fake.account())[..3], [0, 0, 0]);
    }
}

#[test]
fn a_file_system_that_fifty_tags_fill_takes_no_further_job() {
    let [a, b] = jobs(&["a", "b"]).try_into().unwrap();
    let fake = Fake::default();
    applied(&fake, &a);
    let mut account = fake.account();
    let system = &mut account.file_systems.values_mut().next().unwrap().system;
    for number in system.tags.len()..50 {
        system.tags.insert(format!("trainc:job:j{number}"), "0".to_owned());
    }
    let full = Fake::new(account);
    let prospect = run(&full, look(&full).prospect(&b, PLAIN)).unwrap().unwrap().unwrap();
    let found: Vec<_> = prospect.obstacles().collect();
    let [(change, Obstacle::TooManyUsers)] = found.as_slice() else { panic!("{found:?}") };
    let verdict = trainc_apply::verdict::obstacle(change, b.job.span);
    assert_eq!((verdict.diagnostic.code.id, verdict.exit), ("T0671", 3));
    assert!(verdict.diagnostic.message.contains("use it"), "{}", verdict.diagnostic.message);
    assert!(seen(&full, &a).2, "whoever uses it goes on");
}

/// The same job, which wants so much throughput of its file system, MB/s/TiB.
fn wanting(plan: &Plan, throughput: u64) -> Plan {
    let mut plan = plan.clone();
    *plan.job.storage[0].throughput_mb_s_tib.value_mut().unwrap() = throughput;
    plan
}

fn throughput(cloud: &Fake) -> Option<u64> {
    let account = cloud.account();
    let systems: Vec<_> = account.file_systems.values().map(|state| state.system.throughput).collect();
    let [one] = systems.as_slice() else { panic!("{} file systems", systems.len()) };
    *one
}

/// An update takes its time, and the service takes no second one meanwhile.
fn updated(cloud: &Fake) {
    run(cloud, cloud.sleep(std::time::Duration::from_mins(10))).unwrap();
}

#[test]
fn jobs_that_want_different_throughput_are_applied_in_turns_and_converge() {
    let plans = jobs(&["a", "b"]);
    for [first, second] in [[250, 1000], [1000, 250]] {
        let (a, b) = (wanting(&plans[0], first), wanting(&plans[1], second));
        let fake = Fake::default();
        applied(&fake, &a);
        assert_eq!(throughput(&fake), Some(first));
        // Who comes raises what is there, and leaves more as it is; it says so before.
        let (action, because, _) = seen(&fake, &b);
        assert_eq!(action, Action::Update);
        let said = if second > first {
            " exists, and is increased for this job, shared with `a`"
        } else {
            " exists, shared with `a`, which may need more: PerUnitStorageThroughput stays at 1000 (this job asks for 250)"
        };
        assert!(because.ends_with(said), "{because}");
        applied(&fake, &b);
        // A second round, in either order, has nothing to do and writes nothing.
        let before = fake.calls().len();
        for (plan, wants, other) in [(&a, first, "`b`"), (&b, second, "`a`"), (&a, first, "`b`")] {
            let (action, because, nothing) = seen(&fake, plan);
            assert!(action == Action::Unchanged && nothing, "{because}");
            let said = if wants == 1000 {
                format!(" matches the plan, shared with {other}")
            } else {
                format!(
                    ", shared with {other}, which may need more: PerUnitStorageThroughput stays at 1000 (this job asks for 250)"
                )
            };
            assert!(because.ends_with(&said), "{because}");
            applied(&fake, plan);
            assert_eq!(throughput(&fake), Some(1000));
        }
        let updates = fake.calls().split_off(before);
        assert!(updates.iter().all(|call| *call != Call::UpdateFileSystem), "{updates:?}");
        // More than there is raises it for whoever uses it, and the other takes nothing of it back.
        let more = wanting(&a, 2000);
        updated(&fake);
        let prospect = run(&fake, look(&fake).prospect(&more, PLAIN)).unwrap().unwrap().unwrap();
        let change = prospect.changes.iter().find(|change| change.kind == ResourceKind::FileSystem).unwrap();
        assert!(change.because.ends_with(", increased in place for this job, shared with `b`"), "{change:?}");
        let [one] = change.differences.as_slice() else { panic!("{change:?}") };
        assert_eq!((one.found.as_str(), one.wanted.as_str()), ("1000", "2000"));
        applied(&fake, &more);
        updated(&fake);
        assert!(seen(&fake, &b).2);
        assert_eq!(throughput(&fake), Some(2000));
        // Alone again, it is set to what the one that stays asks for.
        assert_eq!(run(&fake, destroy(&fake, &a, ALL)).unwrap().1, 0);
        let (action, because, _) = seen(&fake, &b);
        assert_eq!(action, Action::Update);
        assert!(because.ends_with(", updated in place"), "{because}");
        applied(&fake, &b);
        assert!(seen(&fake, &b).2 && throughput(&fake) == Some(second));
    }
}

/// FSx takes one change at a time. Nobody waits for that with a job that could start, and it is said.
#[test]
fn what_is_being_changed_is_changed_by_a_later_apply() {
    let plans = jobs(&["a", "b"]);
    let fake = Fake::default();
    applied(&fake, &wanting(&plans[0], 250));
    applied(&fake, &wanting(&plans[1], 500));
    let more = wanting(&plans[0], 1000);
    let (action, because, nothing) = seen(&fake, &more);
    assert!(action == Action::Update && !nothing, "{because}");
    assert!(because.contains("until that completes: apply again then, shared with `b`"), "{because}");
    applied(&fake, &more);
    assert_eq!(throughput(&fake), Some(500));
    updated(&fake);
    applied(&fake, &more);
    assert_eq!(throughput(&fake), Some(1000));
}

#[test]
fn applied_at_the_same_time_the_most_throughput_stays() {
    let names = jobs(&["a", "b", "c"]);
    let orders = [[500, 1000, 125], [125, 500, 1000], [1000, 125, 500], [125, 1000, 500]];
    for (lag, wishes) in [0, 5, 11].into_iter().flat_map(|lag| orders.map(|wishes| (lag, wishes))) {
        let plans: Vec<Plan> = names.iter().zip(wishes).map(|(plan, wants)| wanting(plan, wants)).collect();
        let fake = cloud(Account::default(), Faults { lag, ..Faults::default() });
        let ends = run(&fake, join_all(plans.iter().map(|plan| apply(&fake, plan, PLAIN)))).unwrap();
        assert!(ends.iter().all(|end| matches!(end, End::Done(_))), "lag {lag} {wishes:?}: {ends:?}");
        let calm = Fake::new(fake.account());
        for plan in &plans {
            updated(&calm);
            applied(&calm, plan);
        }
        assert_eq!(throughput(&calm), Some(1000), "lag {lag} {wishes:?}");
        assert!(plans.iter().all(|plan| seen(&calm, plan).2), "lag {lag} {wishes:?}");
    }
}

/// Who comes to what another made is told so while it is applied, and by the plan what stays for whom.
#[test]
fn whoever_comes_is_told_with_whom_it_shares() {
    let repo = super::commands::Repo::new("apply-shared", &["llama-7b-fsdp"]);
    let first = "llama-7b-fsdp/trainc.kdl";
    let text = std::fs::read_to_string(repo.0.0.join(first)).unwrap();
    let text = text.replace("job \"llama-7b-fsdp\"", "job \"second\"");
    repo.0.write("llama-7b-fsdp/second.kdl", text.replace("throughput=250", "throughput=125"));
    let second = "llama-7b-fsdp/second.kdl";
    assert_eq!(repo.run(&["apply", first, "--yes"]).code, Some(0));
    let came = repo.run(&["apply", second, "--yes"]);
    assert_eq!(came.code, Some(0), "{}{}", came.out, came.err);
    let line = came.err.lines().find(|line| line.starts_with("file-system corpus: shared")).unwrap();
    assert!(line.starts_with("file-system corpus: shared with `llama-7b-fsdp` (fs-"), "{line}");
    let planned = repo.run(&["plan", second, "--detailed-exit-code"]);
    assert_eq!(planned.code, Some(0), "{}{}", planned.out, planned.err);
    let kept = ", shared with `llama-7b-fsdp`, which may need more: PerUnitStorageThroughput stays at 250 (this job asks for 125)";
    let said = planned.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(kept), "{}", planned.out);
    let json = repo.run(&["plan", second, "-o", "json"]).json();
    let all = json["resources"].as_array().unwrap();
    let one = all.iter().find(|one| one["kind"] == "file-system").unwrap();
    assert!(one["because"].as_str().unwrap().ends_with(kept), "{one}");
    assert_eq!(one["shared_with"], serde_json::json!(["llama-7b-fsdp"]), "{one}");
    let again = repo.run(&[
        "apply",
        second,
        "--yes",
        "--new-run",
        "--set",
        "program.hyperparameter.lr=1e-4",
        "-o",
        "json",
    ]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    let done = again.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut done = done.filter(|one| one["type"] == "done" && one["kind"] == "file-system");
    let one = done.next().unwrap();
    assert_eq!(one["shared_with"], serde_json::json!(["llama-7b-fsdp"]), "{one}");
    // Together they cost one file system.
    repo.edit(second, "throughput=125", "throughput=250");
    let both = repo.run_plain(&["plan", "llama-7b-fsdp", "--offline"]);
    let said = both.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("; shared file system `corpus` counted once"), "{}", both.out);
}
