//! Killed after every call and before every answer, refused, delayed, lost: run again, everything is there once.

use super::{End, apply, cloud, counts, plan, run};
use std::fmt::Write as _;
use trainc_apply::calls::{Call, Effect};
use trainc_apply::diff::Choices;
use trainc_apply::fake::{Account, Fake, Faults, Moment};
use trainc_apply::fault::Class;
use trainc_apply::ledger::Cause;
use trainc_ir::Plan;

/// The jobs that are applied: role, file system, association, archive, secret, spot; a role and no file system; a
/// role of one's own, over 32 nodes; QLoRA.
const JOBS: &[(&str, [usize; 5])] = &[
    ("llama-7b-fsdp", [1, 1, 1, 1, 1]),
    ("starter", [1, 0, 0, 1, 1]),
    ("gpt2-30b-sharded", [0, 0, 0, 1, 1]),
    ("falcon-40b-qlora", [0, 0, 0, 1, 1]),
];

/// The most applies until everything must be there.
const MOST_RUNS: usize = 3;

fn done(end: &End) -> bool {
    matches!(end, End::Done(_))
}

/// Applies again, without faults, until it says that it is done; then once more, which must change nothing.
#[track_caller]
fn converges(account: Account, plan: &Plan, what: &str) -> (Account, usize) {
    let mut account = account;
    for again in 1..=MOST_RUNS {
        let calm = Fake::new(account);
        let end = run(&calm, apply(&calm, plan, Choices::default())).unwrap();
        account = calm.account();
        if done(&end) {
            let last = Fake::new(account);
            assert!(done(&run(&last, apply(&last, plan, Choices::default())).unwrap()), "{what}");
            let writes: Vec<Call> =
                last.calls().into_iter().filter(|call| call.row().effect == Effect::Write).collect();
            assert!(writes.is_empty(), "{what}: a second apply writes: {writes:?}");
            return (last.account(), again);
        }
        assert!(again < MOST_RUNS, "{what}: {end:?}");
    }
    unreachable!()
}

/// How many calls an apply to an empty account makes.
fn calls_of(plan: &Plan) -> usize {
    let calm = Fake::default();
    let end = run(&calm, apply(&calm, plan, Choices::default())).unwrap();
    assert!(done(&end), "{end:?}");
    calm.calls().len()
}

#[test]
fn killed_at_every_call_it_converges() {
    let mut table =
        String::from("job                 calls  killed before  killed after  most runs  made twice\n");
    for (example, expected) in JOBS {
        let plan = plan(example, &[]);
        let calls = calls_of(&plan);
        let (mut killed, mut most) = ([0, 0], 0);
        for k in 1..=calls {
            for (at, moment) in [Moment::Before, Moment::After].into_iter().enumerate() {
                let what = format!("{example}: killed {moment:?} call {k}");
                let first =
                    cloud(Account::default(), Faults { crash: Some((k, moment)), ..Faults::default() });
                let end = run(&first, apply(&first, &plan, Choices::default()));
                assert!(end.is_none(), "{what}: it was not killed, but {end:?}");
                killed[at] += 1;
                let (account, runs) = converges(first.account(), &plan, &what);
                assert_eq!(counts(&account), *expected, "{what}");
                most = most.max(runs);
            }
        }
        let _ =
            writeln!(table, "{example:<20}{calls:>5}{:>15}{:>14}{most:>11}{:>12}", killed[0], killed[1], 0);
    }
    println!("{table}");
}

/// One kind of trouble, for every job, and how the first run ends in it.
#[track_caller]
fn in_trouble(name: &str, faults: &Faults, table: &mut String) {
    for (example, expected) in JOBS {
        let plan = plan(example, &[]);
        let first = cloud(Account::default(), faults.clone());
        let end = run(&first, apply(&first, &plan, Choices::default())).unwrap();
        let (account, runs) = converges(first.account(), &plan, &format!("{example}: {name}"));
        assert_eq!(counts(&account), *expected, "{example}: {name}");
        let ended = match &end {
            End::Done(_) => "done".to_owned(),
            End::Failed(failed) => format!("{failed:?}"),
            End::Stopped(obstacles) => format!("{obstacles:?}"),
        };
        assert_eq!(ended, "done", "{example}: {name}");
        let _ = writeln!(table, "{name:<34}{example:<20}{:>6}{runs:>6}  {ended}", first.calls().len());
    }
}

#[test]
fn throttled_failing_silent_and_late_services_are_waited_for() {
    let mut table =
        String::from("trouble                           job                  calls  runs  first run\n");
    let twice = |http, code| Faults { twice: Some((http, code)), ..Faults::default() };
    in_trouble("every call throttled twice", &twice(400, "ThrottlingException"), &mut table);
    in_trouble("every call answered 503 twice", &twice(503, "ServiceUnavailable"), &mut table);
    in_trouble(
        "every answer to a write lost once",
        &Faults { loses_answers: true, ..Faults::default() },
        &mut table,
    );
    in_trouble("reads lag by 5 calls", &Faults { lag: 5, ..Faults::default() }, &mut table);
    let all =
        Faults { lag: 5, loses_answers: true, twice: Some((503, "InternalFailure")), ..Faults::default() };
    in_trouble("all of them at once", &all, &mut table);
    println!("{table}");
}

#[test]
fn killed_in_an_account_whose_reads_lag_it_converges() {
    let plan = plan("llama-7b-fsdp", &[]);
    let lagging = |crash| Faults { lag: 5, crash, ..Faults::default() };
    let calm = cloud(Account::default(), lagging(None));
    let end = run(&calm, apply(&calm, &plan, Choices::default())).unwrap();
    assert!(done(&end), "{end:?}");
    for k in 1..=calm.calls().len() {
        let first = cloud(Account::default(), lagging(Some((k, Moment::After))));
        let _ = run(&first, apply(&first, &plan, Choices::default()));
        let second = cloud(first.account(), lagging(None));
        let end = run(&second, apply(&second, &plan, Choices::default())).unwrap();
        assert!(done(&end), "killed at {k}: {end:?}");
        assert_eq!(counts(&second.account()), [1, 1, 1, 1, 1], "killed at {k}");
    }
}

#[test]
fn twenty_applies_at_once_give_one_job() {
    for (example, expected) in JOBS {
        let plan = plan(example, &[]);
        for lag in [0, 5] {
            let shared = cloud(Account::default(), Faults { lag, ..Faults::default() });
            let all = (0..20).map(|_| apply(&shared, &plan, Choices::default()));
            let ends = run(&shared, futures_util::future::join_all(all)).unwrap();
            assert!(ends.iter().all(done), "{example}: {ends:?}");
            assert_eq!(counts(&shared.account()), *expected, "{example}, lag {lag}");
        }
    }
}

#[test]
fn credentials_that_run_out_in_the_middle_leave_it_to_the_next_run() {
    let plan = plan("llama-7b-fsdp", &[]);
    for last in 0..calls_of(&plan) {
        let first = cloud(Account::default(), Faults { expires_after: Some(last), ..Faults::default() });
        let end = run(&first, apply(&first, &plan, Choices::default())).unwrap();
        let End::Failed(failed) = &end else { panic!("after {last} calls: {end:?}") };
        let expired =
            |cause: &Cause| matches!(cause, Cause::Fault(fault) if fault.class == Class::Credentials);
        assert!(failed.iter().all(|(_, cause)| expired(cause)), "after {last} calls: {failed:?}");
        let (account, _) = converges(first.account(), &plan, &format!("expired after {last} calls"));
        assert_eq!(counts(&account), [1, 1, 1, 1, 1]);
    }
}
