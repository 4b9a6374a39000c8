//! Destroy: only ours, in reverse, from any crash.

use super::{End, apply, cloud, counts, look, plan, run};
use std::time::Duration;
use trainc_apply::calls::{Call, Effect};
use trainc_apply::cloud::{Clock, Cloud, Observe};
use trainc_apply::desired::Desired;
use trainc_apply::destroy::{Consent, Inventory, Remover};
use trainc_apply::diff::Choices;
use trainc_apply::fake::{Account, Fake, Faults, Moment};
use trainc_apply::ledger::{Cause, Ledger, Recorder, Silent};
use trainc_apply::verdict;
use trainc_emit::{ResourceKind, Verb};
use trainc_ir::Plan;

pub(super) const ALL: Consent = Consent { delete_data: true };

pub(super) async fn destroy(cloud: &Fake, plan: &Plan, consent: Consent) -> (Inventory, usize) {
    let look = look(cloud);
    let caller = look.ask(async |cloud| cloud.caller_identity().await).await.unwrap();
    let desired = Desired::new(plan, &caller).unwrap();
    let homes = [trainc_emit::archive_base_prefix(plan), trainc_emit::worker_home(plan)]
        .map(|home| home.replace("${account}", &caller.account));
    let remains = look.inventory(&desired, &homes).await.unwrap();
    let ledger = Ledger::default();
    let remover = Remover { look, recorder: Recorder { ledger: &ledger, listener: &Silent } };
    remover.run(&remains, &remains.removals(consent)).await;
    (remains, ledger.failures().len() + ledger.not_started().len())
}

fn applied(plan: &Plan) -> Account {
    let calm = Fake::default();
    assert!(matches!(run(&calm, apply(&calm, plan, Choices::default())).unwrap(), End::Done(_)));
    calm.account()
}

/// What is left of trainc, but for the record of the job and the bucket.
fn left(account: &Account) -> [usize; 4] {
    let [roles, file_systems, associations, objects, _] = counts(account);
    [roles, file_systems, associations, objects]
}

#[test]
fn killed_at_every_call_destroy_goes_on() {
    let plan = plan("llama-7b-fsdp", &[]);
    let account = applied(&plan);
    let calm = Fake::new(account.clone());
    let (_, failed) = run(&calm, destroy(&calm, &plan, ALL)).unwrap();
    assert_eq!((left(&calm.account()), failed), ([0; 4], 0));
    assert!(calm.account().jobs.values().all(|job| job.job.status == "Stopped"));
    let calls = calm.calls().len();
    for k in 1..=calls {
        for moment in [Moment::Before, Moment::After] {
            let first = cloud(account.clone(), Faults { crash: Some((k, moment)), ..Faults::default() });
            assert!(run(&first, destroy(&first, &plan, ALL)).is_none());
            let second = Fake::new(first.account());
            let (_, failed) = run(&second, destroy(&second, &plan, ALL)).unwrap();
            assert_eq!((left(&second.account()), failed), ([0; 4], 0), "killed {moment:?} call {k}");
            let third = Fake::new(second.account());
            let (remains, _) = run(&third, destroy(&third, &plan, ALL)).unwrap();
            assert!(remains.is_empty());
            assert!(third.calls().iter().all(|call| call.row().effect == Effect::Read));
        }
    }
    println!("destroy: killed before and after each of {calls} calls, nothing left each time");
}

#[test]
fn uploads_that_were_never_finished_go_too() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut account = applied(&plan);
    let archive = account.objects.keys().next().unwrap().clone();
    account.objects.clear();
    let foreign = archive.replace("sourcedir.tar.gz", "somebody-elses.bin");
    account.unfinished.extend([archive, foreign.clone()]);
    let gone = Fake::new(account);
    let (remains, failed) = run(&gone, destroy(&gone, &plan, ALL)).unwrap();
    assert_eq!((remains.uploads.len(), failed), (1, 0));
    assert_eq!(gone.account().unfinished.into_iter().collect::<Vec<_>>(), [foreign]);
}

#[test]
fn data_stays_unless_it_may_go() {
    let plan = plan("llama-7b-fsdp", &[]);
    let kept = Fake::new(applied(&plan));
    run(&kept, destroy(&kept, &plan, Consent::default())).unwrap();
    assert_eq!(left(&kept.account()), [0, 1, 1, 0]);
    // What the manifest no longer names is found by its tags.
    let renamed = super::plan("llama-7b-fsdp", &["storage.corpus.capacity=7200GiB"]);
    let gone = Fake::new(kept.account());
    run(&gone, destroy(&gone, &renamed, ALL)).unwrap();
    assert_eq!(left(&gone.account()), [0; 4]);
}

#[test]
fn what_is_not_ours_or_is_in_use_stays() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut account = applied(&plan);
    let id = account.file_systems.keys().next().unwrap().clone();
    let mut other = account.jobs.values().next().unwrap().clone();
    other.job.name = "somebody-else".to_owned();
    other.tags.clear();
    account.jobs.insert("somebody-else".to_owned(), other);
    account.roles.values_mut().for_each(|role| role.role.tags.clear());
    let busy = Fake::new(account);
    let (remains, _) = run(&busy, destroy(&busy, &plan, ALL)).unwrap();
    assert_eq!(remains.in_use[0], (id, "somebody-else".to_owned()));
    assert!(remains.foreign_role.is_some());
    assert_eq!(left(&busy.account()), [1, 1, 1, 1]);
    assert!(!busy.calls().contains(&Call::DeleteRole));
    assert_eq!(busy.account().jobs["somebody-else"].job.status, "InProgress");
}

/// Somebody starts a run between the question and its answer.
#[test]
fn nothing_goes_under_a_job_that_was_started_meanwhile() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut over = applied(&plan);
    over.now += 1e6;
    let fake = Fake::new(over);
    let ended = run(&fake, async {
        let desired = Desired::new(&plan, &fake.caller_identity().await.unwrap()).unwrap();
        let remains = super::look(&fake).inventory(&desired, &[]).await.unwrap();
        assert!(remains.running.is_empty());
        let again = Choices { new_run: true, ..Choices::default() };
        assert!(matches!(super::apply(&fake, &plan, again).await, super::End::Done(_)));
        let ledger = Ledger::default();
        let recorder = Recorder { ledger: &ledger, listener: &Silent };
        Remover { look: super::look(&fake), recorder }.run(&remains, &remains.removals(ALL)).await;
        ledger.failures()
    });
    let failed = ended.unwrap();
    let [(_, Cause::Obstacle(change))] = failed.as_slice() else { panic!("{failed:?}") };
    let verdict = trainc_apply::verdict::obstacle(change, plan.job.span);
    let said = &verdict.diagnostic;
    assert_eq!((said.code.id, said.code.name, verdict.exit), ("T0672", "started-during-destroy", 5));
    assert!(said.message.ends_with("was started after the account was read: InProgress"), "{said:?}");
    let account = fake.account();
    assert_eq!((account.roles.len(), account.file_systems.len()), (1, 1));
}

/// An apply waits for its file system while a destroy takes away what it has made: that is not made again behind anybody's
/// back. The apply says what is gone, starts nothing, and the next one makes it whole.
#[test]
fn what_goes_while_an_apply_waits_is_said_and_not_made_again() {
    let plan = plan("llama-7b-fsdp", &[]);
    for consent in [Consent::default(), ALL] {
        let shared = Fake::default();
        let late = async {
            while shared.account().file_systems.is_empty() || shared.account().objects.is_empty() {
                shared.sleep(Duration::from_secs(1)).await;
            }
            let (remains, _) = destroy(&shared, &plan, consent).await;
            assert!(remains.running.is_empty() && remains.role.is_some() && !remains.objects.is_empty());
        };
        let both = async { futures_util::join!(apply(&shared, &plan, Choices::default()), late) };
        let (end, ()) = run(&shared, both).unwrap();
        let End::Failed(failed) = &end else { panic!("{consent:?}: {end:?}") };
        let gone: Vec<ResourceKind> = failed.iter().map(|(item, _)| item.kind).collect();
        let (role, source) = (ResourceKind::Role, ResourceKind::Source);
        let expected: &[ResourceKind] =
            if consent.delete_data { &[ResourceKind::FileSystem] } else { &[role, source] };
        assert_eq!(gone, expected, "{failed:?}");
        for (item, cause) in failed {
            assert_eq!(*cause, Cause::Gone, "{item:?}");
            let verdict = verdict::verdict(&plan, item, cause);
            assert_eq!((verdict.diagnostic.code.id, verdict.exit), ("T0618", 5));
            assert!(verdict.diagnostic.message.contains("was deleted by someone else while"), "{verdict:?}");
        }
        let account = shared.account();
        let data = usize::from(!consent.delete_data);
        assert_eq!((left(&account), account.jobs.len()), ([0, data, data, 0], 0), "{consent:?}");
        let again = Fake::new(account);
        let end = run(&again, apply(&again, &plan, Choices::default())).unwrap();
        assert!(matches!(end, End::Done(_)), "{end:?}");
        assert_eq!((left(&again.account()), again.account().jobs.len()), ([1; 4], 1));
    }
}

/// The other way round: the job begins while destroy waits for a file system to go.
#[test]
fn a_job_that_begins_while_data_goes_keeps_its_role() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut over = applied(&plan);
    over.now += 1e6;
    let shared = Fake::new(over);
    let late = async {
        while !shared.calls().contains(&Call::DeleteFileSystem) {
            shared.sleep(Duration::from_secs(1)).await;
        }
        // The last call of an apply that needs no file system.
        let desired = Desired::new(&plan, &shared.caller_identity().await.unwrap()).unwrap();
        let mut request = desired.request_for_run(&desired.name_of_run(2).unwrap(), &[]);
        request.as_object_mut().unwrap().remove("InputDataConfig");
        shared.create_training_job(&request).await
    };
    let both = async { futures_util::join!(destroy(&shared, &plan, ALL), late) };
    let ((_, unfinished), started) = run(&shared, both).unwrap();
    started.unwrap();
    let account = shared.account();
    let running = account.jobs.values().filter(|state| state.job.status == "InProgress").count();
    assert_eq!((account.roles.len(), account.objects.len(), running), (1, 1, 1), "{unfinished}");
}

/// A job of our name that lost its tags, or one of others that was given our role: both run as what would go.
#[test]
fn role_and_archive_stay_while_a_job_that_is_not_ours_uses_them() {
    let plan = plan("llama-7b-fsdp", &[]);
    for (foreign, stopping) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut account = applied(&plan);
        let now = account.now;
        for state in account.jobs.values_mut() {
            state.tags.clear();
            // One that is stopped uploads what it has with its role, and reads until it is gone.
            if stopping {
                state.stopped = Some(now);
            }
        }
        if foreign {
            let mut state = account.jobs.pop_first().unwrap().1;
            "somebody-elses".clone_into(&mut state.job.name);
            account.jobs.insert(state.job.name.clone(), state);
        }
        let user = account.jobs.keys().next().unwrap().clone();
        let cloud = Fake::new(account);
        let (remains, unfinished) = run(&cloud, destroy(&cloud, &plan, ALL)).unwrap();
        let status = &cloud.account().jobs[&user].job.status;
        assert_eq!((unfinished, status == "Stopping"), (0, stopping), "{status}");
        let mut removals = remains.removals(ALL).0;
        assert!(removals.iter().all(|one| one.verb() == Verb::Keep), "{removals:#?}");
        // The account's default bucket stays whoever uses what.
        let bucket = removals.iter().position(|one| one.item.kind == ResourceKind::Bucket).unwrap();
        assert!(removals.remove(bucket).item.name.starts_with("sagemaker-us-west-2-111122223333"));
        assert!(removals.iter().all(|one| one.because.contains(&user)), "{removals:#?}");
        assert!(remains.removals(Consent::default()).leaves_foreign());
        assert_eq!(left(&cloud.account()), [1; 4]);
        // Once it is over, all of it goes.
        let mut account = cloud.account();
        account.now += 1e6;
        let cloud = Fake::new(account);
        run(&cloud, destroy(&cloud, &plan, ALL)).unwrap();
        assert_eq!(left(&cloud.account()), [0; 4]);
    }
}

/// One that is started with our role while a file system goes keeps it as well.
#[test]
fn a_foreign_job_that_begins_meanwhile_keeps_the_role() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut over = applied(&plan);
    over.now += 1e6;
    let mut theirs = over.jobs.values().next().unwrap().clone();
    "somebody-elses".clone_into(&mut theirs.job.name);
    theirs.job.request["InputDataConfig"] = serde_json::Value::Null;
    theirs.tags.clear();
    let cloud = Fake::new(over);
    let remains = run(&cloud, async {
        let desired = Desired::new(&plan, &cloud.caller_identity().await.unwrap()).unwrap();
        let homes = [trainc_emit::archive_base_prefix(&plan).replace("${account}", "111122223333")];
        look(&cloud).inventory(&desired, &homes).await.unwrap()
    })
    .unwrap();
    assert!(remains.in_use.is_empty());
    let mut account = cloud.account();
    theirs.job.transitions.clear();
    theirs.job.created = account.now;
    "InProgress".clone_into(&mut theirs.job.status);
    account.jobs.insert(theirs.job.name.clone(), theirs);
    let cloud = Fake::new(account);
    let ledger = Ledger::default();
    let recorder = Recorder { ledger: &ledger, listener: &Silent };
    run(&cloud, Remover { look: look(&cloud), recorder }.run(&remains, &remains.removals(ALL))).unwrap();
    assert_eq!(left(&cloud.account()), [1, 0, 0, 1], "{:#?}", ledger.events());
}

/// The archive is uploaded below the digest, and found there.
#[test]
fn an_upload_prefix_with_the_digest_is_emptied() {
    let plan = plan("llama-7b-fsdp", &["program.upload=s3://example-code/{{ job.digest }}/"]);
    let account = applied(&plan);
    let digest = trainc_emit::identity(&plan).digest;
    let below = format!("example-code/{digest}/");
    let uploads = |account: &Account| account.objects.keys().filter(|key| key.starts_with(&below)).count();
    assert_eq!(uploads(&account), 1);
    let cloud = Fake::new(account);
    run(&cloud, destroy(&cloud, &plan, ALL)).unwrap();
    assert_eq!(uploads(&cloud.account()), 0);
}

#[test]
fn what_is_not_yet_exported_is_said_to_be_lost() {
    let plan = plan("llama-7b-fsdp", &[]);
    let mut account = applied(&plan);
    for (export, lifecycle, words) in [
        (true, "AVAILABLE", "not yet exported to s3://"),
        (true, "MISCONFIGURED", "is MISCONFIGURED and may not be exporting"),
        (false, "AVAILABLE", "not in any bucket"),
    ] {
        for state in account.associations.values_mut() {
            state.association.export = if export { vec!["NEW".to_owned()] } else { Vec::new() };
            lifecycle.clone_into(&mut state.association.lifecycle);
        }
        let cloud = Fake::new(account.clone());
        let (remains, _) = run(&cloud, destroy(&cloud, &plan, ALL)).unwrap();
        let removals = remains.removals(ALL).0;
        let link = removals.iter().find(|one| one.item.kind == ResourceKind::Association).unwrap();
        assert!(link.because.contains(words), "{}", link.because);
    }
}

/// The manifest names a role of its own now; the one that was made for it before is found by its name and its tags.
#[test]
fn a_role_that_the_manifest_no_longer_makes_goes_too() {
    let moved = plan("starter", &["role.create=#false", "role.arn=arn:aws:iam::111122223333:role/given"]);
    let cloud = Fake::new(applied(&plan("starter", &[])));
    run(&cloud, destroy(&cloud, &moved, ALL)).unwrap();
    assert_eq!(left(&cloud.account())[0], 0);
}

/// Policies that somebody added are found before anything goes.
#[test]
fn a_role_with_policies_of_others_is_shown_to_stay() {
    let plan = plan("starter", &[]);
    let mut account = applied(&plan);
    for state in account.roles.values_mut() {
        state.policies.insert("theirs".to_owned(), "{}".to_owned());
    }
    let cloud = Fake::new(account);
    let (remains, unfinished) = run(&cloud, destroy(&cloud, &plan, ALL)).unwrap();
    let removals = remains.removals(ALL).0;
    let role = removals.iter().find(|one| one.item.kind == ResourceKind::Role).unwrap();
    assert_eq!((role.verb(), role.because.as_str()), (Verb::Keep, "someone added `theirs` to it"));
    assert!(remains.removals(ALL).has_extended_role() && unfinished == 1);
    assert_eq!(left(&cloud.account())[0], 1);
}
