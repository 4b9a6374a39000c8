//! Signals that end a command, and the programs that it has started, in order.

/// Returns the signals that stop a command: of Ctrl-C, of a cancelled CI job, and of a terminal that closes,
/// which `nohup` has ignored.
pub fn stop_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit n - 1 is signal n.
    let ignored = mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1);
    [SIGINT, SIGTERM].into_iter().chain((!ignored).then_some(SIGHUP)).collect()
}
