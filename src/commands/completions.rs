//! `trainc completions`.

use crate::exit;
use crate::terminal::io::Io;
use clap_complete::Shell;

/// Print a shell completion script
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc completions bash > /etc/bash_completion.d/trainc\n  trainc completions \
        zsh > ~/.zfunc/_trainc\n  trainc completions fish > ~/.config/fish/completions/trainc.fish"
)]
pub(crate) struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args, mut command: clap::Command) -> u8 {
    let mut script: Vec<u8> = Vec::new();
    clap_complete::generate(args.shell, &mut command, "trainc", &mut script);
    io.print_verbatim(&String::from_utf8_lossy(&script));
    exit::DONE
}
