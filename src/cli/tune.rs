//! `trainc tune`.

use super::args::{Global, Input, problems};
use super::exit;
use super::io::Io;
use super::manifests::{Manifest, compile_all};
use crate::diag::Format;
use crate::predict::Constants;
use crate::report::html::{Choice, Front, Spot};
use crate::syntax::edit::{self, PathStep};
use crate::text;
use crate::tune::{Candidate, Space, front, search};
use crate::{Compiled, Options, report};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Search the legal layouts of a job and show those that no other beats in time and money
///
/// Micro-batch, accumulation, shard degree, recomputation, nodes and instance types vary; the global batch stays. Only
/// layouts that are predicted to fit and that pass every check are shown.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc tune job.kdl\n  trainc tune job.kdl --instances ml.p4d.24xlarge,ml.p5.48xlarge --max-nodes 32 --max-usd 5000\n  trainc tune job.kdl --report layouts.html\n  trainc tune job.kdl --write"
)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Instance types to compare; the manifest's own where not given
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    instances: Vec<String>,
    /// Most nodes; the manifest's own where not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    max_nodes: Option<u64>,
    /// Most US dollars for the run
    #[arg(long, value_name = "USD")]
    max_usd: Option<f64>,
    /// Longest run, as 12h or 2d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<f64>,
    /// Put the fastest of those shown into the manifest, keeping comments and formatting
    #[arg(long)]
    write: bool,
    /// Write a page with a picture of time against cost: one HTML file that loads nothing
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// How to write: human or json
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

fn duration(written: &str) -> Result<f64, String> {
    let (number, unit) = written.split_at(written.trim_end_matches(char::is_alphabetic).len());
    let unit = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err("expected a duration, as 90m, 12h or 2d".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{number}` is no number"))?;
    if number > 0.0 { Ok(number * unit) } else { Err("expected more than nothing".to_owned()) }
}

/// A candidate that its own compilation bears out.
struct Sound {
    candidate: Candidate,
    compiled: Compiled,
}

/// Layouts that are shown at most.
const SHOWN: usize = 12;

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let options = args.input.options(io, false);
    let set = compile_all(&args.input.named.manifests, &options);
    let [manifest] = set.manifests.as_slice() else {
        io.note("error: tune takes one manifest\n");
        return exit::USAGE;
    };
    let Some(plan) = manifest.compiled.plan.as_ref() else {
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note(&text);
        return exit::MANIFEST;
    };
    let space = Space {
        instances: args.instances.clone(),
        max_nodes: args.max_nodes.or(plan.mesh.as_ref().map(|mesh| mesh.nodes)).unwrap_or(1),
        max_usd: args.max_usd,
        deadline_seconds: args.deadline,
    };
    let constants = options.constants.as_ref().unwrap_or_else(|| Constants::shipped());
    let mut candidates = match search(plan, &space, constants) {
        Ok(candidates) => candidates,
        Err(why) => {
            io.note(&format!("error: nothing to search: {why}\n"));
            return exit::MANIFEST;
        }
    };
    let searched = candidates.len();
    let sound = sound(&args.input.named.manifests, &options, &mut candidates);
    if args.output == "json" {
        let text = serde_json::to_string_pretty(&json!({
            "format_version": "1.0",
            "job": manifest.compiled.job,
            "searched": searched,
            "front": sound.iter().map(entry).collect::<Vec<_>>(),
        }));
        io.print(&(text.unwrap_or_default() + "\n"));
    } else {
        io.print(&human(manifest.compiled.job.as_deref().unwrap_or(&manifest.path), searched, &sound));
    }
    if let Some(file) = &args.report {
        let page = report::html::front(&pictured(manifest, &candidates, &sound));
        if let Err(error) = fs::write(file, page) {
            let why = super::world::describe(&error);
            io.note(&format!("error: `{}` cannot be written: {why}\n", file.display()));
            return exit::USAGE;
        }
        io.note(&format!("wrote {}\n", file.display()));
    }
    let Some(best) = sound.first() else {
        io.note("note: no layout of the space fits, passes every check and keeps the bounds\n");
        return exit::MANIFEST;
    };
    if args.write {
        return write(io, &args.input.named.manifests, best);
    }
    exit::DONE
}

/// The front whose members pass every check; a member that does not gives its place to those that it beat.
fn sound(manifests: &[String], options: &Options, candidates: &mut Vec<Candidate>) -> Vec<Sound> {
    let mut known: Vec<Sound> = Vec::new();
    loop {
        let places = front(candidates);
        let mut bad = None;
        for at in places.iter().take(SHOWN) {
            let Some(candidate) = candidates.get(*at) else { continue };
            if known.iter().any(|one| one.candidate == *candidate) {
                continue;
            }
            let mut options = options.clone();
            options.choices.sets.extend(candidate.sets.iter().map(|(path, value)| format!("{path}={value}")));
            let set = compile_all(manifests, &options);
            match set.manifests.into_iter().next() {
                Some(one) if one.compiled.problems.errors() == 0 => {
                    known.push(Sound { candidate: candidate.clone(), compiled: one.compiled });
                }
                _ => {
                    bad = Some(*at);
                    break;
                }
            }
        }
        let Some(bad) = bad else {
            let shown: Vec<Candidate> =
                places.iter().take(SHOWN).filter_map(|at| candidates.get(*at).cloned()).collect();
            known.retain(|one| shown.contains(&one.candidate));
            known.sort_by(|a, b| a.candidate.seconds.total_cmp(&b.candidate.seconds));
            return known;
        };
        candidates.remove(bad);
    }
}

/// What was found, as the page draws it: all by the search's own measure of time and cost.
fn pictured(manifest: &Manifest, candidates: &[Candidate], sound: &[Sound]) -> Front {
    let is_priced = candidates.iter().any(|one| one.usd.is_some());
    let spot = |one: &Candidate| {
        let cost = if is_priced { one.usd? } else { one.seconds * one.nodes as f64 / 3_600.0 };
        Some(Spot { seconds: one.seconds, cost })
    };
    let choice = |one: &Sound| {
        let (run, speed) = (one.compiled.prediction.run.as_ref(), one.compiled.prediction.speed.as_ref());
        Some(Choice {
            spot: spot(&one.candidate)?,
            cluster: format!("{} × {}", text::group(one.candidate.nodes), one.candidate.instance),
            sets: one.candidate.sets.iter().map(|(path, value)| format!("{path}={value}")).collect(),
            step_seconds: speed.map_or(one.candidate.step_seconds, |speed| speed.step_seconds),
            run_seconds: run.map(|run| run.seconds),
            cost_usd: run.and_then(|run| run.cost_usd),
            memory_bytes: one.compiled.prediction.memory.as_ref().map(|memory| memory.per_gpu_bytes),
        })
    };
    Front {
        job: manifest.compiled.job.clone().unwrap_or_else(|| manifest.path.clone()),
        manifest: manifest.path.clone(),
        best: sound.iter().filter_map(choice).collect(),
        beaten: candidates
            .iter()
            .filter(|one| !sound.iter().any(|other| other.candidate == **one))
            .filter_map(spot)
            .collect(),
        written: candidates.iter().find(|one| one.sets.is_empty()).and_then(spot),
        is_priced,
    }
}

fn entry(one: &Sound) -> serde_json::Value {
    let (run, speed) = (one.compiled.prediction.run.as_ref(), one.compiled.prediction.speed.as_ref());
    json!({
        "sets": one.candidate.sets.iter().map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>(),
        "instance": one.candidate.instance,
        "nodes": one.candidate.nodes,
        "step_seconds": speed.map(|speed| speed.step_seconds),
        "seconds": run.map(|run| run.seconds),
        "cost_usd": run.and_then(|run| run.cost_usd),
        "memory_bytes": one.compiled.prediction.memory.as_ref().map(|memory| memory.per_gpu_bytes),
    })
}

fn human(job: &str, searched: usize, sound: &[Sound]) -> String {
    let mut out = format!(
        "{job}: {} fit; those that none beats in time and money, the fastest first\n\n",
        text::count(searched as u64, "layout")
    );
    for one in sound {
        let prediction = &one.compiled.prediction;
        let (Some(run), Some(speed)) = (&prediction.run, &prediction.speed) else { continue };
        let hours = run.seconds / 3_600.0;
        let usd = run.cost_usd.map_or_else(|| "price not known".to_owned(), text::dollars);
        let memory = prediction.memory.as_ref().map_or(0.0, |memory| memory.per_gpu_bytes / 1_073_741_824.0);
        let sets: Vec<String> =
            one.candidate.sets.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let change = if sets.is_empty() { "as written".to_owned() } else { sets.join(" ") };
        let _ = writeln!(
            out,
            "  {hours:>8.2} h  {usd:>10}  {:>7.2} s a step  {memory:>5.1} GiB  {change}",
            speed.step_seconds
        );
    }
    out
}

/// Edits the manifest: only the values that the candidate changes.
fn write(io: &mut Io, manifests: &[String], best: &Sound) -> u8 {
    let [path] = manifests else { return exit::USAGE };
    let path = Path::new(path);
    let Ok(mut text) = fs::read_to_string(path) else {
        io.note("error: the manifest is no file that can be written\n");
        return exit::USAGE;
    };
    for (place, value) in &best.candidate.sets {
        match edited(&text, place, value) {
            Ok(new) => text = new,
            Err(error) => {
                io.note(&format!("error: `{place}` cannot be put into `{}`: {error}\n", path.display()));
                return exit::MANIFEST;
            }
        }
    }
    if let Err(error) = fs::write(path, text) {
        io.note(&format!("error: `{}` cannot be written: {error}\n", path.display()));
        return exit::USAGE;
    }
    io.note(&format!("wrote {}\n", path.display()));
    exit::DONE
}

fn edited(text: &str, place: &str, value: &str) -> Result<String, edit::EditError> {
    let (node, child) = place.split_once('.').unwrap_or((place, ""));
    let quoted = if value.starts_with('#') || value.chars().all(|c| c.is_ascii_digit()) {
        value.to_owned()
    } else {
        format!("\"{value}\"")
    };
    let path = [PathStep::named("job"), PathStep::named(node)];
    let done = match place {
        "cluster.instance" => edit::set_argument(text, &path, 0, &quoted)?,
        "cluster.nodes" => edit::set_property(text, &path, "nodes", &quoted)?,
        _ => {
            let deeper = [PathStep::named("job"), PathStep::named(node), PathStep::named(child)];
            match edit::set_argument(text, &deeper, 0, &quoted) {
                Err(edit::EditError::NotFound(_)) => {
                    edit::insert_child(text, &path, &format!("{child} {quoted}"))?
                }
                other => other?,
            }
        }
    };
    Ok(done.text)
}

#[cfg(test)]
mod tests {
    use super::edited;

    #[test]
    fn an_edit_keeps_comments_and_adds_what_is_missing() {
        let text = "// why\njob \"a\" {\n    cluster \"ml.p4d.24xlarge\" nodes=2 // two\n    train {\n        micro-batch 1\n    }\n}\n";
        let text = edited(text, "cluster.nodes", "4").unwrap();
        let text = edited(&text, "cluster.instance", "ml.p5.48xlarge").unwrap();
        let text = edited(&text, "train.micro-batch", "8").unwrap();
        let text = edited(&text, "train.activation-checkpointing", "#true").unwrap();
        assert_eq!(
            text,
            "// why\njob \"a\" {\n    cluster \"ml.p5.48xlarge\" nodes=4 // two\n    train {\n        micro-batch 8\n        activation-checkpointing #true\n    }\n}\n"
        );
    }
}
