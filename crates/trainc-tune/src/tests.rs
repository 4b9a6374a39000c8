use super::front::Measure;
use super::front::is_dominated;

use super::choice::{Choice, Degrees, HostOffload, Switches};
use super::runners_up::runners_up;
use super::{Point, Status, front_to_show, pareto_front};
use proptest::prelude::*;
use std::collections::BTreeSet;
use trainc_predict::{Recompute, Sharding};

fn point(seconds: u32, usd: Option<u32>, status: Status, changes: usize) -> Point {
    Point {
        choice: Choice {
            site: 0,
            nodes: 1,
            degrees: Degrees {
                shard: 1,
                tensor: 1,
                pipeline: 1,
                context: 1,
                ulysses: 1,
                expert: 1,
                sharding: Sharding::None,
            },
            micro_batch_size: u64::from(seconds),
            num_micro_batches: 1,
            passes: 1,
            recompute: Recompute::None,
            host_offload: HostOffload::default(),
            global_sequences: 1,
            switches: Switches::default(),
        },
        step_seconds: f64::from(seconds),
        seconds: f64::from(seconds),
        seconds_high: 1.5 * f64::from(seconds),
        usd: usd.map(f64::from),
        most_usd: usd.map(f64::from),
        memory_bytes: f64::from(seconds),
        memory_high_bytes: f64::from(seconds),
        capacity_bytes: 40.0,
        changes,
        status,
    }
}

prop_compose! {
    fn points()(all in proptest::collection::vec(
        (1_u32..40, proptest::option::weighted(0.9, 1_u32..40), 0_usize..8, 0_usize..4), 1..60,
    )) -> Vec<Point> {
        let standings = [Status::Valid, Status::TooLarge, Status::TooLate, Status::Refused];
        all.iter()
            // Half of them are valid.
            .map(|(seconds, usd, at, changes)| point(*seconds, *usd, standings[at.saturating_sub(4)], *changes))
            .collect()
    }
}

fn dominates(one: &Point, other: &Point) -> bool {
    let cost = |point: &Point| point.usd.unwrap_or(f64::INFINITY);
    one.seconds <= other.seconds
        && cost(one) <= cost(other)
        && (one.seconds < other.seconds || cost(one) < cost(other))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_front_is_what_brute_force_finds(all in points()) {
        for at in pareto_front(&all) {
            prop_assert!(!is_dominated(&all, at), "{at} of {all:?}");
        }
        prop_assume!(all.iter().any(|point| point.usd.is_some()));
        let sound: Vec<&Point> = all.iter().filter(|point| point.status == Status::Valid).collect();
        let figures = |point: &Point| (point.seconds.to_bits(), point.usd.map(f64::to_bits));
        let brute: BTreeSet<_> = sound
            .iter()
            .filter(|one| !sound.iter().any(|other| dominates(other, one)))
            .map(|one| figures(one))
            .collect();
        let found = pareto_front(&all);
        prop_assert_eq!(found.iter().map(|at| figures(&all[*at])).collect::<BTreeSet<_>>(), brute);
        // The fastest first, and of equals the one that changes least.
        prop_assert!(found.windows(2).all(|two| all[two[0]].seconds < all[two[1]].seconds));
        for at in &found {
            let equals = sound.iter().filter(|other| figures(other) == figures(&all[*at]));
            prop_assert_eq!(Some(all[*at].changes), equals.map(|other| other.changes).min());
        }
    }

    /// Runs on spot instances of unknown price are compared at the on-demand price.
    #[test]
    fn without_a_price_of_spot_the_one_on_demand_ranks(all in points()) {
        let spot: Vec<Point> = all.iter().map(|point| Point { usd: None, ..*point }).collect();
        prop_assume!(all.iter().any(|point| point.usd.is_some()));
        prop_assert_eq!((Measure::from_points(&all), Measure::from_points(&spot)), (Measure::Dollars, Measure::OnDemand));
        let flags = |of: &[Point]| -> Vec<bool> { (0..of.len()).map(|at| is_dominated(of, at)).collect() };
        prop_assert_eq!((pareto_front(&spot), front_to_show(&spot), flags(&spot)), (pareto_front(&all), front_to_show(&all), flags(&all)));
    }

    #[test]
    fn what_comes_next_lost_to_something(all in points(), most in 0_usize..12) {
        let chosen = pareto_front(&all);
        let next = runners_up(&all, &chosen, most);
        prop_assert!(next.len() <= most);
        prop_assert_eq!(next.iter().collect::<BTreeSet<_>>().len(), next.len());
        let measure = Measure::from_points(&all);
        for at in &next {
            let one = &all[*at];
            prop_assert!(!chosen.contains(at));
            let beaten = chosen.iter().any(|best| {
                all[*best].seconds <= one.seconds && measure.cost(&all[*best]) <= measure.cost(one)
            });
            // Valid ones were beaten; the others would have been on the front.
            prop_assert_eq!(one.status == Status::Valid, beaten, "{:?}", one);
            prop_assert!(!matches!(one.status, Status::Refused | Status::NeverFinishes));
        }
    }
}

/// A layout that leaves less room than its predicted memory may be off by.
fn point_that_may_not_fit(seconds: f64, usd: f64) -> Point {
    Point { seconds, usd: Some(usd), memory_high_bytes: 41.0, ..point(1, None, Status::Valid, 0) }
}

fn point_that_surely_fits(seconds: f64, usd: f64) -> Point {
    Point { memory_high_bytes: 39.0, ..point_that_may_not_fit(seconds, usd) }
}

/// A third of a percent is within the noise: a layout that surely fits replaces one that may not.
#[test]
fn of_layouts_within_the_noise_the_one_that_surely_fits_is_offered() {
    let near = [point_that_may_not_fit(100.0, 100.0), point_that_surely_fits(100.3, 100.3)];
    assert_eq!((pareto_front(&near), front_to_show(&near)), (vec![0], vec![1]));
    assert_eq!(
        runners_up(&near, &front_to_show(&near), 5),
        [0],
        "and what gave way is the first that comes next"
    );
    // With larger differences both are shown: the fastest that surely fits, then the faster one.
    let far = [
        point_that_may_not_fit(100.0, 100.0),
        point_that_surely_fits(102.0, 102.0),
        point_that_surely_fits(103.0, 103.0),
    ];
    assert_eq!((pareto_front(&far), front_to_show(&far)), (vec![0], vec![1, 0]));
    // A replacement counts as beaten; points of the front do not.
    let beaten = |points: &[Point]| -> Vec<bool> {
        front_to_show(points).into_iter().map(|at| is_dominated(points, at)).collect()
    };
    assert_eq!((beaten(&near), beaten(&far)), (vec![true], vec![true, false]));
    // Within the noise in time but more expensive beyond it is another layout.
    let dear = [point_that_may_not_fit(100.0, 100.0), point_that_surely_fits(100.3, 110.0)];
    assert_eq!(front_to_show(&dear), [1, 0]);
    // If none surely fits, those that may fit are shown; if all do, it is the plain front.
    assert_eq!(
        front_to_show(&[point_that_may_not_fit(100.0, 100.0), point_that_may_not_fit(90.0, 120.0)]),
        [1, 0]
    );
    let all = [
        point_that_surely_fits(100.0, 100.0),
        point_that_surely_fits(90.0, 120.0),
        point_that_surely_fits(101.0, 101.0),
    ];
    assert_eq!(front_to_show(&all), pareto_front(&all));
    assert_eq!(beaten(&all), [false, false]);
    // Equals do not beat each other.
    assert_eq!(
        beaten(&[point_that_surely_fits(100.0, 100.0), point_that_surely_fits(100.0, 100.0)]),
        [false]
    );
}

/// A layout without a price is chosen only if none that surely fits has one.
#[test]
fn the_first_choice_surely_fits_and_has_a_price() {
    let unpriced = |seconds: f64| Point { usd: None, ..point_that_surely_fits(seconds, 0.0) };
    let first = |points: &[Point]| super::default_choice(&points.iter().collect::<Vec<_>>());
    assert_eq!(
        first(&[unpriced(80.0), point_that_may_not_fit(90.0, 120.0), point_that_surely_fits(100.0, 100.0)]),
        2
    );
    assert_eq!(first(&[point_that_may_not_fit(80.0, 90.0), unpriced(90.0), unpriced(95.0)]), 1);
    assert_eq!(first(&[point_that_may_not_fit(80.0, 90.0), point_that_may_not_fit(90.0, 80.0)]), 0);
}

/// If nothing is within the bounds, the nearest miss comes before layouts that do not fit.
#[test]
fn without_a_front_what_misses_the_bounds_by_least_comes_first() {
    let all = [
        point(30, Some(3), Status::TooLarge, 0),
        point(9, Some(3), Status::TooLate, 0),
        point(7, Some(3), Status::TooLate, 0),
        point(8, Some(3), Status::Tight, 0),
    ];
    assert_eq!(runners_up(&all, &[], 2), [2, 3]);
    assert_eq!(runners_up(&all, &[], 9), [2, 3, 0]);
}

#[test]
fn without_any_price_the_time_of_all_nodes_counts() {
    let mut all = [point(10, None, Status::Valid, 0), point(6, None, Status::Valid, 0)];
    all[1].choice.nodes = 2;
    assert_eq!(Measure::from_points(&all), Measure::NodeSeconds);
    assert_eq!(pareto_front(&all), [1, 0]);
    all[1].choice.nodes = 1;
    assert_eq!(pareto_front(&all), [1]);
}

/// The memory of a GPU has one decimal, if that is not 0.
#[test]
fn cards_are_rounded_alike() {
    let tight = |has: f64| {
        let (needs_bytes, has_bytes) = (20.0 * 1_073_741_824.0, has * 1_073_741_824.0);
        super::Reason::Tight { needs_bytes, has_bytes }.to_string()
    };
    assert!(tight(22.38).starts_with("too little room: 20.0 of 22.4 GiB, "), "{}", tight(22.38));
    assert!(tight(40.0).starts_with("too little room: 20.0 of 40 GiB, "), "{}", tight(40.0));
}

/// Each amount in a suitable unit, and a tiny difference is not hidden by rounding.
#[test]
fn what_is_too_late_says_both_times_so_that_they_differ() {
    let late = |seconds, deadline_seconds| super::Reason::TooLate { seconds, deadline_seconds }.to_string();
    assert_eq!(late(2_196.0, 1.0), "too late: 36m 40s, limit 1s");
    assert_eq!(late(2_196.0, 1_800.0), "too late: 36m 40s, limit 30m");
    assert_eq!(late(4_104.0, 1_800.0), "too late: 1h 8m, limit 30m");
    assert_eq!(late(46_800.0, 43_200.0), "too late: 13h, limit 12h");
    assert_eq!(late(43_205.0, 43_200.0), "too late by 5s: limit 12h");
}

/// 100 s compared with 50 s: the difference in cost is within the noise.
#[test]
fn a_far_slower_layout_is_not_called_faster() {
    let aside = super::Reason::LessCertain {
        by: 1,
        quicker: -1.0,
        cheaper_usd: None,
        cheaper_on_demand_usd: None,
        less: 0.005,
    };
    assert_eq!(
        aside.to_string(),
        "may not fit; 1 fits and is 50 % faster: 0.5 % less node time is within the noise"
    );
}

/// A layout on a number of nodes, whose upper end is given.
fn point_on(nodes: u64, seconds: f64, high: f64) -> Point {
    let one = point_that_surely_fits(seconds, seconds * nodes as f64);
    Point { choice: Choice { nodes, ..one.choice }, seconds_high: high, ..one }
}

/// Up to 16 nodes a wide interval does not count; beyond, the layout whose upper end is lower comes first.
#[test]
fn on_many_nodes_the_upper_ends_are_compared() {
    let few = [point_on(16, 100.0, 400.0), point_on(16, 110.0, 120.0)];
    assert_eq!(pareto_front(&few), [0]);
    let many = [point_on(17, 100.0, 400.0), point_on(17, 110.0, 120.0)];
    assert_eq!((pareto_front(&many), front_to_show(&many)), (vec![1], vec![1]));
    assert!(is_dominated(&many, 0) && !is_dominated(&many, 1));
    assert_eq!(runners_up(&many, &[1], 5), [0]);
    // Its cost is that of the upper end too: 17 nodes for 120 s.
    assert!((Measure::Dollars.cost(&many[1]) - 17.0 * 120.0).abs() < 1e-9);
    assert!((Measure::Dollars.predicted_cost(&many[1]) - 17.0 * 110.0).abs() < 1e-9);
    // A larger cluster has to be faster at its upper end than a small one is expected to be.
    let mixed = [point_on(16, 100.0, 180.0), point_on(32, 60.0, 110.0), point_on(32, 70.0, 95.0)];
    assert_eq!(front_to_show(&mixed), [2, 0]);
    // One that may never finish is not compared as if it did.
    let endless = [point_on(32, 60.0, f64::INFINITY), point_on(32, 70.0, 95.0)];
    assert_eq!(pareto_front(&endless), [1]);
}

#[test]
fn a_better_machine_is_a_fifth_better_in_one_and_not_worse_in_the_other() {
    use super::TimeAndCost;
    let run = |seconds, usd| TimeAndCost { seconds, usd };
    let now = run(100.0, 100.0);
    let close = |found: Option<f64>, share: f64| found.is_some_and(|found| (found - share).abs() < 1e-9);
    assert!(close(run(100.0, 80.0).saving(now), 0.2) && close(run(50.0, 55.0).saving(now), 0.45));
    assert!(close(run(40.0, 95.0).saving(now), 0.6), "the time, where it saves little of the cost");
    for not_better in [run(100.1, 50.0), run(50.0, 100.1), run(81.0, 81.0), now] {
        assert_eq!(not_better.saving(now), None, "{not_better:?}");
    }
}
