//! The plan for a terminal: one screen; with [`Depth::Origins`] also the origin of every value.

use super::bars::{Part, bar};
use super::json::{AfterEnd, Document};
use super::shared_costs::{JobFileSystem, SharedCosts, job_file_systems};
use super::terminal_page::{LABEL, Options, TerminalPage};
use super::{Subject, after_end, cost, links, mesh_picture, origins, problems, sections, speed, verdict};
use std::fmt::Write as _;
use trainc_diag::text;
use trainc_emit::Verb;
use trainc_ir::price::describe_origins;
use trainc_ir::units::GIB;
use trainc_ir::{Override, Plan};
use unicode_width::UnicodeWidthStr as _;

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// One screen.
    Screen,
    /// Also where every value comes from, and every problem.
    Origins,
}

/// Where the problems of the manifest are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problems {
    /// In the plan, in short.
    Here,
    /// In full above the plan, which only counts them.
    Above,
}

/// The longest origin, in characters, that is repeated for each value.
const MOST_REPEATED: usize = 34;

/// Renders the plan of one manifest.
pub fn plan(
    subject: &Subject,
    document: &Document,
    depth: Depth,
    problems: Problems,
    options: Options,
) -> String {
    let mut page = TerminalPage::new(options);
    heading(&mut page, subject, document);
    if let Some(plan) = subject.plan {
        let (style, line) = verdict::verdict(subject, document, plan);
        page.styled("verdict", style, &line);
        for (label, lines) in sections::job(document, plan) {
            lines_of(&mut page, label, &lines);
        }
        if sections::shows_mesh(plan) {
            page.blank();
            mesh(&mut page, plan, document);
        }
        page.blank();
        lines_of(&mut page, "batch", &sections::batch(plan));
        // How the steps follow from tokens or epochs is one of the origins.
        let length = sections::run_length_lines(plan);
        let shown = if depth == Depth::Screen { 1 } else { length.len() };
        lines_of(&mut page, "length", length.get(..shown).unwrap_or(&length));
        memory(&mut page, plan, document);
        step_speed(&mut page, plan, document);
        print_packed(&mut page, "run", &sections::run(document));
        lines_of(&mut page, "not known", &sections::not_predicted(plan, document));
        costs(&mut page, plan, document);
    }
    resources(&mut page, document, depth);
    overrides(&mut page, subject);
    if depth == Depth::Origins
        && let Some(plan) = subject.plan
    {
        page.blank();
        page.title("where every value comes from", "");
        origins_of(&mut page, subject, plan);
        page.blank();
    }
    if document.resources.is_empty() {
        page.blank();
    }
    problems::print_problems(&mut page, subject, depth, problems);
    page.finish()
}

/// Renders what applying a plan would cost: the machines, the time, the dollars, what keeps costing after the
/// end, and the room in the quotas.
pub fn costs_of_apply(document: &Document, plan: &Plan, options: Options) -> String {
    let mut page = TerminalPage::new(options);
    lines_of(&mut page, "cluster", &sections::cluster_and_region(document, plan));
    print_packed(&mut page, "run", sections::run(document).get(..1).unwrap_or_default());
    costs(&mut page, plan, document);
    page.finish()
}

/// Renders what a run has cost, if that is known, above the costs of its plan.
pub fn costs_of_run(
    plan: &Plan,
    planned: Option<&Document>,
    so_far: Option<&str>,
    options: Options,
) -> String {
    let mut page = TerminalPage::new(options);
    if let Some(so_far) = so_far {
        page.field("cost", so_far);
    }
    let label = if so_far.is_some() { "" } else { "cost" };
    print_packed(&mut page, label, &cost::lines_of_run(plan, planned, options.today));
    page.finish()
}

/// Renders what is billed after the end of a job, next to a label.
pub fn lines_after_end(label: &str, billed: &[AfterEnd], options: Options) -> String {
    let mut page = TerminalPage::new(options);
    print_packed(&mut page, label, &after_end::describe(billed, options.today));
    page.finish()
}

fn costs(page: &mut TerminalPage, plan: &Plan, document: &Document) {
    for (label, lines) in cost::sections(document, plan, page.today()) {
        print_packed(page, label, &lines);
    }
}

/// Renders the totals of several manifests.
pub fn total(subjects: &[Subject], options: Options) -> String {
    let mut page = TerminalPage::new(options);
    let plans: Vec<_> = subjects.iter().filter_map(|subject| subject.plan).collect();
    let gpus: u64 = plans
        .iter()
        .filter_map(|plan| plan.mesh.as_ref())
        .map(trainc_ir::Mesh::gpus)
        .fold(0, u64::saturating_add);
    let known: Vec<(f64, Vec<JobFileSystem>)> = plans
        .iter()
        .filter_map(|plan| {
            Some((cost::max_run_usd(plan)?, job_file_systems(plan, cost::max_run_seconds(plan)?)))
        })
        .collect();
    let noun = plans.iter().map(|plan| plan.chip_noun()).find(|noun| *noun != "GPU").map_or("GPU", |noun| {
        if plans.iter().all(|plan| plan.chip_noun() == noun) { noun } else { "accelerator" }
    });
    let mut line = format!("{}, {}", text::count(plans.len() as u64, "job"), text::count(gpus, noun));
    let expected: Option<Vec<(f64, Vec<JobFileSystem>)>> = subjects
        .iter()
        .filter_map(|subject| Some((subject.plan?, subject.prediction.run.as_ref())))
        .map(|(plan, run)| Some((run?.cost_usd?, job_file_systems(plan, run?.expected_seconds()))))
        .collect();
    if let Some(expected) = expected.filter(|all| !all.is_empty()) {
        let shared = SharedCosts::from_jobs(expected.iter().map(|(_, systems)| systems.as_slice()));
        let sum = expected.iter().map(|(usd, _)| usd).sum::<f64>() - shared.usd;
        let _ = write!(line, ", expected {}", text::dollars(sum));
    }
    if !known.is_empty() {
        let shared = SharedCosts::from_jobs(known.iter().map(|(_, systems)| systems.as_slice()));
        let sum = known.iter().map(|(usd, _)| usd).sum::<f64>() - shared.usd;
        let _ = write!(line, ", at most {} if each runs until its max-run", text::dollars(sum));
        line.push_str(&shared.describe());
        let prices = plans.iter().flat_map(|plan| plan.instance_prices());
        if let Some(dates) = describe_origins(prices, options.today) {
            let _ = write!(line, " ({dates})");
        }
    }
    let unknown = plans.len() - known.len();
    if unknown > 0 && !known.is_empty() {
        let _ = write!(line, "; excluding {} without a price", text::count(unknown as u64, "job"));
    }
    let broken = subjects.iter().filter(|subject| subject.plan.is_some() && subject.problems.errors() > 0);
    let broken = broken.count();
    if broken > 0 {
        let _ = write!(line, "; {broken} with errors");
    }
    let lost = subjects.len() - plans.len();
    if lost > 0 {
        let _ = write!(line, "; no job could be read from {}", text::count(lost as u64, "file"));
    }
    page.field("total", &line);
    page.finish()
}

/// Renders why the next step is blocked, and what to do first.
pub fn blocked(words: &str, first: &[String], options: Options) -> String {
    let mut page = TerminalPage::new(options);
    page.field("blocked", words);
    for (at, help) in first.iter().enumerate() {
        let label = if at == 0 { "first" } else { "" };
        // A command is printed unwrapped, to be copied.
        if help.starts_with("aws ") || help.starts_with("trainc ") {
            page.verbatim(label, help);
        } else {
            page.field(label, help);
        }
    }
    page.finish()
}

/// Renders the command to type next.
pub fn render_next_command(command: &str, options: Options) -> String {
    let mut page = TerminalPage::new(options);
    page.verbatim("next", command);
    page.finish()
}

fn heading(page: &mut TerminalPage, subject: &Subject, document: &Document) {
    let name = subject.job.unwrap_or(subject.path);
    let rest = match (&document.digest, subject.problems.errors()) {
        (_, errors @ 1..) => {
            let what = if subject.plan.is_some() { "partial plan," } else { "no plan," };
            format!(": {what} {}", text::count(errors as u64, "error"))
        }
        (Some(digest), 0) => {
            let how = match &document.compared_with {
                Some(account) => format!("compared with account {account}"),
                None => "offline (not compared with an account)".to_owned(),
            };
            format!(", digest {}, {how}", digest.get(..8).unwrap_or(digest))
        }
        (None, 0) => String::new(),
    };
    page.title(name, &rest);
}

fn lines_of(page: &mut TerminalPage, label: &str, lines: &[String]) {
    for (at, line) in lines.iter().enumerate() {
        page.field(if at == 0 { label } else { "" }, line);
    }
}

/// Columns within which lines are joined: a wider terminal shows the same lines.
const MOST_PACKED: usize = 80 - LABEL;

/// Prints lines, joining a line to an earlier one where both fit.
pub(super) fn print_packed(page: &mut TerminalPage, label: &str, lines: &[String]) {
    let mut out: Vec<String> = Vec::new();
    for line in lines {
        let room = page.columns().min(MOST_PACKED).saturating_sub(line.width() + "; ".len());
        match out.iter_mut().find(|before| before.width() <= room) {
            Some(before) => {
                let _ = write!(before, "; {line}");
            }
            None => out.push(line.clone()),
        }
    }
    lines_of(page, label, &out);
}

fn mesh(page: &mut TerminalPage, plan: &trainc_ir::Plan, document: &Document) {
    let Some(mesh) = &plan.mesh else {
        page.field("mesh", sections::UNKNOWN);
        return;
    };
    page.field("mesh", &sections::mesh(plan, mesh));
    let (lines, legend) = mesh_picture::draw(mesh, page.columns(), page.unicode());
    for line in lines {
        page.picture_line("", &line);
    }
    if !legend.is_empty() {
        page.field("", &legend);
    }
    for (axis, line) in links::lines(plan, mesh) {
        page.item("", &format!("{axis:<8}"), "", &line);
    }
    if let Some(line) = links::describe_layer_split(plan, mesh) {
        let word = if mesh.law.is_device_map() { "        " } else { "layers  " };
        page.item("", word, "", &line);
    }
    if let Some(line) = sections::nodes_rule(plan, document, mesh) {
        page.item("", "rule    ", "", &line);
    }
}

fn memory(page: &mut TerminalPage, plan: &Plan, document: &Document) {
    let style = verdict::style(sections::fit(plan, document));
    for line in sections::memory(plan, document) {
        page.styled("memory", style, &line);
    }
    let parts = &document.memory.parts;
    let (Some(bytes), amount) = (document.memory.per_gpu_bytes, |n: Option<u64>| n.map(|n| n as f64)) else {
        return;
    };
    let parts = [
        ("parameters", parts.parameters),
        ("gradients", parts.gradients),
        ("optimizer", parts.optimizer),
        ("activations", parts.activations),
        ("gathered", parts.gathered),
        ("logits", parts.logits),
        ("buffers", parts.buffers),
        ("reserve", parts.reserve),
    ]
    .map(|(name, n)| Part { name, amount: amount(n) });
    let whole = document.memory.capacity_bytes.unwrap_or(bytes) as f64;
    // In GiB, all parts of a small model would round to 0.
    let (unit, size) = if whole < GIB as f64 { ("MiB", GIB >> 10) } else { ("GiB", GIB) };
    draw(page, unit, bar(&parts, whole, page.columns(), |bytes| text::short_number(bytes / size as f64)));
}

fn step_speed(page: &mut TerminalPage, plan: &Plan, document: &Document) {
    lines_of(page, "speed", &speed::speed(plan, document));
    let parts = &document.speed.parts;
    let Some(step) = document.speed.step_seconds else { return };
    let parts = [
        ("compute", parts.compute),
        ("exposed communication", parts.exposed_communication),
        ("bubble", parts.bubble),
        ("offload", parts.offload),
        ("optimizer", parts.optimizer),
        ("input", parts.input.flatten()),
    ]
    .map(|(name, amount)| Part { name, amount });
    draw(page, "s", bar(&parts, step, page.columns(), text::short_number));
}

fn draw(page: &mut TerminalPage, unit: &str, drawn: Option<(String, String)>) {
    if let Some((bar, words)) = drawn {
        page.field("", &bar);
        page.field("", &format!("{unit}: {words}"));
    }
}

fn resources(page: &mut TerminalPage, document: &Document, depth: Depth) {
    if document.resources.is_empty() {
        return;
    }
    page.blank();
    for (at, resource) in document.resources.iter().enumerate() {
        let label = if at == 0 { "resources" } else { "" };
        let (action, style) = (format!("{:<6}", resource.action), verb_style(resource.action));
        let kind = resource.kind.word().replace('-', " ");
        match depth {
            // Resources shared with other jobs are described in full.
            Depth::Screen if !resource.shared_with.is_empty() => {
                page.item(label, &action, style, &format!("{kind} {}: {}", resource.name, resource.because));
            }
            Depth::Screen => {
                page.one_line_item(
                    label,
                    (&action, style),
                    &format!("{kind} {}", text::shorten_name(&resource.name)),
                    &resource.because,
                );
            }
            Depth::Origins => {
                page.item(label, &action, style, &format!("{kind} {}: {}", resource.name, resource.because));
            }
        }
    }
}

fn overrides(page: &mut TerminalPage, subject: &Subject) {
    let Some(plan) = subject.plan.filter(|plan| !plan.job.overrides.is_empty()) else { return };
    page.blank();
    // A value that overrides one of its own kind is not reported again for another that it replaces.
    let all = &plan.job.overrides;
    let is_reported = |over: &Override| {
        over.replaced_by.is_some()
            && !over.is_removed
            && all.iter().any(|other| other.replaced_by.is_none() && other.by == over.by)
    };
    for (at, over) in all.iter().filter(|over| !is_reported(over)).enumerate() {
        let label = if at == 0 { "layers" } else { "" };
        let place = |span| origins::format_place(subject.sources, span);
        let (new, old) = (
            origins::source_text(subject.sources, over.by),
            origins::source_text(subject.sources, over.from),
        );
        let line = match (&over.replaced_by, new, old) {
            (now, Some(new), old) if over.is_removed => {
                let now = now.as_ref().map_or_else(String::new, |now| format!("{now} "));
                // The word of a node says no more than its path.
                let old = old.filter(|old| !over.path.split('.').any(|step| step == *old));
                let old = old.map_or_else(String::new, |old| format!("{old} "));
                let (from, by) = (place(over.from), place(over.by));
                format!("{now}{new} ({by}) removes {} {old}({from})", over.path)
            }
            (Some(now), ..) => {
                format!("{now} ({}) replaces {} ({})", place(over.by), over.path, place(over.from))
            }
            (None, Some(new), Some(old)) if new != old => {
                format!("{} {new} ({}) overrides {old} ({})", over.path, place(over.by), place(over.from))
            }
            _ => format!("{} ({}) overrides {}", over.path, place(over.by), place(over.from)),
        };
        page.field(label, &line);
    }
}

/// Renders the origin of every value of the plan; empty without a plan.
pub(super) fn origins(subject: &Subject, options: Options) -> String {
    let mut page = TerminalPage::new(options);
    if let Some(plan) = subject.plan {
        origins_of(&mut page, subject, plan);
    }
    page.finish()
}

fn origins_of(page: &mut TerminalPage, subject: &Subject, plan: &trainc_ir::Plan) {
    let rows = origins::all_rows(subject, plan);
    let mut section = "";
    page.line("file:line:column is where a value was set");
    // Adjacent rows of a section with the same origin are grouped.
    for run in rows.chunk_by(|a, b| a.why == b.why && first_path_part(a) == first_path_part(b)) {
        let Some(first) = run.first() else { continue };
        if first_path_part(first) != section {
            page.blank();
            section = first_path_part(first);
        }
        let values: Vec<(&str, &str)> =
            run.iter().map(|row| (row.path.as_str(), row.value.as_str())).collect();
        let short = first.why.chars().count() <= MOST_REPEATED;
        if short {
            for value in values {
                page.values_with_origin(&[value], &first.why);
            }
        } else {
            page.values_with_origin(&values, &first.why);
        }
    }
}

/// Returns the first part of a path.
fn first_path_part(row: &origins::OriginRow) -> &str {
    row.path.split(['.', ' ']).next().unwrap_or_default()
}

/// Returns the style of a verb in front of a resource.
pub fn verb_style(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "32",
        Verb::Update | Verb::Adopt => "33",
        Verb::Replace | Verb::Delete | Verb::Stop => "31",
        Verb::Use
        | Verb::Unchanged
        | Verb::Wait
        | Verb::Skip
        | Verb::Foreign
        | Verb::Differs
        | Verb::Broken
        | Verb::Full
        | Verb::Leave
        | Verb::Keep => "",
    }
}
