//! Jobs that are followed: logs without loss or repeats, figures, and the page of a failure.

use super::{apply, look, plan, run};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeSet;
use trainc_apply::account::{LogEvent, LogFrom, LogPage, LogStream, TrainingJob};
use trainc_apply::autopsy::{Autopsy, Finding};
use trainc_apply::cloud::Answer;
use trainc_apply::diff::{Choices, Obstacle};
use trainc_apply::fake::{Account, Fake, Outcome};
use trainc_apply::ledger::{Ledger, Recorder, Silent};
use trainc_apply::logs::{Source, Tail};
use trainc_apply::metrics::Metrics;
use trainc_apply::run::Driver;
use trainc_apply::run::ResourceLocks;
use trainc_apply::verdict;
use trainc_diag::FailureKind;
use trainc_diag::Invocation;
use trainc_emit::ResourceKind;

/// Hosts that write so many lines each, in pages, while they are read.
struct Writers {
    hosts: u64,
    lines: u64,
    page: u64,
    /// Lines of each host that are there by now.
    written: Cell<u64>,
    calls: Cell<u64>,
    /// Every n-th call fails after its effect would have been.
    failing: u64,
}

impl Source for Writers {
    async fn streams(&self, prefix: &str) -> Answer<Vec<LogStream>> {
        let all = (1..=self.hosts).map(|host| LogStream {
            name: format!("{prefix}algo-{host}-1700000000"),
            ..LogStream::default()
        });
        Ok(all.collect())
    }

    async fn page(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage> {
        self.calls.set(self.calls.get() + 1);
        if self.failing > 0 && self.calls.get().is_multiple_of(self.failing) {
            // The caller repeats it: nothing may be lost or read twice.
            return Box::pin(self.page(stream, from, most)).await;
        }
        let host: u64 = stream.split('-').nth(1).unwrap().parse().unwrap();
        let at: u64 = from.token.map_or(0, |token| token.parse().unwrap());
        let end = (at + self.page.min(u64::from(most))).min(self.written.get());
        let events = (at..end)
            .map(|line| LogEvent {
                time: i64::try_from(line * 10 + host % 7).unwrap(),
                text: format!("{host}:{line}"),
            })
            .collect();
        Ok(LogPage { events, next: Some(end.to_string()) })
    }
}

#[test]
fn thirty_two_hosts_with_twenty_thousand_lines_each_lose_and_repeat_nothing() {
    let writers = Writers {
        hosts: 32,
        lines: 20_000,
        page: 500,
        written: Cell::new(0),
        calls: Cell::new(0),
        failing: 17,
    };
    let calm = Fake::default();
    let mut seen = vec![0_u64; 33];
    let (mut total, mut last, mut most) = (0_u64, 0_i64, 0_usize);
    run(&calm, async {
        let mut tail = Tail::new(None);
        while writers.written.get() < writers.lines {
            // They write on between two looks.
            writers.written.set((writers.written.get() + 3_700).min(writers.lines));
            let mut sink = |host: &str, event: &LogEvent| {
                let number: usize = host.trim_start_matches("algo-").parse().unwrap();
                assert_eq!(event.text, format!("{number}:{}", seen[number]), "lost or repeated");
                seen[number] += 1;
                total += 1;
                assert!(event.time >= last, "out of order");
                last = event.time;
            };
            tail.read(&writers, "job", &mut sink).await.unwrap();
            most = most.max(tail.most_held());
        }
    })
    .unwrap();
    assert_eq!(total, 32 * 20_000);
    assert!(most <= 32 * 500, "{most} lines were held");
    println!("logs: {total} lines of 32 hosts in order, at most {most} held, {} calls", writers.calls.get());
}

fn failing(outcome: Outcome) -> (FailureKind, Option<String>) {
    let plan = plan("llama-7b-fsdp", &[]);
    let cloud = Fake::new(Account { outcome, ..Account::default() });
    run(&cloud, apply(&cloud, &plan, Choices::default())).unwrap();
    let mut account = cloud.account();
    account.now += 20_000.0;
    let name = account.jobs.keys().next().unwrap().clone();
    let over = Fake::new(account);
    run(&over, async {
        let look = look(&over);
        let job = look.job(&name).await.unwrap().unwrap().0;
        let mut autopsy = Autopsy::default();
        let mut metrics = Metrics::from_request(&job.request);
        let mut sink = |host: &str, event: &LogEvent| {
            autopsy.read(host, event);
            metrics.read_event(host, event);
        };
        Tail::new(None).read_available(&look, &name, &mut sink).await.unwrap();
        let finding = autopsy.finding(&job);
        assert!(!finding.help(&plan, &job).is_empty());
        (finding.kind, finding.cause.map(|cause| cause.host))
    })
    .unwrap()
}

#[test]
fn a_failed_job_names_its_cause_and_the_first_host() {
    let first = Some("algo-1".to_owned());
    assert_eq!(failing(Outcome::OutOfMemory), (FailureKind::Memory, first.clone()));
    assert_eq!(failing(Outcome::Disk), (FailureKind::Disk, first.clone()));
    assert_eq!(failing(Outcome::UserCode), (FailureKind::Program, first));
    assert_eq!(failing(Outcome::Nccl).0, FailureKind::Collective);
    assert_eq!(failing(Outcome::Permission).0, FailureKind::Permission);
    assert_eq!(failing(Outcome::Image).0, FailureKind::Image);
    assert_eq!(failing(Outcome::NoCapacity).0, FailureKind::Capacity);
}

#[test]
fn who_waits_for_capacity_gets_another_run() {
    let plan = plan("starter", &[]);
    let scarce = Fake::new(Account { without_capacity: 2, ..Account::default() });
    let end = run(&scarce, super::apply_patiently(&scarce, &plan, Choices::default())).unwrap();
    let super::End::Done(name) = end else { panic!("{end:?}") };
    assert!(name.ends_with("-r3"), "{name}");
    let account = scarce.account();
    assert_eq!(account.jobs.len(), 3);
    assert_eq!(account.jobs.values().filter(|job| job.job.status == "InProgress").count(), 1);
}

#[test]
fn what_found_no_machines_is_started_again_unless_another_version_came_after_it() {
    let job = |steps: &str| plan("starter", &[&format!("train.steps={steps}")]);
    let over = |account: &mut Account| account.now += 3_600.0;
    let scarce = Fake::new(Account { without_capacity: 1, ..Account::default() });
    let super::End::Done(first) = run(&scarce, apply(&scarce, &job("77"), Choices::default())).unwrap()
    else {
        panic!("one run is started")
    };
    let mut account = scarce.account();
    over(&mut account);
    let failed = account.clone();
    // The same command again starts another run: the job that the manifest asks for is not there yet.
    let again = Fake::new(account);
    let end = run(&again, apply(&again, &job("77"), Choices::default())).unwrap();
    let super::End::Done(second) = end else { panic!("{end:?}") };
    assert_eq!(second, format!("{first}-r2"));
    let mut account = again.account();
    over(&mut account);
    let calm = Fake::new(account);
    let end = run(&calm, apply(&calm, &job("77"), Choices::default())).unwrap();
    assert!(matches!(end, super::End::Done(_)) && calm.account().jobs.len() == 2, "{end:?}");
    // A version that came later is the job as it is now: going back to the older one is asked for.
    let edited = Fake::new(failed);
    let choices = Choices { new_run: true, ..Choices::default() };
    let end = run(&edited, apply(&edited, &job("78"), choices)).unwrap();
    assert!(matches!(end, super::End::Done(_)), "{end:?}");
    let end = run(&edited, apply(&edited, &job("77"), Choices::default())).unwrap();
    let super::End::Stopped(why) = end else { panic!("{end:?}") };
    assert_eq!(why, [Obstacle::OtherDigest]);
}

#[test]
fn each_run_is_told_of_under_its_own_name_and_who_waited_is_not_told_to_wait() {
    let plan = plan("starter", &[]);
    let scarce = Fake::new(Account { without_capacity: 90, ..Account::default() });
    let mut look = look(&scarce);
    look.patience.capacity = Some(std::time::Duration::from_secs(340));
    let ledger = Ledger::default();
    let prospect = run(&scarce, look.prospect(&plan, Choices::default())).unwrap().unwrap().unwrap();
    let driver = Driver {
        look,
        desired: &prospect.desired,
        choices: Choices::default(),
        recorder: Recorder { ledger: &ledger, listener: &Silent },
        wrote_iam: false.into(),
        written: std::cell::RefCell::default(),
        locks: &ResourceLocks::default(),
    };
    assert_eq!(run(&scarce, driver.run(&prospect.target)).unwrap(), None);
    let made: Vec<String> = ledger
        .finished()
        .into_iter()
        .filter(|(item, _)| item.kind == ResourceKind::TrainingJob)
        .map(|(item, _)| item.name)
        .collect();
    let there: BTreeSet<String> = scarce.account().jobs.keys().cloned().collect();
    assert!(made.len() > 2 && made.iter().cloned().collect::<BTreeSet<_>>() == there, "{made:?} {there:?}");
    let failed = ledger.failures();
    let [(item, cause)] = failed.as_slice() else { panic!("{failed:?}") };
    assert_eq!(Some(&item.name), made.last());
    let one = verdict::verdict(&plan, item, cause);
    assert_eq!((one.diagnostic.code.id, one.exit), ("T0604", 5));
    assert!(!one.diagnostic.message.contains("CapacityError: CapacityError"), "{}", one.diagnostic.message);
    let help = one.diagnostic.help.unwrap();
    assert!(!help.contains("--wait-for-capacity"), "{help}");
    assert!(
        one.diagnostic.notes.iter().any(|note| note.starts_with("waited 5m 4")),
        "{:?}",
        one.diagnostic.notes
    );
}

/// Whether a longer run finds the checkpoints of this one hangs on their path: the help says which it is.
#[test]
fn a_run_out_of_time_is_told_where_the_next_one_begins() {
    let next = |example: &str, sets: &[&str], kind: FailureKind, kept: Option<&str>| {
        let request = kept.map_or(Value::Null, |s3| json!({"CheckpointConfig": {"S3Uri": s3}}));
        let job = TrainingJob { request, ..TrainingJob::default() };
        let invocation = Invocation::new("job.kdl", vec!["--set a=1".to_owned()]);
        Finding { kind, cause: None }.help(&plan(example, sets), &job).fill_commands(&invocation).to_string()
    };
    let digest = "s3://example-runs/llama-7b/0123456789abcdef/checkpoints/";
    let named = next("llama-7b-fsdp", &[], FailureKind::Time, Some(digest));
    assert!(named.starts_with("raise `max-run`, and write `s3=\"s3://example-runs/llama-7b/0123"), "{named}");
    assert!(
        named.contains("then trainc apply job.kdl --set a=1 --new-run; otherwise it starts at step 0"),
        "{named}"
    );
    let fixed = "s3://sagemaker-us-east-1-111122223333/using-spot/checkpoints";
    let found = next("distilbert-spot", &[], FailureKind::Wait, Some(fixed));
    assert!(found.starts_with("raise `max-wait` of `spot`, then trainc apply"), "{found}");
    assert!(found.ends_with(&format!("it resumes from this run's checkpoints in {fixed}")), "{found}");
    // The manifest says another place by now.
    let moved = next("distilbert-spot", &["checkpoint.s3=s3://other/x/"], FailureKind::Time, Some(fixed));
    assert!(
        moved.contains(&format!("write `s3=\"{fixed}\"`")) && moved.ends_with("starts at step 0"),
        "{moved}"
    );
    let none = next("neox-20b-fsdp", &[], FailureKind::Time, None);
    assert!(none.ends_with("it starts at step 0, because the manifest has no `checkpoint`"), "{none}");
}

/// What the role lacks is written in the manifest where trainc makes the role, and asked about where it is one's own.
#[test]
fn what_a_role_may_not_do_is_mended_where_the_role_comes_from() {
    let job = TrainingJob::default();
    let next = |sets: &[&str]| {
        Finding { kind: FailureKind::Permission, cause: None }.help(&plan("starter", sets), &job)
    };
    assert!(next(&[]).contains("add `read \"s3://…\"` to `role`"), "{}", next(&[]));
    let given = next(&["role.create=#false", "role.arn=arn:aws:iam::111122223333:role/given"]);
    assert!(given.starts_with("trainc plan MANIFEST checks with IAM"), "{given}");
}
