//! `trainc catalog`.

use super::args::{Global, problems};
use super::completion_values::any_text;
use super::exit;
use super::io::Io;
use super::manifests::compile_all;
use super::table::table;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use trainc_catalog::listing::{self, Listing};
use trainc_catalog::{generic_listing, models, rules};
use trainc_diag::text;
use trainc_diag::{Code, Format, Status, page};
use trainc_ir::Plan;
use trainc_plan::Options;

/// List the known instances, images, models, prices and limits
#[derive(clap::Args, Debug)]
#[command(
    after_help = "`trainc catalog permissions [plan|emit|apply|watch|stop|destroy|import]` prints the least-privilege IAM policy for these commands; with `--manifest`, restricted to the buckets, keys and roles of these jobs.\n\nWith `-v` or `-o json` each row has its source and date.\n\nExamples:\n  trainc catalog\n  trainc catalog permissions apply\n  trainc catalog permissions apply --manifest jobs/\n  trainc catalog instances -v\n  trainc catalog models llama\n  trainc catalog prices -o json"
)]
pub(super) struct Args {
    /// Name of a table, e.g. instances, accelerators, images, models, prices, regions, quotas, limits, fsx, support, rules
    /// or permissions [default: lists all tables]
    #[arg(value_name = "TABLE", value_parser = any_text(names), hide_possible_values = true)]
    table: Option<String>,
    /// Only rows that contain this text
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// With `permissions`: restrict the policy to the jobs of this manifest or directory
    #[arg(long = "manifest", value_name = "MANIFEST")]
    manifests: Vec<String>,
    /// Output format: human or json
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Width of a table that is written to a file or a pipe.
const PIPED: usize = 120;

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let Some(name) = args.table.as_deref() else {
        return print(io, global, tables(), args);
    };
    // Some tables used to have underscores.
    let name = name.replace('_', "-");
    let name = name.as_str();
    if name == "permissions" {
        return permissions(io, global, args);
    }
    if !args.manifests.is_empty() {
        io.note("error: `--manifest` is only valid with `trainc catalog permissions`\n");
        return exit::USAGE;
    }
    let listing = match name {
        "models" => Some(models_listing()),
        "rules" => Some(rules_listing()),
        _ => listing::by_table_name(name),
    };
    if let Some(mut listing) = listing {
        listing.add_provenance();
        return print(io, global, listing, args);
    }
    let known = names();
    let hint = match text::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected one of {}", known.join(", ")),
    };
    io.note(&format!("error: unknown table `{name}`; {hint}\n"));
    exit::USAGE
}

/// Returns the names of all tables.
fn names() -> Vec<&'static str> {
    let listed = listing::NAMES.iter().copied().chain(["models", "permissions", "rules"]);
    let all: BTreeSet<&str> = listed.chain(generic_listing::names()).collect();
    all.into_iter().collect()
}

/// Prints the IAM policy for one command or all, for any job or those of `--manifest`.
fn permissions(io: &mut Io, global: &Global, args: &Args) -> u8 {
    use trainc_apply::calls::Command;
    use trainc_apply::permissions::{PolicyScope, policy};
    let commands: Vec<Command> = match args.filter.as_deref() {
        None => Command::ALL.to_vec(),
        Some(word) => Command::ALL.iter().copied().filter(|one| one.word() == word).collect(),
    };
    if commands.is_empty() {
        let known: Vec<&str> = Command::ALL.iter().map(|one| one.word()).collect();
        io.note(&format!("error: expected one of {}\n", known.join(", ")));
        return exit::USAGE;
    }
    if args.manifests.is_empty() {
        io.print_json(&trainc_emit::canonical_json::pretty(&policy(&commands, &[PolicyScope::default()])));
        return exit::DONE;
    }
    let set = compile_all(
        &args.manifests,
        &Options { today: io.today.clone(), later_codes: crate::later_codes(), ..Options::default() },
    );
    let plans: Vec<&Plan> =
        set.manifests.iter().filter_map(|one| one.compiled.plan_without_errors()).collect();
    let deployable: Vec<PolicyScope> =
        plans.iter().filter(|plan| plan.deployable).map(|plan| PolicyScope::for_job(plan)).collect();
    if plans.len() < set.manifests.len() {
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note_colored(&text);
        return exit::MANIFEST;
    }
    if deployable.is_empty() {
        io.note("error: none of these jobs runs on SageMaker: no permissions are required\n");
        return exit::USAGE;
    }
    io.print_json(&trainc_emit::canonical_json::pretty(&policy(&commands, &deployable)));
    exit::DONE
}

/// Returns the error for a filter that matches no row, with the most similar name.
fn no_match(name: &str, filter: &str, rows: &[Vec<String>]) -> String {
    // Also compared without the owner of a model and the `ml.` of an instance type.
    let names = rows.iter().filter_map(|row| row.first()).flat_map(|name| {
        let short = name.rsplit('/').next().unwrap_or(name);
        [name.as_str(), short, name.strip_prefix("ml.").unwrap_or(name)]
    });
    let hint = match text::nearest(filter, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`trainc catalog {name}` lists all"),
    };
    format!("error: no row of `{name}` contains `{filter}`; {hint}\n")
}

fn print(io: &mut Io, global: &Global, mut listing: Listing, args: &Args) -> u8 {
    let mut none = None;
    if global.verbose {
        listing.add_sources();
    }
    if let Some(filter) = &args.filter {
        let wanted = filter.to_lowercase();
        let keep: Vec<bool> = listing
            .rows
            .iter()
            .map(|row| row.iter().any(|cell| cell.to_lowercase().contains(&wanted)))
            .collect();
        if let Some(name) = args.table.as_deref().filter(|_| !keep.contains(&true)) {
            none = Some(no_match(name, filter, &listing.rows));
        }
        let mut at = keep.iter();
        listing.rows.retain(|_| at.next().copied().unwrap_or(true));
        if let Value::Array(items) = &mut listing.json {
            let mut at = keep.iter();
            items.retain(|_| at.next().copied().unwrap_or(true));
        }
    }
    if args.output == "json" {
        let text = serde_json::to_string_pretty(&listing.json).unwrap_or_default();
        io.print_json(&format!("{text}\n"));
    } else if none.is_none() {
        io.print(&table(&listing, super::columns().unwrap_or(PIPED)));
    }
    match none {
        Some(words) => {
            io.note(&words);
            exit::USAGE
        }
        None => exit::DONE,
    }
}

fn tables() -> Listing {
    let mut listing = listing::tables_listing();
    for (name, all) in [("models", models_listing()), ("rules", rules_listing())] {
        let rows = all.rows.len();
        listing.rows.push(vec![name.to_owned(), rows.to_string()]);
        if let Value::Array(items) = &mut listing.json {
            items.push(json!({ "table": name, "rows": rows }));
        }
    }
    listing.rows.sort();
    listing
}

fn models_listing() -> Listing {
    let rows: Vec<models::ModelRow> = models::ids().filter_map(models::find).collect();
    Listing {
        headers: vec![
            "model",
            "architecture",
            "parameters",
            "layers",
            "hidden",
            "heads",
            "kv",
            "vocab",
            "source",
            "date",
        ],
        rows: rows
            .iter()
            .map(|row| {
                let a = &row.architecture;
                vec![
                    row.name.to_owned(),
                    a.family.name().to_owned(),
                    text::group_digits(row.parameters),
                    a.layers.to_string(),
                    a.hidden.to_string(),
                    a.heads.to_string(),
                    a.kv_heads.to_string(),
                    a.vocab.to_string(),
                    row.source.clone(),
                    row.date.clone(),
                ]
            })
            .collect(),
        json: Value::Array(
            rows.iter()
                .map(|row| {
                    let a = &row.architecture;
                    json!({
                        "name": row.name, "aliases": row.aliases, "architecture": a.family.name(),
                        "class": row.class.name(), "parameters": row.parameters, "layers": a.layers,
                        "hidden": a.hidden, "heads": a.heads, "kv_heads": a.kv_heads, "head_dim": a.head_dim,
                        "ffn": a.ffn, "vocab": a.vocab, "positions": a.positions, "experts": a.experts,
                        "active_experts": a.active_experts, "tied": a.tied, "license": row.license,
                        "gated": row.gated, "source": row.source, "date": row.date,
                    })
                })
                .collect(),
        ),
    }
}

fn rules_listing() -> Listing {
    let codes: Vec<_> = crate::codes().iter().filter(|code| code.status == Status::Active).collect();
    // The page names its source, or the row does.
    let of = |code: &Code| {
        let row = rules::get(code.id);
        let source = page::rule_source(code.page).or_else(|| row.as_ref()?.source.clone());
        (source, row.map(|row| row.date))
    };
    Listing {
        headers: vec!["code", "name", "severity", "what is wrong"],
        rows: codes
            .iter()
            .map(|code| [code.id, code.name, code.severity.word(), code.summary].map(str::to_owned).to_vec())
            .collect(),
        json: Value::Array(
            codes
                .iter()
                .map(|code| {
                    let (source, date) = of(code);
                    json!({
                        "code": code.id, "name": code.name, "severity": code.severity.word(), "summary": code.summary,
                        "why": page::rationale(code.page), "source": source, "date": date,
                    })
                })
                .collect(),
        ),
    }
}
