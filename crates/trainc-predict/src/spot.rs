//! Random interruptions of a run at a known rate: the expected time, and its ninth decile.
//!
//! A Poisson process. An interruption loses the work since the last checkpoint, and the job starts again; a
//! stretch of `t` seconds is tried until a try meets no interruption, so that the number of failed tries is
//! geometric, with `e^(-rate t)` as the chance of success, and each loses a start and an exponential time
//! truncated at `t`. Interruptions while a job starts are not counted, nor is the wait for capacity, which is
//! unknown.

use super::prediction::Spot;

/// The share of runs that [`Spot::p90_seconds`] covers.
const SHARE: f64 = 0.9;

/// That quantile of the standard normal distribution.
const NORMAL: f64 = 1.281_551_565_5;

/// Number of interruptions above which their distribution is approximated by its first two moments instead of
/// exactly: there the two differ by about a hundredth.
const MANY: f64 = 50.0;

/// Maximum number of interruptions that are evaluated one by one.
const MOST: usize = 5_000;

/// Stretches of work, each tried until it finishes without an interruption.
#[derive(Clone, Copy)]
struct Stretches {
    /// Number of stretches in the run.
    count: f64,
    /// Chance that one try is not interrupted.
    done: f64,
    /// Expected number of failed tries, of all stretches together.
    failures: f64,
    /// Mean and variance of the loss of one failed try, including its start, seconds.
    loss: f64,
    loss_variance: f64,
}

impl Stretches {
    /// Returns `count` stretches of `seconds` at `rate` interruptions per second, each loss followed by a
    /// start of `start` seconds.
    fn new(count: f64, seconds: f64, rate: f64, start: f64) -> Self {
        let x = rate * seconds;
        // Mean and variance of an exponential time conditioned to be below `seconds`, in units of it. Both
        // are differences that vanish if interruptions are rare: the time is then practically uniform.
        let (mean, variance) = if x < 1e-3 {
            (0.5 - x / 12.0, 1.0 / 12.0)
        } else {
            let mean = 1.0 / x - 1.0 / x.exp_m1();
            let square = 2.0 / (x * x) - (1.0 + 2.0 / x) / x.exp_m1();
            (mean, (square - mean * mean).max(0.0))
        };
        Self {
            count,
            done: (-x).exp(),
            // Without stretches there are no tries, however unlikely success would be.
            failures: if count > 0.0 { count * x.exp_m1() } else { 0.0 },
            loss: start + mean * seconds,
            loss_variance: variance * seconds * seconds,
        }
    }

    /// Returns the variance of the number of failures: negative binomial.
    fn failure_variance(&self) -> f64 {
        if self.count > 0.0 { self.failures / self.done } else { 0.0 }
    }
}

/// Predicts a run of `training` seconds with a checkpoint, which takes `save`, after every `interval` of
/// them.
///
/// A stretch is `interval` seconds of training and a save; the last one is the remainder without a save. A
/// stretch of `t` seconds is expected to take `(e^(rate t) - 1) / rate`, plus a start for each interruption.
pub(super) fn predict_spot_run(rate: f64, start: f64, training: f64, interval: f64, save: f64) -> Spot {
    let full = (training / interval).floor();
    let rest = (training - full * interval).max(0.0);
    let calm = start + training + full * save;
    if rate <= 0.0 {
        return Spot { expected_seconds: calm, p90_seconds: calm, ..Spot::default() };
    }
    let kinds = [
        Stretches::new(full, interval + save, rate, start),
        Stretches::new(if rest > 0.0 { 1.0 } else { 0.0 }, rest, rate, start),
    ];
    let interruptions = kinds.iter().map(|kind| kind.failures).sum::<f64>();
    let lost = kinds.iter().map(|kind| if kind.failures > 0.0 { kind.failures * kind.loss } else { 0.0 });
    let expected = calm + lost.sum::<f64>();
    Spot {
        expected_seconds: expected,
        p90_seconds: calm + lost_time_p90(&kinds, interruptions),
        interruptions,
        ..Spot::default()
    }
}

/// Returns the lost time that nine in ten runs stay below, seconds.
///
/// The distribution of the number of interruptions is exact ([`interruption_probabilities`]). Given the
/// number, the loss is a sum of independent times and is assumed to be normal, which a sum of two uniform
/// times nearly is. For a very large number the total loss is assumed to be a gamma variable of its mean and
/// variance (Wilson and Hilferty 1931).
fn lost_time_p90(kinds: &[Stretches; 2], interruptions: f64) -> f64 {
    let mean: f64 =
        kinds.iter().filter(|kind| kind.failures > 0.0).map(|kind| kind.failures * kind.loss).sum();
    if !mean.is_finite() || mean <= 0.0 {
        return mean;
    }
    if interruptions > MANY {
        let variance: f64 = kinds
            .iter()
            .filter(|kind| kind.failures > 0.0)
            .map(|kind| kind.failures * kind.loss_variance + kind.failure_variance() * kind.loss * kind.loss)
            .sum();
        let ninth = variance / (9.0 * mean * mean);
        return mean * (1.0 - ninth + NORMAL * ninth.sqrt()).powi(3);
    }
    // The loss of any interruption, regardless of the stretch that it hits.
    let share = |kind: &Stretches| kind.failures / interruptions;
    let loss = mean / interruptions;
    let square: f64 =
        kinds.iter().map(|kind| share(kind) * (kind.loss_variance + kind.loss * kind.loss)).sum();
    let deviation = (square - loss * loss).max(0.0).sqrt().max(1e-9 * loss);
    let numbers = interruption_probabilities(kinds);
    let below = |seconds: f64| {
        let of = |(at, chance): (usize, &f64)| {
            let number = at as f64;
            let normal = (seconds - number * loss) / (deviation * number.sqrt());
            if at == 0 { *chance } else { chance * 0.5 * libm::erfc(-normal / std::f64::consts::SQRT_2) }
        };
        numbers.iter().enumerate().map(of).sum::<f64>()
    };
    if numbers.first().is_none_or(|none| *none >= SHARE) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, loss * numbers.len() as f64 + 10.0 * deviation);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if below(middle) < SHARE {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns the probabilities of no interruption, of one, of two and so on, until the remainder is negligible.
///
/// Failures before `count` stretches finish are negative binomial, those of the last stretch geometric; the
/// sum of both is a recursion over the first.
fn interruption_probabilities(kinds: &[Stretches; 2]) -> Vec<f64> {
    let [full, last] = kinds;
    let (mut chance, mut sum, mut total) = (full.done.powf(full.count), 0.0, 0.0);
    let again = if last.count > 0.0 { 1.0 - last.done } else { 0.0 };
    let mut out = Vec::new();
    while out.len() < MOST && total < 1.0 - 1e-7 {
        let at = out.len() as f64;
        sum = again * sum + (1.0 - again) * chance;
        total += sum;
        out.push(sum);
        chance *= (full.count + at) / (at + 1.0) * (1.0 - full.done);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: ten hours of work in ten stretches on two instances, one interruption of each in 40 hours.
    #[test]
    fn interruptions_are_paid_for() {
        let rate = 2.0 / 40.0 / 3_600.0;
        let found = predict_spot_run(rate, 300.0, 36_000.0, 3_600.0, 0.0);
        // A stretch restarts from its beginning: (e^0.05 - 1) / 0.05 hours instead of one.
        let working = 10.0 * (0.05_f64.exp() - 1.0) / 0.05 * 3_600.0;
        let expected = 300.0 + working + working * rate * 300.0;
        assert!((found.expected_seconds / expected - 1.0).abs() < 1e-12, "{found:?}");
        assert!(found.p90_seconds > found.expected_seconds);
        assert_eq!(predict_spot_run(0.0, 300.0, 36_000.0, 3_600.0, 0.0).expected_seconds, 36_300.0);
    }

    /// By hand: 29.5 hours with a checkpoint after 24 are stretches of 24 and of 5.5 hours, not one of 29.5.
    #[test]
    fn the_last_stretch_is_as_long_as_it_is() {
        let (hour, rate) = (3_600.0, 0.1 / 3_600.0);
        let found = predict_spot_run(rate, 0.0, 29.5 * hour, 24.0 * hour, 0.0);
        let expected = ((2.4_f64.exp() - 1.0) + (0.55_f64.exp() - 1.0)) / rate;
        assert!((found.expected_seconds / expected - 1.0).abs() < 1e-12, "{found:?}");
        // Without a checkpoint before the end the whole run is one stretch.
        let found = predict_spot_run(rate, 0.0, 29.5 * hour, 40.0 * hour, 0.0);
        assert!((found.expected_seconds * rate / (2.95_f64.exp() - 1.0) - 1.0).abs() < 1e-12, "{found:?}");
    }

    /// If more than nine runs in ten have no interruption, the 90 % quantile is the uninterrupted time:
    /// e^-0.1 is 0.905.
    #[test]
    fn rare_interruptions_leave_the_ninth_decile_alone() {
        let hour = 3_600.0;
        let rare = predict_spot_run(0.01 / hour, 300.0, 10.0 * hour, 2.0 * hour, 0.0);
        assert_eq!(rare.p90_seconds, 300.0 + 10.0 * hour);
        assert!(rare.expected_seconds > rare.p90_seconds, "{rare:?}");
        let less = predict_spot_run(0.012 / hour, 300.0, 10.0 * hour, 2.0 * hour, 0.0);
        assert!(less.p90_seconds > 300.0 + 10.0 * hour, "{less:?}");
    }

    /// One stretch without a start takes a geometric number of tries; if success is very unlikely, its time
    /// is exponential, and nine in ten runs stay below ln 10 times the mean.
    #[test]
    fn hardly_ever_done_is_exponential() {
        let found = predict_spot_run(1.0, 0.0, 8.0, 100.0, 0.0);
        let ratio = found.p90_seconds / found.expected_seconds;
        assert!((ratio / 10.0_f64.ln() - 1.0).abs() < 0.015, "{ratio}");
    }

    /// Returns simulated times of runs, each interruption drawn separately by a congruential generator
    /// (Knuth, MMIX).
    fn drawn(rate: f64, start: f64, training: f64, interval: f64, save: f64) -> Vec<f64> {
        let mut state = 7_u64;
        let mut gap = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let even = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            -even.ln() / rate
        };
        let mut times: Vec<f64> = (0..40_000)
            .map(|_| {
                let (mut seconds, mut done) = (start, 0.0);
                while done < training {
                    let left = training - done;
                    let stretch = if left >= interval { interval + save } else { left };
                    let next = gap();
                    if next < stretch {
                        seconds += next + start;
                    } else {
                        seconds += stretch;
                        done += interval.min(left);
                    }
                }
                seconds
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Mean and ninth decile compared with 40,000 simulated runs, from rare interruptions to many, with long
    /// and short stretches.
    #[test]
    fn the_ninth_decile_is_that_of_drawn_runs() {
        let hour = 3_600.0;
        for (per_hour, start, training, interval, save) in [
            (0.02, 300.0, 10.0, 1.0, 20.0),
            (0.05, 300.0, 10.0, 10.0, 60.0),
            (0.1, 600.0, 30.0, 24.0, 60.0),
            (0.2, 300.0, 100.0, 1.0, 20.0),
            (1.0, 300.0, 12.0, 1.5, 60.0),
            (2.0, 300.0, 100.0, 0.5, 30.0),
            (0.5, 300.0, 8.0, 8.0, 0.0),
        ] {
            let (rate, training, interval) = (per_hour / hour, training * hour, interval * hour);
            let found = predict_spot_run(rate, start, training, interval, save);
            let times = drawn(rate, start, training, interval, save);
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let tenth = times[times.len() * 9 / 10];
            assert!((found.expected_seconds / mean - 1.0).abs() < 0.02, "{per_hour}: {found:?} {mean}");
            assert!((found.p90_seconds / tenth - 1.0).abs() < 0.025, "{per_hour}: {found:?} {tenth}");
        }
    }
}
