//! Divisors, for degrees near one that does not divide.

/// Returns the largest divisor up to a limit.
pub(super) fn largest_divisor(of: u64, at_most: u64) -> u64 {
    divisors(of).into_iter().filter(|divisor| *divisor <= at_most).max().unwrap_or(1)
}

/// Returns all divisors, ascending.
pub fn divisors(n: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let mut small = 1;
    while small * small <= n {
        if n.is_multiple_of(small) {
            out.push(small);
            if small != n / small {
                out.push(n / small);
            }
        }
        small += 1;
    }
    out.sort_unstable();
    out
}

/// Returns the nearest divisors below and above; omits 1 if there is another.
pub fn near_divisors(of: u64, wanted: u64) -> (Option<u64>, Option<u64>) {
    let all = divisors(of);
    let below = all.iter().copied().filter(|d| *d < wanted).max();
    let above = all.iter().copied().filter(|d| *d > wanted).min();
    match (below, above) {
        (Some(1), Some(above)) => (None, Some(above)),
        other => other,
    }
}

/// Describes the nearest divisors: `64 or 128`.
pub(crate) fn describe_near_divisors(of: u64, wanted: u64) -> String {
    match near_divisors(of, wanted) {
        (Some(below), Some(above)) => format!("{below} or {above}"),
        (Some(one), None) | (None, Some(one)) => one.to_string(),
        (None, None) => "1".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_legal_degrees() {
        assert_eq!(near_divisors(256, 96), (Some(64), Some(128)));
        assert_eq!(near_divisors(12, 5), (Some(4), Some(6)));
        assert_eq!(near_divisors(7, 3), (None, Some(7)));
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
    }
}
