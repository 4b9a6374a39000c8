//! Jobs that are followed: logs without loss or repeats, figures, and the page of a failure.

use super::{apply, look, plan, run};
use std::cell::Cell;
use trainc::apply::account::{LogEvent, LogFrom, LogPage, LogStream};
use trainc::apply::autopsy::{Autopsy, Kind};
use trainc::apply::cloud::Answer;
use trainc::apply::diff::Choices;
use trainc::apply::fake::{Account, Fake, Outcome};
use trainc::apply::logs::{Source, Tail};
use trainc::apply::metrics::Metrics;

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

fn failing(outcome: Outcome) -> (Kind, Option<String>) {
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
        let mut metrics = Metrics::of(&job.request);
        let mut sink = |host: &str, event: &LogEvent| {
            autopsy.read(host, event);
            metrics.read(&event.text);
        };
        Tail::new(None).round(&look, &name, &mut sink).await.unwrap();
        let finding = autopsy.finding(&job);
        assert!(!finding.kind.next("job.kdl").is_empty());
        (finding.kind, finding.cause.map(|cause| cause.host))
    })
    .unwrap()
}

#[test]
fn a_failed_job_names_its_cause_and_the_first_host() {
    let first = Some("algo-1".to_owned());
    assert_eq!(failing(Outcome::OutOfMemory), (Kind::Memory, first.clone()));
    assert_eq!(failing(Outcome::Disk), (Kind::Disk, first.clone()));
    assert_eq!(failing(Outcome::UserCode), (Kind::Program, first));
    assert_eq!(failing(Outcome::Nccl).0, Kind::Collective);
    assert_eq!(failing(Outcome::Permission).0, Kind::Permission);
    assert_eq!(failing(Outcome::Image).0, Kind::Image);
    assert_eq!(failing(Outcome::NoCapacity).0, Kind::Capacity);
}

#[test]
fn who_waits_for_capacity_gets_another_run() {
    let plan = plan("starter", &[]);
    let scarce = Fake::new(Account { without_capacity: 2, ..Account::default() });
    let choices = Choices { after_capacity: true, ..Choices::default() };
    let end = run(&scarce, super::apply_patiently(&scarce, &plan, choices)).unwrap();
    let super::End::Done(name) = end else { panic!("{end:?}") };
    assert!(name.ends_with("-r3"), "{name}");
    let account = scarce.account();
    assert_eq!(account.jobs.len(), 3);
    assert_eq!(account.jobs.values().filter(|job| job.job.status == "InProgress").count(), 1);
}
