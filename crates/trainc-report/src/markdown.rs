//! The plan as a comment for a pull request: a summary table, and collapsed details.

use super::json::{Blocked, Document};
use super::terminal_page::Options;
use super::{Subject, cost, human, sections, speed};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use trainc_diag::markdown::{COMMENT_LIMIT, code_block, escape_cell};
use trainc_diag::text;

/// Characters reserved for the lines on what was left out.
const RESERVE: usize = 160;

/// Renders plan.md of one job.
pub fn plan(subject: &Subject, document: &Document) -> String {
    plans(&[(*subject, document)])
}

/// Renders several jobs in one comment of at most [`COMMENT_LIMIT`] characters (UTF-16 code units, the
/// strictest count).
///
/// Parts that do not fit are left out whole and counted: collapsed details first, headings last.
pub fn plans(jobs: &[(Subject, &Document)]) -> String {
    // Bots find their comment by its first line, so it has the markers of all jobs.
    let markers: Vec<String> =
        jobs.iter().map(|(subject, _)| format!("<!-- trainc:plan {} -->", marker_name(subject))).collect();
    let mut left = COMMENT_LIMIT - RESERVE;
    let mut top = String::new();
    push_within(&mut top, &mut left, &(markers.join(" ") + "\n"));
    let parts: Vec<[String; 6]> = jobs
        .iter()
        .map(|(subject, document)| {
            [
                heading(subject, document),
                summary(subject, document),
                problems(subject),
                policy(subject),
                terminal_plan(subject, document),
                origins(subject),
            ]
        })
        .collect();
    let mut kept: Vec<[&str; 6]> = parts.iter().map(|_| [""; 6]).collect();
    let (mut missing, mut shortened) = (BTreeSet::new(), BTreeSet::new());
    // Each kind of part is added for all jobs before the next kind.
    for kind in 0..6 {
        for (at, (parts, kept)) in parts.iter().zip(&mut kept).enumerate() {
            let (Some(part), Some(place)) = (parts.get(kind), kept.get_mut(kind)) else { continue };
            let length = part.encode_utf16().count();
            if missing.contains(&at) {
                continue;
            }
            if length > left {
                if kind == 0 {
                    missing.insert(at)
                } else {
                    shortened.insert(at)
                };
                continue;
            }
            left -= length;
            *place = part;
        }
    }
    let mut out = top;
    kept.iter().flatten().for_each(|part| out.push_str(part));
    let mut short = |count: usize, what: &str| {
        if count > 0 {
            let _ =
                writeln!(out, "\n{} {what}: comment size limit reached", text::count(count as u64, "job"));
        }
    };
    short(shortened.len(), "shown without all details");
    short(missing.len(), "not shown");
    out
}

fn push_within(out: &mut String, left: &mut usize, part: &str) -> bool {
    let length = part.encode_utf16().count();
    if length > *left {
        return false;
    }
    *left -= length;
    out.push_str(part);
    true
}

/// Returns the job's name, safe inside an HTML comment.
fn marker_name(subject: &Subject) -> String {
    subject.job.unwrap_or(subject.path).replace("--", "- -").replace(['<', '>', '\n'], " ")
}

fn heading(subject: &Subject, document: &Document) -> String {
    let errors = subject.problems.errors() as u64;
    let warnings = subject.problems.warnings() as u64;
    let mut state = match (errors, warnings) {
        (0, 0) => "✅ no problems".to_owned(),
        (0, warnings) => format!("⚠️ {}", text::count(warnings, "warning")),
        (errors, _) => format!("❌ {}", text::count(errors, "error")),
    };
    if let Some(digest) = &document.digest {
        let _ = write!(state, ", digest `{}`", digest.get(..8).unwrap_or(digest));
    }
    let how = match &document.compared_with {
        Some(account) => format!("compared with account {account}"),
        None => "planned offline, not compared with an account".to_owned(),
    };
    let how = match &document.blocked {
        Some(blocked) => format!("{how}; {}", describe_blocked(blocked)),
        None => how,
    };
    format!("### {}\n\n{state}; {how}\n\n", escape_cell(subject.job.unwrap_or(subject.path)))
}

/// Describes why apply would be refused.
pub fn describe_blocked(blocked: &Blocked) -> String {
    let why = text::list(&blocked.codes, "and");
    format!("apply would be refused with exit code {}: {why}", blocked.exit)
}

fn summary(subject: &Subject, document: &Document) -> String {
    let Some(plan) = subject.plan else { return String::new() };
    let mut out = String::from("| | |\n| --- | --- |\n");
    let mut rows = sections::job(document, plan);
    if let Some(mesh) = plan.mesh.as_ref().filter(|_| sections::shows_mesh(plan)) {
        rows.push(("mesh", vec![sections::mesh(plan, mesh)]));
    }
    rows.push(("batch", sections::batch(plan)));
    rows.push(("length", sections::run_length_lines(plan)));
    rows.push(("memory", sections::memory(plan, document)));
    rows.push(("speed", speed::speed(plan, document)));
    rows.push(("run", sections::run(document)));
    rows.push(("not known", sections::not_predicted(plan, document)));
    rows.extend(cost::sections(document, plan, None));
    for (label, lines) in rows.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        let lines: Vec<String> =
            lines.iter().filter(|line| !line.is_empty()).map(|line| escape_cell(line)).collect();
        let _ = writeln!(out, "| {label} | {} |", lines.join("<br>"));
    }
    out.push('\n');
    if !document.resources.is_empty() {
        out.push_str("| action | resource | reason |\n| --- | --- | --- |\n");
        for resource in &document.resources {
            let name = escape_cell(&resource.name);
            let _ = writeln!(
                out,
                "| {} | {} {name} | {} |",
                resource.action,
                resource.kind.word().replace('-', " "),
                escape_cell(&resource.because)
            );
        }
        out.push('\n');
    }
    out
}

fn problems(subject: &Subject) -> String {
    let mut all: Vec<_> = subject.problems.iter().collect();
    if all.is_empty() {
        return String::new();
    }
    all.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    let mut out = String::from("| problem | message | help |\n| --- | --- | --- |\n");
    for problem in all {
        let _ = writeln!(
            out,
            "| {} `{}` | {} | {} |",
            problem.severity.word(),
            problem.code.id,
            escape_cell(&problem.text()),
            escape_cell(problem.help.as_deref().unwrap_or(""))
        );
    }
    out.push('\n');
    out
}

/// Renders the role's policy statements, collapsed; empty if trainc creates no role or the plan has errors.
fn policy(subject: &Subject) -> String {
    let statements = super::resources::statements(subject);
    if statements.is_empty() {
        return String::new();
    }
    let title = format!("role permissions: {}", text::count(statements.len() as u64, "statement"));
    let mut out = format!(
        "<details><summary>{title}</summary>\n\n| statement | reason | actions | resources |\n| \
            --- | --- | --- | --- |\n"
    );
    for statement in statements {
        let on: Vec<String> = statement.resources.iter().map(|resource| escape_cell(resource)).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            escape_cell(&statement.sid),
            escape_cell(&statement.because),
            escape_cell(&statement.actions.join(", ")),
            on.join("<br>")
        );
    }
    out.push_str("\n</details>\n\n");
    out
}

/// Renders the plan of the terminal, collapsed.
fn terminal_plan(subject: &Subject, document: &Document) -> String {
    let options = Options { width: 100, ..Options::default() };
    let text = human::plan(subject, document, human::Depth::Screen, human::Problems::Here, options);
    let has_mesh = subject.plan.is_some_and(sections::shows_mesh);
    collapsed_block(if has_mesh { "plan with mesh" } else { "plan" }, &text)
}

fn origins(subject: &Subject) -> String {
    let options = Options { width: 120, ..Options::default() };
    let text = human::origins(subject, options);
    if text.is_empty() { text } else { collapsed_block("where every value comes from", &text) }
}

fn collapsed_block(title: &str, text: &str) -> String {
    let block = code_block("text", text.trim_end());
    format!("<details><summary>{title}</summary>\n\n{block}\n</details>\n\n")
}
