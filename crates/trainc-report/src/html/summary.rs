//! The text of the page: title, key figures, verdict, and the tables without pictures.

use super::format::format_duration;
use super::memory::gib;
use super::page::{Cell, Head, Page, Problem, Section, State, Table, Tile, Verdict, text_column};
use crate::json::Document;
use crate::{Subject, cost, origins, resources, sections, speed as speed_text};
use trainc_diag::source::SourceMap;
use trainc_diag::text;
use trainc_diag::{Diagnostic, FailureKind, Severity};
use trainc_ir::Plan;
use trainc_ir::price::describe_origin;
use trainc_predict::Interval;

/// Returns a page with title, figures and verdict, without sections.
pub(super) fn page(subject: &Subject, document: &Document) -> Page {
    let name = subject.job.unwrap_or(subject.path);
    let digest = document.digest.as_deref().map(|digest| digest.get(..8).unwrap_or(digest));
    let mut kicker = "training job".to_owned();
    if let Some(digest) = digest {
        kicker += &format!(" · digest {digest} · planned offline, not compared with an account");
    }
    Page {
        title: format!("{name}: plan"),
        kicker,
        heading: name.to_owned(),
        lead: subject.plan.map(|plan| lead_sentence(subject, document, plan)).unwrap_or_default(),
        tiles: tiles(subject, document),
        verdict: Some(verdict(subject, document)),
        sections: Vec::new(),
        footer: footer(document),
    }
}

/// Describes model, instances and region in a sentence.
fn lead_sentence(subject: &Subject, document: &Document, plan: &Plan) -> String {
    let model = document.model.as_ref().map(|model| {
        let billions = model.parameters as f64 / 1e9;
        let size = if billions >= 1.0 {
            format!("{} billion", text::short_number(billions))
        } else {
            format!("{} million", text::short_number(billions * 1e3))
        };
        let what = if plan.job.adapter.is_some() { "an adapter of " } else { "" };
        format!("Trains {what}{}, {size} parameters", model.name)
    });
    let cluster = &document.cluster;
    let machines = match (&cluster.instance, cluster.nodes, &plan.mesh, &cluster.gpu.name) {
        (Some(instance), Some(nodes), Some(mesh), Some(gpu)) => Some(format!(
            "on {nodes} × {instance} with {} ({gpu})",
            text::count(mesh.gpus(), plan.chip_noun())
        )),
        (Some(instance), Some(nodes), _, _) => Some(format!("on {nodes} × {instance}")),
        _ => None,
    };
    let region = subject.sagemaker_plan().and(document.region.as_ref());
    let place = region.map(|region| match &document.account {
        Some(account) => format!("in {region}, account {account}"),
        None => format!("in {region}, in the account of the credentials at apply"),
    });
    let runs = model.is_none().then(|| "Runs".to_owned()).filter(|_| machines.is_some());
    let parts: Vec<String> = [model, runs, machines, place].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { parts.join(" ") + "." }
}

fn unknown(label: &'static str, document: &Document, member: &str) -> Tile {
    let note = document.notes.iter().find_map(|note| note.strip_prefix(member)?.strip_prefix(": "));
    let brief = note.and_then(|why| why.split("; ").next());
    let value = brief.map_or_else(|| "not known".to_owned(), |why| format!("not known: {why}"));
    Tile { label, value, unit: String::new(), under: Vec::new(), unknown: true }
}

/// Returns the tiles: time and cost with their intervals, the most that it can cost with the budget, memory and
/// throughput. Without a model to predict from, those without a figure are left out.
fn tiles(subject: &Subject, document: &Document) -> Vec<Tile> {
    let names_model = subject.plan.is_none_or(Plan::names_model);
    let (run, memory, speed) = (&document.run, &document.memory, &document.speed);
    let tile = |label, value: String, unit: &str, under: Vec<String>| Tile {
        label,
        value,
        unit: unit.to_owned(),
        under,
        unknown: false,
    };
    let time = match (run.seconds, run.interval) {
        (Some(seconds), range) => {
            let mut under: Vec<String> = range
                .iter()
                .map(|range| format!("{} to {}", format_duration(range.low), format_duration(range.high)))
                .collect();
            under.extend(run.steps.map(|steps| text::count(steps, "step")));
            tile("run time", format_duration(seconds), "", under)
        }
        _ => unknown("run time", document, "run.seconds"),
    };
    let between = |ends: Option<&Interval>| -> Vec<String> {
        ends.map(|ends| cost::between(ends, run.most_usd)).into_iter().collect()
    };
    let mut cost = match (run.cost_usd, run.on_demand_usd) {
        (Some(usd), _) => tile("run cost", text::dollars(usd), "", between(run.cost_usd_interval.as_ref())),
        (None, Some(usd)) => {
            let mut under = between(run.on_demand_usd_interval.as_ref());
            under.push("at the on-demand price: spot costs less".to_owned());
            tile("run cost", text::dollars(usd), "", under)
        }
        (None, None) => unknown("run cost", document, "run.cost_usd"),
    };
    cost.under.extend(document.price.as_ref().map(|price| price.describe_origin_and_age(None)));
    let monthly: f64 = document.after_end.iter().filter_map(|one| one.usd_per_month).sum();
    if monthly > 0.0 {
        let priced = document.after_end.iter().filter(|one| one.usd_per_month.is_some());
        let date = priced.filter_map(|one| one.price_date.as_deref()).min();
        let date = date.map_or_else(String::new, |date| format!(" ({})", describe_origin(Some(date), "")));
        cost.under.push(format!("after the end {} a month{date}", text::dollars(monthly)));
    }
    let mut most = run.most_usd.map(|most| {
        let max_run = subject.plan.and_then(cost::max_run_seconds);
        let until = max_run.map(|seconds| format!("if it runs until max-run, {}", format_duration(seconds)));
        let budget = subject.plan.and_then(|plan| cost::budget(document, plan));
        tile("cost at most", text::dollars(most), "", until.into_iter().chain(budget).collect())
    });
    if let Some(most) = most.as_mut().filter(|_| cost.unknown && !names_model) {
        most.under.append(&mut cost.under);
    }
    let memory = match (memory.per_gpu_bytes, memory.interval) {
        (Some(bytes), Some(range)) => {
            let unit = memory
                .capacity_bytes
                .map_or_else(|| "GiB".to_owned(), |capacity| format!("of {}", gib(capacity as f64)));
            let low = gib(range.low);
            let under = vec![format!("{} to {}", low.trim_end_matches(" GiB"), gib(range.high))];
            tile("memory per GPU", gib(bytes as f64).trim_end_matches(" GiB").to_owned(), &unit, under)
        }
        _ => unknown("memory per GPU", document, "memory"),
    };
    let speed = match (speed.tokens_per_second, speed.step_seconds, speed.interval) {
        (Some(rate), Some(step), Some(range)) => {
            let at = |seconds: f64| super::axis::compact(rate * step / seconds);
            let mut under = vec![format!("{} to {}", at(range.high), at(range.low))];
            under.extend(speed_text::tflops_line(document, "GPU"));
            tile("throughput", super::axis::compact(rate), "tokens/s", under)
        }
        _ => unknown("throughput", document, "speed"),
    };
    let tiles = [time, cost].into_iter().chain(most).chain([memory, speed]);
    tiles.filter(|tile| names_model || !tile.unknown).collect()
}

/// Returns whether it fits and with what margin, and all problems.
fn verdict(subject: &Subject, document: &Document) -> Verdict {
    let is_memory = |one: &&Diagnostic| one.code.explains.contains(&FailureKind::Memory);
    let allowed = subject.problems.iter().filter(is_memory).find(|one| one.is_allowed());
    let not_predicted = subject.plan.and_then(|plan| sections::not_predicted(plan, document).pop());
    let fit = match not_predicted {
        Some(what) => (State::Open, format!("Not known: {what}.")),
        None => fit_sentence(document),
    };
    let (state, sentence) = match (fit, allowed) {
        ((State::Bad, sentence), Some(_)) => (State::Close, format!("{sentence} The manifest allows it.")),
        (said, _) => said,
    };
    let all = |which: fn(&Diagnostic) -> bool| {
        let mut found: Vec<&Diagnostic> = subject.problems.iter().filter(|one| which(one)).collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.severity));
        found.into_iter().map(|one| problem(subject.sources, one)).collect::<Vec<_>>()
    };
    let problems = all(|one| one.severity > Severity::Note);
    let notes = all(|one| one.severity == Severity::Note);
    let (errors, warnings) = (subject.problems.errors() as u64, subject.problems.warnings() as u64);
    let counts = match (errors, warnings) {
        (0, 0) => "No errors, no warnings.".to_owned(),
        (0, warnings) => format!("No errors, {}.", text::count(warnings, "warning")),
        (errors, 0) => format!("{}.", text::count(errors, "error")),
        (errors, warnings) => {
            format!("{}, {}.", text::count(errors, "error"), text::count(warnings, "warning"))
        }
    };
    let state = if errors > 0 { State::Bad } else { state };
    Verdict { state, sentence, counts, problems, notes }
}

fn fit_sentence(document: &Document) -> (State, String) {
    let memory = &document.memory;
    let (Some(bytes), Some(capacity), Some(fits)) =
        (memory.per_gpu_bytes, memory.capacity_bytes, memory.fits)
    else {
        let why = document.notes.iter().find_map(|note| note.strip_prefix("memory")?.split_once(": "));
        let why = why.map_or_else(String::new, |(_, why)| format!(": {why}"));
        return (State::Open, format!("It is not known if it fits{why}."));
    };
    let (bytes, capacity) = (bytes as f64, capacity as f64);
    let high = memory.interval.as_ref().map_or(bytes, |interval| interval.high);
    let share = format!("{:.0}%", 100.0 * (capacity - bytes).abs() / capacity);
    if !fits {
        return (
            State::Bad,
            format!("Does not fit: a GPU lacks {}, {share} of its memory.", gib(bytes - capacity)),
        );
    }
    let left = format!("{} ({share}) of each GPU are free", gib(capacity - bytes));
    if high > capacity {
        return (
            State::Close,
            format!(
                "May not fit: {left}, but {} are missing at the upper bound of the interval.",
                gib(high - capacity)
            ),
        );
    }
    (State::Good, format!("Fits: {left}, {} at the upper bound of the interval.", gib(capacity - high)))
}

/// Returns a problem with its source line.
fn problem(sources: &SourceMap, one: &Diagnostic) -> Problem {
    let mut notes: Vec<String> = one
        .labels
        .iter()
        .map(|label| format!("{}: {}", origins::format_place(sources, label.span), label.text))
        .collect();
    notes.extend(one.notes.iter().map(ToString::to_string));
    Problem {
        severity: one.severity.word(),
        code: one.code.id,
        message: one.text().into_owned(),
        place: origins::format_place(sources, one.span),
        line: split_source_line(sources, one),
        help: one.help.as_ref().map(ToString::to_string),
        notes,
    }
}

/// Returns the source line of a problem, split at its span; `None` for an empty span.
fn split_source_line(sources: &SourceMap, one: &Diagnostic) -> Option<[String; 3]> {
    let source = sources.get(one.span.source)?;
    let (number, _) = source.line_column(one.span.start);
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    let (start, line) = (source.line_start(index)?, source.line(index)?);
    let at = |offset: u32| line.floor_char_boundary((offset as usize).saturating_sub(start).min(line.len()));
    let (from, to) = (at(one.span.start), at(one.span.end).max(at(one.span.start)));
    if from == to {
        return None;
    }
    let before = line.get(..from)?.trim_start();
    Some([before.to_owned(), line.get(from..to)?.to_owned(), line.get(to..)?.trim_end().to_owned()])
}

/// Returns the section on the job.
pub(super) fn job(document: &Document, plan: &Plan) -> Section {
    let mut rows = sections::job(document, plan);
    rows.push(("batch", sections::batch(plan)));
    rows.push(("length", sections::run_length_lines(plan)));
    let rows = rows
        .into_iter()
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(label, lines)| {
            let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
            vec![label.into(), lines.join("; ").into()]
        })
        .collect();
    let head = vec![text_column("item"), text_column("plan")];
    let table = Table { summary: None, head, rows, has_sum: false, shape: "" };
    Section { id: "job", title: "The job", tables: vec![table], ..Section::default() }
}

/// Returns the section on resources: the action and reason for each, and the role's permissions.
pub(super) fn resources(subject: &Subject, document: &Document) -> Section {
    let mut section = Section { id: "resources", title: "Resources", ..Section::default() };
    if document.resources.is_empty() {
        section.text.push("No resources are created in an account.".to_owned());
        return section;
    }
    let rows = document
        .resources
        .iter()
        .map(|one| {
            let kind = one.kind.word().replace('-', " ");
            vec![one.action.word().into(), kind.into(), Cell::name(&one.name), one.because.as_str().into()]
        })
        .collect();
    let head = vec![text_column("action"), text_column("type"), text_column("name"), text_column("reason")];
    section.tables.push(Table { summary: None, head, rows, has_sum: false, shape: "made" });
    section.tables.extend(policy(subject));
    section
}

/// Returns the table of the role's policy statements; `None` if trainc creates no role.
fn policy(subject: &Subject) -> Option<Table> {
    let statements = resources::statements(subject);
    if statements.is_empty() {
        return None;
    }
    let count = text::count(statements.len() as u64, "statement");
    let rows = statements
        .into_iter()
        .map(|one| {
            vec![
                Cell::name(one.sid.clone()),
                Cell::from(one.because.clone()),
                Cell::name(one.actions.join(", ")),
                Cell::name(one.resources.join(", ")),
            ]
        })
        .collect();
    let head: Vec<Head> =
        ["statement", "reason", "actions", "resources"].into_iter().map(text_column).collect();
    Some(Table { summary: Some(format!("Role permissions: {count}")), head, rows, has_sum: false, shape: "" })
}

/// Returns the section with the origin of every value, collapsed.
pub(super) fn origins_section(subject: &Subject, plan: &Plan) -> Section {
    let rows = origins::all_rows(subject, plan);
    let summary = Some(format!("Where every value comes from: {}", text::count(rows.len() as u64, "value")));
    let rows = rows
        .into_iter()
        .map(|row| vec![Cell::name(row.path), Cell::name(row.value), Cell::from(row.why)])
        .collect();
    let head = vec![text_column("path"), text_column("value"), text_column("origin")];
    Section {
        id: "values",
        title: "Values",
        tables: vec![Table { summary, head, rows, has_sum: false, shape: "" }],
        ..Section::default()
    }
}

fn footer(document: &Document) -> Vec<String> {
    let mut out = vec![format!(
        "Made by trainc {} with catalogue {} from `{}`. The figures are also in plan.json; \
            `trainc explain CODE` explains a code.",
        document.trainc_version, document.catalog_version, document.manifest.path
    )];
    out.extend(document.digest.as_ref().map(|digest| format!("Digest of the job `{digest}`.")));
    out.push("Intervals are 90% intervals. Printing includes the opened details.".to_owned());
    out
}
