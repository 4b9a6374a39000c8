use super::*;
use serde_json::Value;

fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key).and_then(Value::as_f64)
}

fn limits(value: &Value) -> Limits {
    Limits {
        steps: number(value, "steps"),
        step_seconds: number(value, "step_seconds"),
        is_measured: value.get("measured").is_some(),
        slowest: number(value, "slowest"),
        window: number(value, "window").unwrap(),
        usd_per_hour: number(value, "usd_per_hour"),
        hard_usd: number(value, "hard_usd"),
    }
}

/// Replays the lines of a case. Returns the reason to stop, and the shares of the plan that are only reported.
fn replay(case: &Value) -> (Option<BrakeFinding>, Vec<f64>) {
    let mut now = number(case, "begins").unwrap();
    let mut brake = Brake::new(limits(&case["limits"]), 0.0);
    let (mut step, mut behind) = (0.0, Vec::new());
    for entry in case["logged"].as_array().unwrap() {
        match (entry[0].as_str(), entry[1].as_f64().unwrap()) {
            (Some("pause"), seconds) => now += seconds,
            (Some("hang"), seconds) => {
                now += seconds;
                if let Some(found) = brake.too_long(now) {
                    return (Some(found), behind);
                }
            }
            (Some(_), at) => step = at,
            (None, each) => {
                for _ in 0..entry[0].as_u64().unwrap() {
                    now += each * entry[2].as_f64().unwrap();
                    step += each;
                    match brake.observe(now, step) {
                        Some(BrakeFinding::BehindPlan { share, .. }) => behind.push(share),
                        Some(found) => return (Some(found), behind),
                        None => {}
                    }
                }
            }
        }
    }
    (None, behind)
}

/// The cases are computed by hand, and the script in the containers decides them alike.
#[test]
fn the_decisions_are_those_of_the_script() {
    let all: Value = serde_json::from_str(include_str!("../../testdata/brake.json")).unwrap();
    let cases = all["cases"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let ((found, behind), expected) = (replay(case), &case["stop"]);
        let name = &case["name"];
        let near = |value: f64, expected: &Value| (value / expected.as_f64().unwrap() - 1.0).abs() < 1e-3;
        assert_eq!(behind.len(), usize::from(!case["behind"].is_null()), "{name}");
        assert!(behind.iter().all(|share| near(*share, &case["behind"])), "{name}: {behind:?}");
        match found {
            None => assert!(expected.is_null(), "{name}: not stopped"),
            Some(BrakeFinding::Slow { at, over, share, than }) => {
                assert_eq!(expected["reason"], "slow", "{name}");
                assert_eq!(than == Reference::Plan, case["limits"]["measured"] == true, "{name}");
                assert!(near(at, &expected["at"]) && near(over, &expected["over"]), "{name}: {found:?}");
                assert!(near(share, &expected["share"]), "{name}: {found:?}");
            }
            Some(BrakeFinding::Budget { at, usd, .. }) => {
                assert_eq!(expected["reason"], "budget", "{name}");
                assert_eq!(at, expected["at"].as_f64(), "{name}");
                assert!(near(usd, &expected["usd"]), "{name}: {found:?}");
            }
            Some(BrakeFinding::BehindPlan { .. }) => unreachable!("it stops nothing"),
        }
    }
}

#[test]
fn a_stop_is_described_with_whole_steps_and_enough_digits() {
    let slow = |than| BrakeFinding::Slow { at: 70.0, over: 51.5, share: 0.6, than }.describe();
    assert_eq!(slow(Reference::Plan), "tokens/s were 60 % of the plan over 52 steps");
    assert_eq!(slow(Reference::FirstSteps), "tokens/s were 60 % of the run's first steps over 52 steps");
    for (usd, hard_usd, text) in [
        (0.0012, 0.001, "$0.0012; the budget is $0.0010"),
        (0.012, 0.004, "$0.012; the budget is $0.004"),
        (5_000.2, 5_000.0, "$5000.20; the budget is $5000.00"),
        (5_123.4, 5_000.0, "$5,123; the budget is $5,000"),
    ] {
        let found = BrakeFinding::Budget { at: Some(31.0), usd, hard_usd }.describe();
        assert_eq!(found, format!("the run would cost at least {text}"));
    }
}

/// Numbers of a fixed sequence (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normal variable (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.next().max(1e-300), self.next());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// A simulated run: its steps vary by 4 %, one in ten by 18 %, and it pauses for checkpoints. Where every step is logged
/// the pauses may be long; elsewhere a line cannot tell them from steps, and they cost up to a quarter of the time. Returns
/// the reason to stop it, its whole cost and its steps.
fn simulate(seed: u64, slower: f64, hard_share: f64) -> (Option<BrakeFinding>, f64, f64) {
    let mut random = Random(seed);
    let steps = (600.0 + 1_400.0 * random.next()).floor();
    let planned = 0.2 + 10.0 * random.next();
    let every = (25.0 + 400.0 * random.next()).floor();
    let per_line = match random.next() {
        share if share < 0.4 => 1.0,
        share if share < 0.6 => 5.0,
        share if share < 0.8 => 10.0,
        _ => 50.0,
    };
    let longest = if per_line > 1.0 { every * planned / 3.0 } else { f64::INFINITY };
    let pause = (120.0 * random.next()).min(longest);
    let times: Vec<f64> = std::iter::successors(Some(1.0), |step| Some(step + 1.0))
        .take_while(|step| *step <= steps)
        .map(|_| {
            let width = if random.next() < 0.1 { 0.18 } else { 0.04 };
            planned * slower * (1.0 + width * random.normal()).max(0.2)
        })
        .collect();
    let pauses = (steps / every).floor() * pause;
    let start = 300.0 * random.next();
    let usd = (start + times.iter().sum::<f64>() + pauses) / HOUR * 100.0;
    let limits = Limits {
        steps: Some(steps),
        step_seconds: Some(planned),
        is_measured: true,
        slowest: Some(0.7),
        window: 50.0,
        usd_per_hour: Some(100.0),
        hard_usd: Some(usd * hard_share),
    };
    let mut brake = Brake::new(limits, 0.0);
    let mut now = start;
    for (at, seconds) in times.iter().enumerate() {
        now += seconds;
        let step = at as f64 + 1.0;
        if step % every == 0.0 {
            now += pause;
        }
        if step % per_line == 0.0
            && let Some(stop) = brake.observe(now, step)
        {
            return (Some(stop), usd, steps);
        }
    }
    (None, usd, steps)
}

#[test]
fn a_healthy_run_is_never_stopped() {
    for seed in 0..1_000 {
        let (stop, usd, _) = simulate(seed, 1.0, 1.01);
        assert_eq!(stop, None, "run {seed}, which costs {usd}");
    }
}

#[test]
fn a_run_that_is_40_percent_slower_is_stopped() {
    for seed in 0..1_000 {
        let (stop, ..) = simulate(seed, 1.0 / 0.6, 2.0);
        // A program that logs every 50th step needs more lines than a short run has.
        match stop {
            Some(BrakeFinding::Slow { share, .. }) => assert!(share < 0.7, "run {seed}: {share}"),
            Some(other) => panic!("run {seed}: {other:?}"),
            None => {}
        }
    }
    let stopped = (0..1_000).filter(|seed| simulate(*seed, 1.0 / 0.6, 2.0).0.is_some()).count();
    assert!(stopped >= 990, "{stopped} of 1,000");
}

/// A run that costs a quarter more than its hard budget is stopped before the budget is spent.
#[test]
fn a_run_that_passes_a_hard_budget_is_stopped_early() {
    for seed in 0..1_000 {
        let (stop, usd, steps) = simulate(seed, 1.0, 0.8);
        let Some(BrakeFinding::Budget { at: Some(at), usd: least, hard_usd }) = stop else {
            panic!("run {seed}: {stop:?}")
        };
        assert!(least > hard_usd && least < usd * 1.02 && at < steps, "run {seed}: {least} of {usd}");
    }
}
