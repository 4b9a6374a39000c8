//! The flag that selects the account.

use crate::terminal::io::Io;
use std::path::PathBuf;
use std::time::Duration;
use trainc_ops::accounts::{Accounts, Which};

/// Flag that selects the account.
#[derive(clap::Args, Debug)]
pub(crate) struct AccountArgs {
    /// Use a simulated account instead of AWS: no credentials, no network, no cost. `--simulate` runs against
    /// an in-memory account; `--simulate=FILE` persists it between commands
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap: absent, alone, or with a file")]
    pub simulate: Option<Option<PathBuf>>,
}

impl AccountArgs {
    /// Returns true if the account is lost when the command ends.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.simulate, Some(None))
    }

    /// Returns true if an account of AWS is asked.
    pub(crate) fn is_real(&self) -> bool {
        self.simulate.is_none()
    }

    /// The flag, quoted for a shell.
    pub(crate) fn flag(&self) -> Option<String> {
        Some(match self.simulate.as_ref()? {
            None => "--simulate".to_owned(),
            Some(file) => format!("--simulate={}", trainc_emit::quote(&file.to_string_lossy())),
        })
    }

    /// Returns the same account, persisted in a file.
    pub(crate) fn with_default_file() -> Self {
        Self { simulate: Some(Some("account.json".into())) }
    }

    /// Opens the account; fails with a usage error. `capacity` is the time for which a lack of machines is
    /// waited out.
    pub(crate) fn open(&self, io: &Io, capacity: Option<Duration>) -> Result<Accounts, String> {
        let which = match &self.simulate {
            None => Which::Aws,
            Some(None) => Which::InMemory,
            Some(Some(file)) => Which::File(file.clone()),
        };
        Accounts::open(&which, capacity, io.clock, print_notice)
    }
}

/// Prints a note while a request waits.
fn print_notice(line: &str) {
    let line = trainc_diag::escape_output(&format!("note: {line}\n"), false);
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
