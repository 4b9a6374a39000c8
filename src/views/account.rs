//! What is printed of the end of a task in an account.

use crate::exit;
use crate::terminal::io::Io;
use trainc_ops::accounts::Ended;

/// Prints why a task has no outcome; returns the exit code.
pub(crate) fn print_ended(io: &mut Io, ended: &Ended) -> u8 {
    match ended {
        Ended::Interrupted { leaves_resources: true } => io.note(
            "\ninterrupted: existing resources remain and are billed; repeat the command to \
                continue, `trainc status` to see them, `trainc destroy` to remove them\n",
        ),
        Ended::Interrupted { leaves_resources: false } => io.note("\ninterrupted\n"),
        Ended::Refused(words) => {
            io.note(words);
            return exit::USAGE;
        }
    }
    exit::INCOMPLETE
}

/// Returns the exit code of a task, or prints why it has none.
pub(crate) fn exit_code(io: &mut Io, outcome: Result<u8, Ended>) -> u8 {
    outcome.unwrap_or_else(|ended| print_ended(io, &ended))
}
