//! The top level of a file: its job and its layers. Files in other formats are recognised here.

use super::ast::{Duplicate, File, Node};
use super::codes::{T0101, T0122, T0132, T0133, T0150, T0151, T0152};
use super::cursor::top_level;
use super::reader::{MOST_PROBLEMS, Reader};
use super::suggestions::{add_missing, merge_children};
use super::{document, nodes};
use kdl::{KdlDocument, KdlNode};
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems, Suggestion};

/// Returns the diagnostic of a YAML file, recognised by `job:` without a `job`.
pub(super) fn detect_yaml(document: &KdlDocument, source: SourceId) -> Option<Diagnostic> {
    let named = |wanted: &str| document.nodes().iter().find(|node| node.name().value() == wanted);
    let job = named("job:").filter(|node| named("job").is_none() && node.children().is_none())?;
    Some(
        Diagnostic::new(
            &T0150,
            document::name_span(source, job),
            "the file is YAML; a manifest is KDL",
        )
        .help("write `job \"name\" { … }`, with `region \"us-west-2\"` and the other nodes inside the braces")
        .note(
            "`trainc init` writes a starter manifest; `trainc schema manifest` lists the valid nodes",
        ),
    )
}

/// Returns the diagnostic of a JSON file, recognised by an object at its start.
pub(super) fn detect_json(text: &str, source: SourceId) -> Option<Diagnostic> {
    let mut body = text.trim_start_matches('\u{feff}').trim_start();
    while body.starts_with("//") {
        body = body.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    let inside = body.strip_prefix('{')?.trim_start();
    if !inside.starts_with(['"', '}']) {
        return None;
    }
    let at = text.len() - body.len();
    let diagnostic =
        Diagnostic::new(&T0151, Span::new(source, at, at + 1), "the file is JSON; a manifest is KDL");
    let is_request = ["TrainingJobName", "AlgorithmSpecification"].iter().any(|name| body.contains(name));
    Some(if is_request {
        diagnostic.help(
            "`trainc import FILE` converts a CreateTrainingJob request or a DescribeTrainingJob \
            response to a manifest",
        )
    } else {
        diagnostic
            .help(
                "write `job \"name\" { … }`, with `region \"us-west-2\"` and the other nodes inside \
                the braces",
            )
            .note("`trainc init` writes a starter manifest")
    })
}

/// The number of lines that are inspected to recognise TOML.
const TOML_LINES: usize = 3;

/// Returns the diagnostic of a TOML file, recognised by `key = value` lines and tables in brackets at its
/// start.
pub(super) fn detect_toml(text: &str, source: SourceId) -> Option<Diagnostic> {
    let is_key = |key: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"');
        !key.is_empty() && key.chars().all(plain)
    };
    let body = text.trim_start_matches('\u{feff}');
    let has_content = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.starts_with("//");
    let lines: Vec<&str> = body.lines().map(str::trim).filter(has_content).take(TOML_LINES).collect();
    for line in &lines {
        let table = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let table = table.map(|(name, _)| name.trim_start_matches('['));
        let key = line.split_once('=').map(|(key, _)| key.trim_end());
        if !table.is_some_and(is_key) && (!key.is_some_and(is_key) || line.contains('{')) {
            return None;
        }
    }
    // A single `a = 1` or a single list in brackets is a mistake in KDL.
    let has_table = body.lines().any(|line| {
        let line = line.trim();
        line.starts_with('[') && line.ends_with(']') && is_key(line.trim_matches(['[', ']']))
    });
    // The line is a slice of the text, so its address gives its offset.
    let first = lines.first().filter(|_| has_table && lines.len() > 1)?;
    let at = first.as_ptr() as usize - text.as_ptr() as usize;
    Some(
        Diagnostic::new(
            &T0152,
            Span::new(source, at, at + first.len()),
            "the file is TOML; a manifest is KDL",
        )
        .help("write `job \"name\" { … }`, with `region \"us-west-2\"` and the other nodes inside the braces")
        .note("`trainc init` writes a starter manifest; `trainc schema manifest` lists the valid nodes"),
    )
}

/// Reads the top level of a file.
pub(super) fn read_top_level(
    document: &KdlDocument,
    source: SourceId,
    text: &str,
    problems: &mut Problems,
) -> File {
    let mut reader = Reader { source, text, problems, misplaced: Vec::new(), errors: 0 };
    let mut file = File { job: None, extends: Vec::new(), envs: Vec::new(), layer: Vec::new() };
    let mut requires: Option<Span> = None;
    let has_job = document.nodes().iter().any(|node| node.name().value() == "job");
    // `Job` or `jobs` is read as `job` if there is no `job`.
    let is_typo =
        |name: &str| !has_job && nodes::JOB.child(name).is_none() && text::nearest(name, ["job"]).is_some();
    let misspelt =
        document.nodes().iter().find(|node| node.children().is_some() && is_typo(node.name().value()));
    let has_job = has_job || misspelt.is_some();
    let mut layer_nodes: Vec<&KdlNode> = Vec::new();
    let mut misplaced: Vec<Node> = Vec::new();
    for node in document.nodes() {
        match node.name().value() {
            name if name == "job" || misspelt.is_some_and(|other| std::ptr::eq(other, node)) => {
                if name != "job" {
                    let diagnostic = reader.unknown_node(node, name, &["job"], "at the top level of a file");
                    reader.push(diagnostic);
                }
                let mut read = reader.node(node, &nodes::JOB);
                "job".clone_into(&mut read.name.value);
                reader.relocate(std::slice::from_mut(&mut read));
                if let Some(first) = &mut file.job {
                    reader.push(
                        Diagnostic::new(
                            &T0132,
                            read.name.span,
                            "a file can describe only one job; this is the second",
                        )
                        .label(first.name.span, "the first")
                        .help("move it to its own file; `trainc check DIR` checks a directory of jobs"),
                    );
                    first.add_duplicate(Duplicate::Node(read));
                } else {
                    file.job = Some(read);
                }
            }
            "requires" => {
                let read = reader.node(node, &nodes::REQUIRES);
                reader.check_requirement(&read);
                if let Some(first) = requires.replace(read.name.span) {
                    reader.push(
                        Diagnostic::new(&T0122, read.name.span, "duplicate `requires`")
                            .label(first, "the first")
                            .help("merge them into one: `requires trainc=\">=0.1, <0.3\"`"),
                    );
                }
            }
            "extends" => file.extends.push(reader.node(node, &nodes::EXTENDS)),
            "env" => {
                let mut read = reader.node(node, &nodes::ENV);
                reader.relocate(std::slice::from_mut(&mut read));
                let first = file.envs.iter_mut().find(|env: &&mut Node| {
                    env.first_text().is_some() && env.first_text() == read.first_text()
                });
                if let Some(first) = first {
                    let name = read.first_text().unwrap_or_default().to_owned();
                    reader.push(
                        Diagnostic::new(&T0122, read.name.span, format!("duplicate `env \"{name}\"`"))
                            .label(first.name.span, "the first")
                            .help("merge them into one node"),
                    );
                    merge_children(&mut first.children, read.children);
                } else {
                    file.envs.push(read);
                }
            }
            name if has_job => {
                let span = reader.span(node.name().span());
                if let Some(spec) = nodes::JOB.child(name) {
                    reader.push(
                        Diagnostic::new(
                            &T0133,
                            span,
                            format!("`{name}` is outside `job`; it belongs inside"),
                        )
                        .help(format!("move `{name}` into `job \"…\" {{ … }}`"))
                        .suggest(Suggestion::Move("job")),
                    );
                    let read = reader.node(node, spec);
                    misplaced.push(read);
                } else {
                    let known = top_level().map(|spec| spec.name);
                    let diagnostic = reader.unknown_node(node, name, &known, "at the top level of a file");
                    reader.push(diagnostic);
                    // Read as what was probably meant: without its layer a job would miss many nodes.
                    match text::nearest(name, known) {
                        Some("extends") => file.extends.push(reader.node(node, &nodes::EXTENDS)),
                        Some("env") => file.envs.push(reader.node(node, &nodes::ENV)),
                        _ => {}
                    }
                }
            }
            _ => layer_nodes.push(node),
        }
    }
    if !has_job {
        file.layer = reader.children(&layer_nodes, nodes::JOB_CHILDREN, "at the top level of a layer");
        let mut layer = std::mem::take(&mut file.layer);
        reader.relocate(&mut layer);
        file.layer = layer;
    }
    if let Some(job) = &mut file.job {
        for node in misplaced {
            add_missing(&mut job.children, node);
        }
    }
    file
}

/// Keeps the first errors of a file and counts the rest.
pub(super) fn limit_errors(problems: &mut Problems) {
    let all = problems.iter().count();
    if all <= MOST_PROBLEMS {
        return;
    }
    problems.sort();
    let mut seen = 0;
    let mut next = None;
    problems.retain(|diagnostic| {
        seen += 1;
        if seen == MOST_PROBLEMS + 1 {
            next = Some(diagnostic.span);
        }
        seen <= MOST_PROBLEMS
    });
    if let Some(span) = next {
        let rest = u64::try_from(all - MOST_PROBLEMS).unwrap_or(u64::MAX);
        problems.push(
            Diagnostic::new(&T0101, span, text::count(rest, "more error"))
                .primary_label("the first one not shown")
                .fact("mistakes", all),
        );
    }
}
