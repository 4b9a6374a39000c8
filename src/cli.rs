//! The command line: all commands, and the one that is run.
//!
//! In: arguments. Out: results on standard output, problems and progress on standard error, an exit code.

use crate::commands::{
    apply, calibrate, catalog, check, completions, data, destroy, emit, explain, fmt, import, init, logs,
    lsp, plan, probe, report, run, schema, status, stop, tune, watch,
};
use crate::terminal::io::{self, Io};
use crate::{args, exit};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use trainc_data::reading_process;
use trainc_diag::{escape_output, text};
use trainc_ops::clock::SystemClock;
use trainc_project::files;

/// A compiler for training jobs: turns a KDL manifest into a checked plan and AWS resource definitions.
///
/// Problems are reported with their source line before anything is paid for. `check` and `plan --offline`
/// need no network.
#[derive(Parser, Debug)]
#[command(
    name = "trainc",
    version,
    max_term_width = MOST_HELP,
    arg_required_else_help = true,
    subcommand_required = true
)]
#[command(
    after_help = "Start with `trainc init`. Exit codes: 0 success, 2 usage error, 3 errors in the manifest, \
        4 differences found, 5 incomplete and safe to repeat, 6 access denied, 7 blocked by a resource that \
        trainc does not own, 8 training job failed or stopped."
)]
struct App {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: args::Global,
}

#[derive(Subcommand, Debug)]
enum Command {
    Init(init::Args),
    Check(check::Args),
    Plan(plan::Args),
    Emit(emit::Args),
    Apply(apply::Args),
    Watch(watch::Args),
    Status(status::Args),
    Logs(logs::Args),
    Report(report::Args),
    Stop(stop::Args),
    Destroy(destroy::Args),
    Run(run::Args),
    Probe(probe::Args),
    Fmt(fmt::Args),
    Explain(explain::Args),
    Import(import::Args),
    Data(data::Args),
    Tune(tune::Args),
    Calibrate(calibrate::Args),
    Catalog(catalog::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Lsp(lsp::Args),
}

/// The commands by what they are for, in the order of their use.
const GROUPS: [(&str, &[&str]); 6] = [
    ("start a manifest", &["init", "import"]),
    ("check and plan", &["check", "plan", "tune", "fmt"]),
    ("create and follow a job", &["emit", "apply", "watch", "status", "logs", "stop", "destroy"]),
    ("compare predictions with runs", &["report", "probe", "calibrate"]),
    ("train with engine `worker`", &["run", "data"]),
    ("look up, editors and shells", &["explain", "catalog", "schema", "completions", "lsp", "help"]),
];

/// Returns the definition of all commands and flags. Its help lists the commands by group, which clap cannot.
pub fn command() -> clap::Command {
    let app = App::command();
    let width = columns().map_or(MOST_HELP, |columns| columns.min(MOST_HELP)).saturating_sub(HELP_INDENT);
    let mut out = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        out.push_str(&format!("\n{title}\n"));
        for name in names {
            let about = app.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or_else(|| "Print the help of a command".to_owned(), ToString::to_string);
            for (at, line) in text::wrap(&about, width, 0).iter().enumerate() {
                let name = if at == 0 { name } else { "" };
                out.push_str(&format!("  {name:<width$}{line}\n", width = HELP_INDENT - 2));
            }
        }
    }
    out.push_str("\nOptions:\n{options}{after-help}");
    app.help_template(out)
}

/// Columns before the descriptions of commands.
const HELP_INDENT: usize = 15;
/// Maximum width of help, columns.
const MOST_HELP: usize = 100;

/// Runs the command line.
pub fn main() -> ExitCode {
    // No command: `data pack` starts it, and what it reads is its own business.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == reading_process::ARGUMENT) {
        return reading_process::run();
    }
    let app = match command().try_get_matches().and_then(|found| App::from_arg_matches(&found)) {
        Ok(app) => app,
        Err(error) => {
            let printed = print_usage(&error);
            let failed = printed.is_err_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe);
            return ExitCode::from(if error.use_stderr() || failed { exit::USAGE } else { exit::DONE });
        }
    };
    let color =
        app.global.wants_color(std::io::stdout().is_terminal(), std::env::var_os("NO_COLOR").is_some());
    let unicode = !std::env::var("LC_ALL")
        .or_else(|_| std::env::var("LANG"))
        .is_ok_and(|lang| lang == "C" || lang == "POSIX");
    let clock = SystemClock;
    let today = app.global.today.clone().unwrap_or_else(|| clock.today());
    if let Command::Lsp(args) = &app.command {
        // The protocol owns standard output.
        return ExitCode::from(lsp::run(args, &today));
    }
    let mut out = io::TrackedWriter::new(std::io::stdout().lock());
    // Not locked: progress bars are drawn there by another thread.
    let mut err = std::io::stderr();
    let mut io = Io {
        out: &mut out,
        err: &mut err,
        color,
        unicode,
        width: width(),
        wrap: wrap(&std::io::stdout()),
        wrap_notes: wrap(&std::io::stderr()),
        clock,
        today,
        unread: false,
    };
    let code = match &app.command {
        Command::Check(args) => check::run(&mut io, &app.global, args),
        Command::Plan(args) => plan::run(&mut io, &app.global, args),
        Command::Emit(args) => emit::run(&mut io, &app.global, args),
        Command::Apply(args) => apply::run(&mut io, &app.global, args),
        Command::Watch(args) => watch::run(&mut io, &app.global, args),
        Command::Status(args) => status::run(&mut io, &app.global, args),
        Command::Logs(args) => logs::run(&mut io, &app.global, args),
        Command::Report(args) => report::run(&mut io, &app.global, args),
        Command::Stop(args) => stop::run(&mut io, &app.global, args),
        Command::Destroy(args) => destroy::run(&mut io, &app.global, args),
        Command::Run(args) => run::run(&mut io, &app.global, args),
        Command::Init(args) => init::run(&mut io, args),
        Command::Probe(args) => probe::run(&mut io, &app.global, args),
        Command::Fmt(args) => fmt::run(&mut io, args),
        Command::Explain(args) => explain::run(&mut io, args),
        Command::Import(args) => import::run(&mut io, &app.global, args),
        Command::Data(args) => data::run(&mut io, &app.global, args),
        Command::Tune(args) => tune::run(&mut io, &app.global, args),
        Command::Calibrate(args) => calibrate::run(&mut io, &app.global, args),
        Command::Catalog(args) => catalog::run(&mut io, &app.global, args),
        Command::Schema(args) => schema::run(&mut io, args),
        Command::Completions(args) => completions::run(&mut io, args, command()),
        Command::Lsp(_) => exit::DONE,
    };
    let Some(fault) = out.into_error() else { return ExitCode::from(code) };
    let why = files::describe(&fault);
    let _ = writeln!(err, "error: standard output cannot be written: {why}");
    ExitCode::from(if code == exit::DONE { exit::USAGE } else { code })
}

/// Prints help, or an error of the command line. The error repeats arguments, which may be names of hostile
/// files.
fn print_usage(error: &clap::Error) -> std::io::Result<()> {
    if !error.use_stderr() {
        return error.print().and_then(|()| std::io::stdout().flush());
    }
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = error.render();
    let text = if color { text.ansi().to_string() } else { text.to_string() };
    std::io::stderr()
        .write_all(io::wrap_lines(&escape_output(&text, color), wrap(&std::io::stderr())).as_bytes())
}

/// Returns the width of printed text in columns: that of the terminal, between 60 and 120, or 100 if unknown.
fn width() -> usize {
    columns().map_or(100, |columns| columns.clamp(60, 120))
}

/// Returns the columns at which the lines of a stream are wrapped: `COLUMNS`, or those of the terminal if it
/// is one.
pub(crate) fn wrap(stream: &impl std::io::IsTerminal) -> Option<usize> {
    let is_terminal = stream.is_terminal();
    columns().filter(|_| is_terminal || std::env::var_os("COLUMNS").is_some()).map(|columns| columns.max(20))
}

/// Returns the width by `COLUMNS`, or of the terminal.
pub(crate) fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    set.or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_is_in_one_group() {
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let named: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(named.len(), listed.len());
        let app = App::command();
        let all = app.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name);
        assert_eq!(all.chain(["help"]).collect::<BTreeSet<_>>(), named);
    }
}
