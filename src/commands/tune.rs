//! `trainc tune`.

use crate::args::{Global, Input, duration_text, problems};
use crate::exit;
use crate::terminal::io::Io;
use crate::views::tune::untimed::UnrankedOutput;
use crate::views::tune::written::{describe_not_written, describe_put, describe_tight_memory};
use crate::views::tune::{chart, output};
use std::fs;
use std::path::{Path, PathBuf};
use trainc_check::can_run_on;
use trainc_diag::{Format, Invocation, NextCommand};
use trainc_emit::quote;
use trainc_ops::checked_layouts::{CheckedLayouts, check_layouts, unranked_layouts};
use trainc_ops::written_layout::{NotWritten, Put, write_layout};
use trainc_plan::{Compiled, Options};
use trainc_predict::Constants;
use trainc_project::loaded_manifest::LoadedManifest;
use trainc_project::manifests::{Set, compile_all};
use trainc_report as report;
use trainc_tune::bounds::{MoreNodes, more_nodes};
use trainc_tune::{Choice, Limits, Point, Space, search};

/// Search for the Pareto-optimal layouts of a job by time and cost
///
/// Varies parallelism degrees, sharding strategy, micro-batch, accumulation, recomputation, offload, nodes
/// and instance types, as far as the engine supports them, at a constant global batch. Shows only layouts
/// that are predicted to fit and have no error, with the warnings of each, and why each runner-up was
/// rejected.
#[derive(clap::Args, Debug)]
#[command(
    mut_arg("manifests", |arg| arg
        .help("Manifest: a file, a directory that contains one, or `-` for standard input")
        .num_args(0..=1)
        .value_hint(clap::ValueHint::FilePath)),
    // No effect here.
    mut_arg("exit_zero", |arg| arg.hide(true)),
    mut_arg("deny_warnings", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc tune job.kdl\n  trainc tune job.kdl --instances \
        ml.p4d.24xlarge,ml.p5.48xlarge --max-nodes 32 --max-usd 5000\n  trainc tune job.kdl --report \
        layouts.html\n  trainc tune job.kdl --write=2"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Instance types to compare, separated by commas [default: all that have a price in the region and that
    /// image and engine support]
    #[arg(long, value_name = "TYPES", value_parser = instances)]
    instances: Vec<Instances>,
    /// Maximum number of nodes [default: twice the manifest's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    max_nodes: Option<u64>,
    /// Maximum expected cost of the run in US dollars; its upper end may be higher
    #[arg(long, value_name = "USD", value_parser = usd)]
    max_usd: Option<f64>,
    /// Maximum expected time of the run, e.g. 12h or 2d; its upper end may be higher
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    deadline: Option<std::time::Duration>,
    /// Number of runners-up to explain
    #[arg(long, value_name = "N", default_value = "6")]
    next: usize,
    /// Write this layout into the manifest, keeping comments and formatting [default number: the fastest that
    /// certainly fits and has a price]
    #[expect(clippy::option_option, reason = "clap: absent, alone, or with a number")]
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true)]
    write: Option<Option<usize>>,
    /// Write a self-contained HTML page with a chart of time against cost
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Output format: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    output: String,
}

fn usd(written: &str) -> Result<f64, String> {
    let usd: f64 = written.parse().map_err(|_| format!("`{written}` is no number of dollars"))?;
    if usd.is_finite() && usd > 0.0 { Ok(usd) } else { Err("expected US dollars, more than 0".to_owned()) }
}

fn deadline(written: &str) -> Result<std::time::Duration, String> {
    let deadline = crate::args::duration(written)?;
    if deadline.is_zero() { Err("expected a time above 0, as 12h".to_owned()) } else { Ok(deadline) }
}

/// Instance types, as one argument names them.
type Instances = std::sync::Arc<[String]>;

/// Reads instance types separated by commas. The error names each that does not exist.
fn instances(written: &str) -> Result<Instances, String> {
    let types: Vec<&str> = written.split(',').map(str::trim).collect();
    let wrong: Vec<String> = types.iter().filter_map(|name| unknown_instance(name)).collect();
    if wrong.is_empty() {
        return Ok(types.into_iter().map(str::to_owned).collect());
    }
    Err(if wrong.len() == 1 { wrong.concat() } else { format!("\n  {}", wrong.join("\n  ")) })
}

/// Describes why a word is no instance type with accelerators, or returns `None` if it is one.
fn unknown_instance(written: &str) -> Option<String> {
    use trainc_catalog::instances;
    use trainc_diag::text;
    /// Maximum number of types suggested.
    const MOST: usize = 4;
    if instances::names().any(|name| name == written) {
        return None;
    }
    if written.is_empty() {
        return Some("expected an instance type, e.g. ml.p5.48xlarge".to_owned());
    }
    let none = format!("`{written}` is not a SageMaker training instance type with accelerators");
    if written.contains([' ', ';']) {
        return Some(format!("{none}; a comma separates types, e.g. ml.p4d.24xlarge,ml.p5.48xlarge"));
    }
    let family: Vec<&str> = instances::names().filter(|name| name.contains(written)).take(MOST + 1).collect();
    let near = text::nearest(written, instances::names());
    Some(match (family.len(), near) {
        (1..=MOST, _) => format!("{none}; did you mean {}?", text::backtick_list(&family, "or")),
        (0, Some(near)) => format!("{none}; did you mean `{near}`?"),
        _ => format!("{none}; `trainc catalog instances` lists them"),
    })
}

/// Returns whether a word is an instance type, or is meant as one, and not a path.
fn is_like_instance(word: &str) -> bool {
    word.starts_with("ml.") && !word.contains('/') && !word.ends_with(".kdl") && !Path::new(word).exists()
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let manifests = match args.input.named.paths("tune") {
        Ok(manifests) => manifests,
        Err(text) => {
            io.note_colored(&text);
            return exit::USAGE;
        }
    };
    if let Some(word) = manifests.iter().find(|word| is_like_instance(word)) {
        let types: Vec<&str> =
            args.instances.iter().flat_map(|types| types.iter()).chain([word]).map(String::as_str).collect();
        let types = types.join(",");
        io.note(&format!(
            "error: `{word}` is not a manifest: separate instance types with a comma: --instances {types}\n"
        ));
        return exit::USAGE;
    }
    if let Err(why) = args.input.overlay.read_runs(io, &manifests) {
        io.note(&why);
        return exit::USAGE;
    }
    let options = args.input.overlay.options(io, false);
    let Some(mut held) = LoadedManifest::load_single(&manifests, &options) else {
        return report_no_manifest(io, global, &compile_all(&manifests, &options));
    };
    let set = held.compile(&options);
    let Some((base, plan)) = set
        .manifests
        .first()
        .and_then(|manifest| Some((&manifest.compiled, manifest.compiled.plan.as_ref()?)))
    else {
        return report_no_manifest(io, global, &set);
    };
    let limits = Limits {
        instances: args.instances.iter().flat_map(|types| types.iter().cloned()).collect(),
        max_nodes: args.max_nodes,
        max_usd: args.max_usd,
        deadline_seconds: args.deadline.map(|deadline| deadline.as_secs_f64()),
        prices: options.prices.clone(),
        discount: options.discount,
    };
    let constants = options.constants.as_ref().unwrap_or_else(|| Constants::shipped());
    let space = Space::from_plan(plan, &limits, constants, &can_run_on);
    if let Ok(all) = &space
        && base.problems.errors() == 0
        && let Err(why) = search(all, &limits, constants)
    {
        // Nothing ranks other machines, so only those of the manifest are shown.
        let limits = limits.on_written_machines(plan);
        let own = Space::from_plan(plan, &limits, constants, &can_run_on);
        let space = own.as_ref().unwrap_or(all);
        let unranked = unranked_layouts(&mut held, &options, base, space, (&limits, constants));
        let found = UnrankedOutput::new(base.job.as_deref(), why.to_string(), unranked);
        match args.output.as_str() {
            "json" => io.print_json(&found.json()),
            "markdown" => io.print_unwrapped(&found.markdown()),
            _ => io.print(&found.human(io.width, io.today_in_days())),
        }
        if let Some(file) = &args.report {
            let file = file.display();
            io.note(&format!("note: `{file}` is not written: the page draws time against cost\n"));
        }
        io.note(&found.note(plan, &held.path));
        return match args.write {
            Some(number) => write_unranked(io, &mut held, &options, space, &found, number),
            None => exit::MANIFEST,
        };
    }
    let searched = space.and_then(|space| search(&space, &limits, constants).map(|points| (space, points)));
    let (space, points) = match searched {
        Ok(found) => found,
        Err(why) => {
            let cause = match base.problems.errors() {
                0 => String::new(),
                _ => problems(&set, Format::Human, io, io.color, global),
            };
            io.note_colored(&format!("{cause}error: nothing to search: {why}\n"));
            return exit::MANIFEST;
        }
    };
    let judged = check_layouts(&mut held, &options, base, &space, points);
    let job = base.job.as_deref().unwrap_or(&held.path);
    let page = output::Page::new(job, &space, &limits, constants, &judged, args.next);
    match args.output.as_str() {
        "json" => io.print_json(&page.json()),
        "markdown" => io.print_unwrapped(&page.markdown()),
        _ => {
            io.print(&page.human(io.width, io.today_in_days()));
            if let Some(next) = next_command(args, &held.path, &judged, &space) {
                io.print(&format!("next   {next}\n"));
            }
        }
    }
    if let Some(file) = &args.report {
        let pictures =
            report::html::pareto_front(&chart::front(job, &held.path, &space, &judged, page.lost()));
        if let Err(error) = fs::write(file, pictures) {
            let why = trainc_project::files::describe(&error);
            io.note(&format!("error: `{}` cannot be written: {why}\n", file.display()));
            return exit::USAGE;
        }
        io.note(&format!("wrote {}\n", file.display()));
    }
    if judged.front.is_empty() {
        let (fit, within) = (judged.count_fitting(), judged.count_within_bounds());
        io.note(&match (fit, within) {
            (0, _) => "note: no layout of the space fits\n".to_owned(),
            (_, 0) => format!(
                "note: {} and {} {}\n{}",
                trainc_diag::text::count(fit as u64, "layout") + if fit == 1 { " fits" } else { " fit" },
                if fit == 1 { "is" } else { "all are" },
                judged.describe_missed_bounds(),
                match judged.site_without_price() {
                    // Layouts with more nodes have no price either.
                    Some(site) => format!("help: {}\n", space.describe_missing_price(site)),
                    None => describe_more_nodes(
                        more_nodes(&space, &limits, constants, &can_run_on),
                        space.has_all_types
                    ),
                }
            ),
            _ => "note: no layout of the space fits, passes every check and keeps the bounds\n".to_owned(),
        });
        return exit::MANIFEST;
    }
    match args.write {
        Some(number) => write_ranked(io, &mut held, &options, &space, &judged, number),
        None => exit::DONE,
    }
}

/// Returns the command that follows the list of layouts: the same search with `--write`, or the plan if the
/// manifest has the layout that would be written. None after `--write`, and for standard input.
fn next_command(args: &Args, path: &str, judged: &CheckedLayouts, space: &Space) -> Option<String> {
    let first = judged.front.get(judged.first_choice().checked_sub(1)?)?;
    let choice = &judged.points.get(first.at)?.choice;
    if args.write.is_some() || path == "-" {
        return None;
    }
    let next = if space.as_written().is_some_and(|written| written == choice) {
        NextCommand::new("plan")
    } else {
        let types = args.instances.iter().map(|types| format!("--instances {}", types.join(",")));
        let nodes = args.max_nodes.map(|most| format!("--max-nodes {most}"));
        let usd = args.max_usd.map(|most| format!("--max-usd {most}"));
        let deadline = args.deadline.map(|most| format!("--deadline {}", duration_text(most)));
        let bounds = types.chain(nodes).chain(usd).chain(deadline);
        NextCommand::new("tune").flags(bounds).flag("--write")
    };
    Some(Invocation::new(quote(path), args.input.overlay.flags()).command_line(&next))
}

/// Writes the layout of that number, or the default choice, into the manifest, if the edited text gives the
/// same plan as shown.
fn write_ranked(
    io: &mut Io,
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    judged: &CheckedLayouts,
    number: Option<usize>,
) -> u8 {
    let asked = number.is_some();
    let number = number.unwrap_or_else(|| judged.first_choice());
    let chosen = number.checked_sub(1).and_then(|at| judged.front.get(at));
    let Some((sound, point)) = chosen.and_then(|sound| Some((sound, judged.points.get(sound.at)?))) else {
        io.note(&format!("error: there is no layout {number}: {} are shown\n", judged.front.len()));
        return exit::USAGE;
    };
    let put = match put_layout(io, held, options, space, &point.choice, &sound.compiled) {
        Ok(put) => put,
        Err(code) => return code,
    };
    // A faster layout that certainly fits is only passed over for lack of a price.
    let before = judged.front.iter().take(number.saturating_sub(1));
    let passed_over = before.filter_map(|sound| judged.points.get(sound.at)).any(Point::surely_fits);
    let why = match (asked, point.surely_fits()) {
        (true, _) => "",
        (false, true) if passed_over => ", the fastest that surely fits and has a price",
        (false, true) => ", the fastest that surely fits",
        (false, false) => ", the fastest; none surely fits",
    };
    io.note(&describe_put(put, &held.path, number, why));
    if let Some(high) = sound.high_memory_if_tight() {
        io.note(&describe_tight_memory(high, point.capacity_bytes));
    }
    exit::DONE
}

/// Writes the layout of that number of those that are not ranked.
fn write_unranked(
    io: &mut Io,
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    found: &UnrankedOutput,
    number: Option<usize>,
) -> u8 {
    let (number, row) = match found.chosen(number) {
        Ok(chosen) => chosen,
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    match put_layout(io, held, options, space, &row.fitting.choice, &row.compiled) {
        Ok(put) => io.note(&describe_put(put, &held.path, number, "")),
        Err(code) => return code,
    }
    if let Some(high) = row.exceeding_high_bytes() {
        io.note(&describe_tight_memory(high, row.fitting.capacity_bytes));
    }
    exit::DONE
}

/// Writes a layout, or prints why it is not written, with the exit code.
fn put_layout(
    io: &mut Io,
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    choice: &Choice,
    shown: &Compiled,
) -> Result<Put, u8> {
    write_layout(held, options, space, choice, shown).map_err(|why| {
        io.note(&describe_not_written(&why, &held.path, options));
        if matches!(why, NotWritten::NoFile | NotWritten::Unwritable(_)) {
            exit::USAGE
        } else {
            exit::MANIFEST
        }
    })
}

/// Returns the help if no layout is within the bounds.
fn describe_more_nodes(found: Option<MoreNodes>, has_all_types: bool) -> String {
    let rest = if has_all_types {
        "move the bounds"
    } else {
        "compare other types with `--instances`, or move the bounds"
    };
    match found {
        Some(MoreNodes::Kept { nodes, layouts }) => format!(
            "help: `--max-nodes {nodes}`: {} of that space {} and {} the bounds\n",
            trainc_diag::text::count(layouts as u64, "layout"),
            if layouts == 1 { "fits" } else { "fit" },
            if layouts == 1 { "keeps" } else { "keep" }
        ),
        Some(MoreNodes::Missed { nodes }) => format!("help: up to {nodes} nodes none does: {rest}\n"),
        None => format!("help: {rest}\n"),
    }
}

/// Reports that the arguments do not name exactly one valid manifest.
fn report_no_manifest(io: &mut Io, global: &Global, set: &Set) -> u8 {
    if set.manifests.len() > 1 {
        io.note("error: tune takes one manifest\n");
        return exit::USAGE;
    }
    let text = problems(set, Format::Human, io, io.color, global);
    io.note_colored(&text);
    exit::MANIFEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_instance_type_is_named() {
        assert_eq!(
            &*instances("ml.p4d.24xlarge, ml.p5.48xlarge").unwrap(),
            ["ml.p4d.24xlarge", "ml.p5.48xlarge"]
        );
        let wrong = instances("p4d,ml.p5.48xlarge,ml.p9.48xlarge").unwrap_err();
        assert!(
            wrong.contains("`p4d` is not") && wrong.contains("did you mean `ml.p4d.24xlarge`"),
            "{wrong}"
        );
        assert!(
            wrong.contains("`ml.p9.48xlarge` is not") && !wrong.contains("`ml.p5.48xlarge` is not"),
            "{wrong}"
        );
        assert!(instances("ml.p4d.24xlarge ml.p5.48xlarge").unwrap_err().contains("a comma separates types"));
        assert_eq!(
            instances("ml.p4d.24xlarge,").unwrap_err(),
            "expected an instance type, e.g. ml.p5.48xlarge"
        );
    }
}
