//! The plan as a comment for a pull request: a table, and the rest folded away.

use super::json::{Blocked, Document};
use super::page::Options;
use super::{Subject, cost, human, pace, sections};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use trainc_diag::markdown::{COMMENT_LIMIT, cell};
use trainc_diag::text;

/// Kept free for the lines that say what was left out.
const RESERVE: usize = 160;

/// One job: plan.md.
pub fn plan(subject: &Subject, document: &Document) -> String {
    plans(&[(*subject, document)])
}

/// Several jobs in one comment of at most [`COMMENT_LIMIT`] characters (UTF-16 code units, the strictest count). What
/// does not fit is left out whole, and counted: what is folded away before what is not, and of no job all while there is
/// room for its name.
pub fn plans(jobs: &[(Subject, &Document)]) -> String {
    // A comment is found again by its first line, so the markers of all jobs stand there together.
    let markers: Vec<String> =
        jobs.iter().map(|(subject, _)| format!("<!-- trainc:plan {} -->", marked(subject))).collect();
    let mut left = COMMENT_LIMIT - RESERVE;
    let mut top = String::new();
    take(&mut top, &mut left, &(markers.join(" ") + "\n"));
    let parts: Vec<[String; 6]> = jobs
        .iter()
        .map(|(subject, document)| {
            [
                heading(subject, document),
                summary(subject, document),
                problems(subject),
                policy(subject),
                whole(subject, document),
                origins(subject),
            ]
        })
        .collect();
    let mut told: Vec<[&str; 6]> = parts.iter().map(|_| [""; 6]).collect();
    let (mut missing, mut shortened) = (BTreeSet::new(), BTreeSet::new());
    // One kind of part after the other, each for all jobs.
    for kind in 0..6 {
        for (at, (parts, told)) in parts.iter().zip(&mut told).enumerate() {
            let (Some(part), Some(place)) = (parts.get(kind), told.get_mut(kind)) else { continue };
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
    told.iter().flatten().for_each(|part| out.push_str(part));
    let mut short = |count: usize, what: &str| {
        if count > 0 {
            let _ = writeln!(out, "\n{} {what}, too long for one comment", text::count(count as u64, "job"));
        }
    };
    short(shortened.len(), "without all details");
    short(missing.len(), "more");
    out
}

fn take(out: &mut String, left: &mut usize, part: &str) -> bool {
    let length = part.encode_utf16().count();
    if length > *left {
        return false;
    }
    *left -= length;
    out.push_str(part);
    true
}

/// The job's name as a comment can carry it.
fn marked(subject: &Subject) -> String {
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
        None => "planned offline, compared with nothing".to_owned(),
    };
    let how = match &document.blocked {
        Some(blocked) => format!("{how}; {}", refused(blocked)),
        None => how,
    };
    format!("### {}\n\n{state}; {how}\n\n", cell(subject.job.unwrap_or(subject.path)))
}

/// What apply would answer as things stand.
pub fn refused(blocked: &Blocked) -> String {
    let why = text::list(&blocked.codes, "and");
    format!("apply would be refused with exit code {}: {why}", blocked.exit)
}

fn summary(subject: &Subject, document: &Document) -> String {
    let Some(plan) = subject.plan else { return String::new() };
    let mut out = String::from("| | |\n| --- | --- |\n");
    let mut rows = sections::job(document, plan);
    if let Some(mesh) = &plan.mesh {
        rows.push(("mesh", vec![sections::mesh(plan, mesh)]));
    }
    rows.push(("batch", sections::batch(plan)));
    rows.push(("length", sections::length(plan)));
    rows.push(("memory", sections::memory(plan, document)));
    rows.push(("speed", pace::speed(plan, document)));
    rows.push(("run", sections::run(document)));
    rows.push(("cost", cost::lines(document, plan)));
    for (label, lines) in rows.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        let lines: Vec<String> =
            lines.iter().filter(|line| !line.is_empty()).map(|line| cell(line)).collect();
        let _ = writeln!(out, "| {label} | {} |", lines.join("<br>"));
    }
    out.push('\n');
    if !document.resources.is_empty() {
        out.push_str("| action | resource | because |\n| --- | --- | --- |\n");
        for resource in &document.resources {
            let name = cell(&resource.name);
            let _ = writeln!(
                out,
                "| {} | {} {name} | {} |",
                resource.action,
                resource.kind.replace('-', " "),
                cell(&resource.because)
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
    let mut out = String::from("| problem | what | do |\n| --- | --- | --- |\n");
    for problem in all {
        let _ = writeln!(
            out,
            "| {} `{}` | {} | {} |",
            problem.severity.word(),
            problem.code.id,
            cell(&problem.message),
            cell(problem.help.as_deref().unwrap_or(""))
        );
    }
    out.push('\n');
    out
}

/// What the role may do and why, folded away; empty where trainc makes no role, or the plan has errors.
fn policy(subject: &Subject) -> String {
    let statements = super::resources::statements(subject);
    if statements.is_empty() {
        return String::new();
    }
    let title = format!("what the role may do: {}", text::count(statements.len() as u64, "statement"));
    let mut out = format!(
        "<details><summary>{title}</summary>\n\n| statement | because | actions | on |\n| --- | --- | --- | --- |\n"
    );
    for statement in statements {
        let on: Vec<String> = statement.resources.iter().map(|resource| cell(resource)).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            cell(&statement.sid),
            cell(&statement.because),
            cell(&statement.actions.join(", ")),
            on.join("<br>")
        );
    }
    out.push_str("\n</details>\n\n");
    out
}

/// The terminal's plan, folded away.
fn whole(subject: &Subject, document: &Document) -> String {
    let options = Options { width: 100, ..Options::default() };
    let text = human::plan(subject, document, human::Depth::Screen, human::Problems::Here, options);
    folded("the plan with its mesh", &text)
}

fn origins(subject: &Subject) -> String {
    let options = Options { width: 120, ..Options::default() };
    let text = human::origins(subject, options);
    if text.is_empty() { text } else { folded("where every value comes from", &text) }
}

fn folded(title: &str, text: &str) -> String {
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1;
    let fence = "`".repeat(ticks);
    format!(
        "<details><summary>{title}</summary>\n\n{fence}text\n{}\n{fence}\n\n</details>\n\n",
        text.trim_end()
    )
}
