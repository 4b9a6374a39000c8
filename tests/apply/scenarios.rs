//! Single situations: what is in the way, what changed, what the account does not give.

use super::{End, apply, cloud, counts, look, plan, run};
use trainc_apply::calls::{Call, Effect};
use trainc_apply::cloud::Observe;
use trainc_apply::diff::{Action, Choices, Obstacle, Target};
use trainc_apply::fake::{Account, Fake, Faults, Refusal, RoleState};
use trainc_apply::ledger::Cause;
use trainc_emit::ResourceKind;

const NEW_RUN: Choices = Choices { adopt: false, new_run: true, run: None };
const ADOPT: Choices = Choices { adopt: true, new_run: false, run: None };

fn applied(example: &str, sets: &[&str]) -> Account {
    let calm = Fake::default();
    let end = run(&calm, apply(&calm, &plan(example, sets), Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    calm.account()
}

fn at(account: &Account) -> Fake {
    Fake::new(account.clone())
}

/// `plan` is given this: it can look, and has nothing to write with.
struct OnlyLooks<'a>(&'a Fake);

/// A type that implements [`Observe`] alone is enough for all of `plan`: that this compiles is the test.
async fn plans_with<O: Observe>(cloud: &O, clock: &Fake, plan: &trainc_ir::Plan) -> usize {
    let look = trainc_apply::look::Look {
        cloud,
        clock,
        patience: super::patience(),
        permits: None,
        asked: None,
        refused: None,
        repeated: None,
    };
    look.prospect(plan, Choices::default()).await.unwrap().unwrap().changes.len()
}

macro_rules! looks {
    ($($name:ident($($argument:ident: $type:ty),*) -> $out:ty;)*) => {
        impl Observe for OnlyLooks<'_> {
            $(async fn $name(&self, $($argument: $type),*) -> trainc_apply::cloud::Answer<$out> {
                self.0.$name($($argument),*).await
            })*
        }
    };
}

use trainc_apply::account as a;
looks! {
    caller_identity() -> a::Caller;
    role(name: &str) -> a::Role;
    role_policy(role: &str, policy: &str) -> String;
    inline_policies(role: &str) -> Vec<String>;
    attached_policies(role: &str) -> Vec<String>;
    simulate(arn: &str, questions: &[a::Question]) -> Vec<bool>;
    file_systems() -> Vec<a::FileSystem>;
    file_system(id: &str) -> a::FileSystem;
    associations(id: &str) -> Vec<a::Association>;
    training_job(name: &str) -> a::TrainingJob;
    training_jobs(name: &str) -> Vec<a::JobSummary>;
    running_jobs(stopping: bool) -> Vec<a::JobSummary>;
    job_tags(arn: &str) -> a::Tags;
    bucket(name: &str, owner: Option<&str>) -> a::Bucket;
    objects(bucket: &str, prefix: &str, most: usize, owner: Option<&str>) -> Vec<a::Object>;
    multipart_uploads(bucket: &str, prefix: &str) -> Vec<(String, String)>;
    uploaded_object(upload: &a::Upload) -> a::Object;
    subnets(ids: &[String]) -> Vec<a::Subnet>;
    security_groups(ids: &[String]) -> Vec<a::SecurityGroup>;
    route_tables(vpc: &str) -> Vec<a::RouteTable>;
    vpc_endpoints(vpc: &str, service: &str) -> Vec<a::Endpoint>;
    zones(kind: &str) -> Vec<String>;
    quota(service: &str, code: &str) -> f64;
    default_quota(service: &str, code: &str) -> f64;
    log_streams(prefix: &str) -> Vec<a::LogStream>;
    log_events(stream: &str, from: a::LogFrom<'_>, most: u32) -> a::LogPage;
}

#[test]
fn a_plan_needs_nothing_that_can_write() {
    let fake = Fake::default();
    let plan = plan("llama-7b-fsdp", &[]);
    let resources = run(&fake, plans_with(&OnlyLooks(&fake), &fake, &plan)).unwrap();
    assert_eq!(resources, 7);
    let account = fake.account();
    assert_eq!(counts(&account), [0; 5]);
    assert!(fake.calls().iter().all(|call| call.row().effect == Effect::Read));
}

#[test]
fn a_second_plan_is_empty() {
    for example in ["llama-7b-fsdp", "distilbert-spot", "gptj-6b-tensor", "falcon-40b-qlora", "starter"] {
        let later = at(&applied(example, &[]));
        let prospect = run(&later, look(&later).prospect(&plan(example, &[]), Choices::default()));
        let prospect = prospect.unwrap().unwrap().unwrap();
        assert!(prospect.is_empty(), "{example}: {:#?}", prospect.changes);
    }
}

#[test]
fn a_changed_manifest_is_another_job_only_when_asked_for() {
    let account = applied("llama-7b-fsdp", &[]);
    let changed = plan("llama-7b-fsdp", &["train.seed=7", "program.hyperparameter.lr=1e-4"]);
    let second = at(&account);
    let prospect =
        run(&second, look(&second).prospect(&changed, Choices::default())).unwrap().unwrap().unwrap();
    let (change, obstacle) = prospect.obstacles().next().unwrap();
    assert_eq!(obstacle, Obstacle::OtherDigest);
    let lr = change.differences.iter().find(|one| one.what == "HyperParameters.lr").unwrap();
    assert_eq!((lr.found.as_str(), lr.wanted.as_str()), ("0.0003", "0.0001"), "{change:#?}");
    assert_eq!(change.differences.len(), 1, "{change:#?}");
    let third = at(&account);
    let end = run(&third, apply(&third, &changed, NEW_RUN)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(counts(&third.account()), [1, 1, 1, 1, 2], "the learning rate makes no second file system");
}

/// A run of an older version may do all it could when it was started, for as long as it runs.
#[test]
fn a_new_run_takes_nothing_from_one_that_runs() {
    let older = applied("llama-7b-fsdp", &[]);
    let policy = |account: &Account| account.roles.values().next().unwrap().policies["trainc"].clone();
    let sets = ["output.s3=s3://example-runs/elsewhere/"];
    let changed = plan("llama-7b-fsdp", &sets);
    let cloud = at(&older);
    let end = run(&cloud, apply(&cloud, &changed, NEW_RUN)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let both = policy(&cloud.account());
    let calm = Fake::default();
    run(&calm, apply(&calm, &changed, Choices::default())).unwrap();
    let alone = policy(&calm.account());
    // What the outputs of each need stands in it, and a second look finds nothing to do.
    let old_home = "example-runs/llama-7b/output";
    assert!(policy(&older).contains(old_home) && !alone.contains(old_home), "{alone}");
    assert!(both.contains(old_home) && both.contains("example-runs/elsewhere"), "{both}");
    assert!(both.len() > alone.len());
    let prospect =
        run(&cloud, look(&cloud).prospect(&changed, Choices::default())).unwrap().unwrap().unwrap();
    assert!(prospect.is_empty(), "{:#?}", prospect.changes);
    let said = prospect.changes.iter().find(|change| change.kind == ResourceKind::RolePolicy).unwrap();
    assert!(said.because.contains("are kept until the apply after its end"), "{}", said.because);
    // The older one has ended, the newer one has not: the policy is the newer one's again.
    let mut account = cloud.account();
    let first = older.jobs.keys().next().unwrap();
    account.jobs.get_mut(first).unwrap().job.status = "Completed".to_owned();
    let later = at(&account);
    let end = run(&later, apply(&later, &changed, Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let as_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(as_json(&policy(&later.account())), as_json(&alone));
}

/// Both look before either has made anything, and both are meant: the later one finds the other's policy when it writes.
#[test]
fn two_new_runs_at_once_leave_each_other_their_rights() {
    let shared = Fake::default();
    let first = plan("llama-7b-fsdp", &[]);
    let second = plan("llama-7b-fsdp", &["output.s3=s3://example-runs/elsewhere/"]);
    let late = async {
        let prospect = look(&shared).prospect(&second, NEW_RUN).await.unwrap().unwrap();
        let end = apply(&shared, &first, NEW_RUN).await;
        assert!(matches!(end, End::Done(_)), "{end:?}");
        super::drive(look(&shared), &prospect, NEW_RUN).await
    };
    let end = run(&shared, late).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let account = shared.account();
    let policy = &account.roles.values().next().unwrap().policies["trainc"];
    assert!(policy.contains("llama-7b/output") && policy.contains("example-runs/elsewhere"), "{policy}");
    assert_eq!(account.jobs.len(), 2);
}

/// What a stranger puts at the key of an upload: another size, another content of the same size, and content of which
/// nobody knows the checksum.
fn planted(case: &str) -> (Account, String) {
    let mut account = applied("starter", &[]);
    account.jobs.clear();
    let uri = account.objects.keys().next().unwrap().clone();
    let sum = account.checksums.remove(&uri).unwrap();
    match case {
        "size" => _ = account.objects.insert(uri.clone(), 4),
        "content" => _ = account.checksums.insert(uri.clone(), sum.chars().rev().collect()),
        _ => {}
    }
    (account, uri)
}

/// Anyone who may write to the bucket can compute the key: content that is not verified is overwritten before a job runs it.
#[test]
fn a_planted_archive_is_overwritten_before_the_job_starts() {
    let plan = plan("starter", &[]);
    let archive = applied("starter", &[]);
    for (case, words) in [
        ("size", "the key holds another object, of 4 bytes instead of"),
        ("content", "but with another SHA-256: it is overwritten"),
        ("unknown", "of which S3 shows no SHA-256: it is overwritten"),
    ] {
        for hidden in [false, true] {
            let (mut account, uri) = planted(case);
            account.hidden_checksums = hidden;
            let cloud = at(&account);
            let prospect =
                run(&cloud, look(&cloud).prospect(&plan, Choices::default())).unwrap().unwrap().unwrap();
            let change = prospect.changes.iter().find(|one| one.kind == ResourceKind::Source).unwrap();
            assert_eq!(change.action, Action::Update, "{change:?}");
            assert!(hidden || change.because.contains(words), "{}", change.because);
            let end = run(&cloud, apply(&cloud, &plan, Choices::default())).unwrap();
            assert!(matches!(end, End::Done(_)), "{end:?}");
            assert_eq!(cloud.account().checksums[&uri], archive.checksums[&uri]);
            let calls = cloud.calls();
            let puts = calls.iter().filter(|call| **call == Call::PutObject).count();
            assert_eq!(puts, 1, "what this run wrote is known by its entity tag: {calls:?}");
            // The run that was started has read it: a second apply writes nothing.
            let again = at(&cloud.account());
            let end = run(&again, apply(&again, &plan, Choices::default())).unwrap();
            assert!(matches!(end, End::Done(_)), "{end:?}");
            assert!(again.calls().iter().all(|call| *call != Call::PutObject));
        }
    }
}

#[test]
fn a_planted_archive_that_may_not_be_overwritten_stops_the_job() {
    let plan = plan("starter", &[]);
    for case in ["size", "content", "unknown"] {
        let (mut account, uri) = planted(case);
        account.denied.insert("s3:PutObject".to_owned());
        let cloud = at(&account);
        let end = run(&cloud, apply(&cloud, &plan, Choices::default())).unwrap();
        let End::Failed(causes) = &end else { panic!("{end:?}") };
        let (item, cause) = &causes[0];
        let verdict = trainc_apply::verdict::verdict(&plan, item, cause);
        assert_eq!((verdict.diagnostic.code.id, verdict.exit, verdict.flag), ("T0605", 7, None));
        assert!(
            verdict.diagnostic.message.starts_with("an object that is not ours is in the way"),
            "{}",
            verdict.diagnostic.message
        );
        assert_eq!(
            verdict.diagnostic.help.as_deref(),
            Some(&*format!("aws s3 rm s3://{uri} && trainc apply MANIFEST"))
        );
        assert!(cloud.account().jobs.is_empty());
    }
}

/// The worker's binary and its config are programs and settings of the job as well.
#[test]
fn a_planted_worker_is_overwritten_before_the_job_starts() {
    let plan = super::plan_with("tests/fixtures/worker-cpu.kdl", &[], Some(super::elf()));
    let fresh = Fake::default();
    run(&fresh, apply(&fresh, &plan, Choices::default())).unwrap();
    let mut account = fresh.account();
    account.jobs.clear();
    account.checksums.clear();
    let cloud = at(&account);
    let end = run(&cloud, apply(&cloud, &plan, Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(cloud.account().checksums, fresh.account().checksums);
    assert_eq!(cloud.account().jobs.len(), 1);
}

/// Put there while an apply was on its way: it is overwritten again, right before the job starts.
#[test]
fn an_archive_that_is_planted_meanwhile_is_not_run() {
    let plan = plan("starter", &[]);
    let mut account = applied("starter", &[]);
    account.jobs.clear();
    let seen = at(&account);
    let prospect = run(&seen, look(&seen).prospect(&plan, Choices::default())).unwrap().unwrap().unwrap();
    assert!(
        prospect
            .changes
            .iter()
            .all(|change| change.kind != ResourceKind::Source || change.action == Action::Unchanged)
    );
    account.objects.values_mut().for_each(|bytes| *bytes = 4);
    let later = at(&account);
    let end = run(&later, super::drive(look(&later), &prospect, Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(later.account().objects, applied("starter", &[]).objects);
    assert_eq!(later.account().jobs.len(), 1);
}

/// An apply that is killed between its create and its second look leaves two versions running: the next apply of either
/// says so, until one is ended or both are asked for.
#[test]
fn two_versions_that_nobody_asked_for_are_said() {
    let first = plan("starter", &[]);
    let second = plan("starter", &["train.steps=77"]);
    let mut account = applied("starter", &[]);
    // As the race leaves it: each was started in an account that did not show the other yet.
    let calm = Fake::default();
    run(&calm, apply(&calm, &second, Choices::default())).unwrap();
    let (name, mut state) = calm.account().jobs.pop_first().unwrap();
    state.job.created += 1.0;
    account.jobs.insert(name.clone(), state);
    account.now += 2.0;
    assert_eq!(account.jobs.len(), 2);
    for plan in [&first, &second] {
        let cloud = at(&account);
        let end = run(&cloud, apply(&cloud, plan, Choices::default())).unwrap();
        assert!(matches!(&end, End::Stopped(why) if why == &[Obstacle::ConcurrentVersion]), "{end:?}");
        assert!(cloud.calls().iter().all(|call| call.row().effect == Effect::Read));
        let prospect =
            run(&cloud, look(&cloud).prospect(plan, Choices::default())).unwrap().unwrap().unwrap();
        let (change, _) = prospect.obstacles().next().unwrap();
        assert!(account.jobs.keys().all(|job| change.because.contains(job)), "{}", change.because);
        let verdict = trainc_apply::verdict::obstacle(change, plan.job.span);
        assert_eq!((verdict.diagnostic.code.id, verdict.exit, verdict.flag), ("T0645", 4, Some("--new-run")));
        let end = run(&cloud, apply(&cloud, plan, NEW_RUN)).unwrap();
        assert!(matches!(end, End::Done(_)), "{end:?}");
        assert_eq!(cloud.account().jobs.len(), 2, "both run: nothing more to start");
    }
    // One is being ended: nothing stands in the way of the other.
    let mut ended = account.clone();
    ended.jobs.get_mut(&name).unwrap().stopped = Some(ended.now);
    let cloud = at(&ended);
    let end = run(&cloud, apply(&cloud, &first, Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    // Started with `--new-run`, the later one was meant.
    let asked = at(&applied("starter", &[]));
    run(&asked, apply(&asked, &second, NEW_RUN)).unwrap();
    for plan in [&first, &second] {
        let end = run(&asked, apply(&asked, plan, Choices::default())).unwrap();
        assert!(matches!(end, End::Done(_)), "{end:?}");
    }
    assert_eq!(asked.account().jobs.len(), 2);
}

/// Both look before either has made anything: the second finds out before it would start its job, minutes later.
#[test]
fn an_edit_while_the_file_system_is_made_makes_no_second_job() {
    let shared = Fake::default();
    let (first, edited) =
        (plan("llama-7b-fsdp", &[]), plan("llama-7b-fsdp", &["program.hyperparameter.lr=1e-4"]));
    let late = async {
        let prospect = look(&shared).prospect(&edited, Choices::default()).await.unwrap().unwrap();
        assert_eq!(prospect.obstacles().count(), 0);
        let end = apply(&shared, &first, Choices::default()).await;
        assert!(matches!(end, End::Done(_)), "{end:?}");
        prospect
    };
    let prospect = run(&shared, late).unwrap();
    let end = run(&shared, super::drive(look(&shared), &prospect, Choices::default())).unwrap();
    let End::Failed(causes) = &end else { panic!("{end:?}") };
    let [(item, Cause::Obstacle(change))] = causes.as_slice() else { panic!("{causes:?}") };
    assert_eq!(item.kind, ResourceKind::TrainingJob);
    assert_eq!(change.action, Action::Stop(Obstacle::OtherDigest));
    assert_eq!(shared.account().jobs.len(), 1);
}

#[test]
fn a_new_run_of_the_same_digest_waits_for_the_end_of_the_first() {
    let account = applied("distilbert-spot", &[]);
    let plan = plan("distilbert-spot", &[]);
    let during = at(&account);
    let end = run(&during, apply(&during, &plan, NEW_RUN)).unwrap();
    assert!(matches!(end, End::Done(_)));
    assert_eq!(during.account().jobs.len(), 1, "it is running: nothing more to start");
    let mut over = account;
    over.now += 10_000.0;
    let after = at(&over);
    let End::Done(name) = run(&after, apply(&after, &plan, NEW_RUN)).unwrap() else { panic!() };
    assert!(name.ends_with("-r2"), "{name}");
    let job = &after.account().jobs[&name];
    let said = job.job.request.pointer("/HyperParameters/sagemaker_job_name").unwrap();
    assert_eq!(said, &serde_json::json!(format!("\"{name}\"")));
    // Ten at once agree on the number.
    let mut over = after.account();
    over.now += 10_000.0;
    let shared = at(&over);
    let all = (0..10).map(|_| apply(&shared, &plan, NEW_RUN));
    run(&shared, futures_util::future::join_all(all)).unwrap();
    assert_eq!(shared.account().jobs.len(), 3);
}

#[test]
fn a_role_of_somebody_else_is_in_the_way_until_it_is_adopted() {
    let account = applied("starter", &[]);
    let mut foreign = Account::default();
    let (name, ours) = account.roles.iter().next().unwrap();
    let mut role = RoleState { role: ours.role.clone(), ..RoleState::default() };
    role.role.tags.clear();
    role.role.tags.insert("team".to_owned(), "vision".to_owned());
    foreign.roles.insert(name.clone(), role);
    let plan = plan("starter", &[]);
    let refused = at(&foreign);
    let end = run(&refused, apply(&refused, &plan, Choices::default())).unwrap();
    assert!(matches!(&end, End::Stopped(why) if why.contains(&Obstacle::Foreign)), "{end:?}");
    assert!(refused.calls().iter().all(|call| call.row().effect == Effect::Read));
    let taken = at(&foreign);
    let end = run(&taken, apply(&taken, &plan, ADOPT)).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let tags = &taken.account().roles[name].role.tags;
    assert_eq!(tags["trainc:job"], "my-first-job");
    assert_eq!(tags["team"], "vision");
}

#[test]
fn a_job_of_somebody_else_is_in_the_way() {
    let mut account = applied("distilbert-spot", &[]);
    account.jobs.values_mut().for_each(|job| job.tags.clear());
    let again = at(&account);
    let end = run(&again, apply(&again, &plan("distilbert-spot", &[]), Choices::default())).unwrap();
    assert!(matches!(&end, End::Stopped(why) if why == &[Obstacle::Foreign]), "{end:?}");
}

#[test]
fn what_can_change_in_place_does_and_the_rest_stops() {
    let account = applied("llama-7b-fsdp", &[]);
    let actions = |sets: &[&str]| {
        let cloud = at(&account);
        let plan = plan("llama-7b-fsdp", sets);
        let prospect =
            run(&cloud, look(&cloud).prospect(&plan, Choices::default())).unwrap().unwrap().unwrap();
        prospect.changes.iter().find(|change| change.kind == ResourceKind::FileSystem).unwrap().clone()
    };
    let grown = actions(&["storage.corpus.capacity=7200GiB"]);
    assert_eq!(grown.action, Action::Update, "{grown:?}");
    let shrunk = actions(&["storage.corpus.capacity=2400GiB"]);
    assert_eq!(shrunk.action, Action::Stop(Obstacle::Replace), "{shrunk:?}");
    let other = actions(&["network.subnets=subnet-0bbbbbbbbbbbbbbbb"]);
    assert_eq!(other.action, Action::Stop(Obstacle::Replace), "{other:?}");
}

#[test]
fn a_file_system_grows_in_place_and_stays_one() {
    let account = applied("llama-7b-fsdp", &[]);
    let plan = plan("llama-7b-fsdp", &["storage.corpus.capacity=7200GiB"]);
    let second = at(&account);
    // The job that runs is the same: the size of a file system is no part of its digest.
    let end = run(&second, apply(&second, &plan, Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let after = second.account();
    assert_eq!(counts(&after), [1, 1, 1, 1, 1]);
    assert_eq!(after.file_systems.values().next().unwrap().system.capacity_gib, 7_200);
}

#[test]
fn a_role_that_drifted_is_brought_back() {
    let mut account = applied("starter", &[]);
    let role = account.roles.values_mut().next().unwrap();
    role.policies.insert("trainc".to_owned(), r#"{"Version":"2012-10-17","Statement":[]}"#.to_owned());
    role.role.trust = "{}".to_owned();
    let again = at(&account);
    let end = run(&again, apply(&again, &plan("starter", &[]), Choices::default())).unwrap();
    assert!(matches!(end, End::Done(_)), "{end:?}");
    let writes: Vec<Call> =
        again.calls().into_iter().filter(|call| call.row().effect == Effect::Write).collect();
    assert_eq!(writes, [Call::UpdateAssumeRolePolicy, Call::PutRolePolicy]);
}

#[test]
fn after_its_end_a_job_needs_nothing() {
    let mut account = applied("llama-7b-fsdp", &[]);
    account.now += 100_000.0;
    account.roles.clear();
    account.file_systems.clear();
    let later = at(&account);
    let plan = plan("llama-7b-fsdp", &[]);
    let prospect = run(&later, look(&later).prospect(&plan, Choices::default())).unwrap().unwrap().unwrap();
    assert!(prospect.is_empty(), "{:#?}", prospect.changes);
}

#[test]
fn a_refusal_stops_before_anything_dear_is_made() {
    let refusal =
        Refusal { call: Call::CreateRole, times: 99, http: 403, code: "AccessDenied", text: "not you" };
    let denied = cloud(Account::default(), Faults { refusals: vec![refusal], ..Faults::default() });
    let end = run(&denied, apply(&denied, &plan("llama-7b-fsdp", &[]), Choices::default())).unwrap();
    let End::Failed(failed) = &end else { panic!("{end:?}") };
    assert!(matches!(&failed[0].1, Cause::Fault(fault) if fault.call == Call::CreateRole), "{failed:?}");
    assert!(denied.account().file_systems.is_empty());
    assert!(denied.account().jobs.is_empty());
}

/// Two versions of a job are applied at the same moment: neither is there for the other to see, and one stays.
#[test]
fn two_versions_at_once_leave_one() {
    for order in [false, true] {
        let (a, b) = (plan("starter", &[]), plan("starter", &["cluster.max-run=3h"]));
        let (first, second) = if order { (&a, &b) } else { (&b, &a) };
        let shared = Fake::default();
        let none = Choices::default();
        let ends = run(&shared, async {
            futures_util::join!(apply(&shared, first, none), apply(&shared, second, none))
        });
        let (one, other) = ends.unwrap();
        let account = shared.account();
        let going = account.jobs.values().filter(|state| state.job.status == "InProgress").count();
        assert_eq!((account.jobs.len(), going), (2, 1), "{one:?} / {other:?}");
        let lost = [one, other].into_iter().filter_map(|end| match end {
            End::Failed(failed) => Some(failed),
            _ => None,
        });
        let lost: Vec<_> = lost.flatten().collect();
        let [(_, Cause::Obstacle(change))] = lost.as_slice() else { panic!("{lost:?}") };
        assert_eq!(change.action, Action::Stop(Obstacle::OtherDigest));
        let winner = account.jobs.values().find(|state| state.job.status == "InProgress").unwrap();
        let loser = account.jobs.values().find(|state| state.job.status != "InProgress").unwrap();
        assert!(winner.job.created < loser.job.created);
        assert_eq!(change.name, loser.job.name);
        assert!(change.because.starts_with(&winner.job.name), "{}", change.because);
    }
    // Who says so starts both.
    let (a, b) = (plan("starter", &[]), plan("starter", &["cluster.max-run=3h"]));
    let shared = Fake::default();
    let again = Choices { new_run: true, ..Choices::default() };
    run(&shared, async { futures_util::join!(apply(&shared, &a, again), apply(&shared, &b, again)) })
        .unwrap();
    assert_eq!(shared.account().jobs.values().filter(|state| state.job.status == "InProgress").count(), 2);
}

/// Runs are numbered with three digits, and the last has no next.
#[test]
fn the_run_after_the_999th_is_refused_with_words() {
    let calm = Fake::default();
    let plan = plan("llama-7b-fsdp", &[]);
    run(&calm, apply(&calm, &plan, Choices::default())).unwrap();
    let (first, mut job) = calm.account().jobs.into_iter().next().unwrap();
    let after = |number: usize, job: &mut trainc_apply::fake::JobState| {
        let mut account = calm.account();
        job.job.name = format!("{first}-r{number}");
        job.job.status = "Completed".to_owned();
        account.jobs.insert(job.job.name.clone(), job.clone());
        let cloud = Fake::new(account);
        let seen = run(&cloud, look(&cloud).prospect(&plan, NEW_RUN)).unwrap().unwrap().unwrap();
        (seen.target, seen.changes)
    };
    for number in [2, 9, 10, 99, 100, 998] {
        let (target, _) = after(number, &mut job);
        assert_eq!(target, Target::Start(format!("{first}-r{}", number + 1)));
    }
    let (target, changes) = after(999, &mut job);
    assert_eq!(target, Target::Blocked(Obstacle::RunsExhausted));
    let change = changes.iter().find(|change| change.kind == ResourceKind::TrainingJob).unwrap();
    assert_eq!(change.because, format!("{first}-r999 is run 999 of this digest: no run number is left"));
    let verdict = trainc_apply::verdict::obstacle(change, plan.job.span);
    assert_eq!((verdict.diagnostic.code.id, verdict.exit), ("T0669", 3));
}
