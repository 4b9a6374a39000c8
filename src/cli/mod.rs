//! The command line: the only room, with `aws`, that touches files, environment, clock and terminal.

/// Runs the command line.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
