//! Parallel work on many files, with results in the order of the files.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Minimum number of files per thread.
const LEAST_PER_THREAD: usize = 16;

/// Parts per thread: small parts balance the load.
const PARTS_PER_THREAD: usize = 8;

/// Parts at most: a number of a part has few bits, and a comparison with another commit takes one of its own.
const MOST_PARTS: usize = 500;

/// Calls `work` with consecutive files, a part number from 1, and state that its thread reuses. The results
/// are in the order of the files.
pub(crate) fn map_in_parts<F: Sync, K: Default, P: Send>(
    files: &[F],
    work: impl Fn(&[F], u32, &mut K) -> P + Sync,
) -> Vec<P> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = (threads * PARTS_PER_THREAD).min(MOST_PARTS);
    let each = files.len().div_ceil(most).max(LEAST_PER_THREAD);
    if files.len() <= each {
        return vec![work(files, 1, &mut K::default())];
    }
    let runs: Vec<(u32, &[F])> = (1..).zip(files.chunks(each)).collect();
    let next = AtomicUsize::new(0);
    let one_thread = || {
        let mut kept = K::default();
        let taken = std::iter::from_fn(|| runs.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.map(|(number, run)| (*number, work(run, *number, &mut kept))).collect::<Vec<_>>()
    };
    let mut parts: Vec<(u32, P)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(runs.len())).map(|_| scope.spawn(one_thread)).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)))
            .collect()
    });
    parts.sort_by_key(|(number, _)| *number);
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::map_in_parts;

    #[test]
    fn results_stand_in_the_order_of_the_files_whoever_worked() {
        for many in [0, 1, 16, 17, 1_000, 9_999] {
            let files: Vec<usize> = (0..many).collect();
            let parts = map_in_parts(&files, |run, number, kept: &mut usize| {
                *kept += run.len();
                (number, run.to_vec())
            });
            let numbers: Vec<u32> = parts.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, (1..).take(parts.len()).collect::<Vec<u32>>());
            assert!(parts.len() <= 500);
            let all: Vec<usize> = parts.into_iter().flat_map(|(_, run)| run).collect();
            assert_eq!(all, files);
        }
    }
}
