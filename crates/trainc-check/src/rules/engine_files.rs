//! The files of the engine and the program, by the tables of their keys: what the program refuses, and what
//! it ignores or changes without a word.

use crate::Context;
use trainc_catalog::engine_files::{
    self, FileRule, KeyKind, KeyOwner, KeyRow, KeyTable, RuleSubject, UnknownKeys,
};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_engine::files::{Names, plan_names};
use trainc_plan::codes::{self as plan_codes, T0802};
use trainc_ir::{Axis, FileReader, FileSetting, FileValue, ForeignFile, Plan, Scalar, version_of};

declare_code!(
    T0805,
    "unread-file-key",
    Warning,
    "a key of a file that the program ignores",
    tags: [Unused]
);
declare_code!(
    T0806,
    "refused-file-key",
    Error,
    "a key or value of a file that the program refuses",
    ends: Speed,
    supersedes: { Value: [plan_codes::T0802, plan_codes::T0803] },
);
declare_code!(
    T0807,
    "refused-by-engine",
    Error,
    "settings that the engine or a library of the job refuses",
    ends: Speed,
    supersedes: { Value: [plan_codes::T0310, plan_codes::T0311] },
);
declare_code!(
    T0808,
    "changed-by-engine",
    Warning,
    "settings that the engine or a library of the job changes without a word"
);

declare_code!(
    T0809,
    "missing-package",
    Error,
    "a package that the engine needs and neither the image nor the program's requirements have"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0805, &T0806, &T0807, &T0808, &T0809];

/// Checks the keys of each file, then the rules about several values.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let mut checked = Vec::new();
    // What was checked of a file that is tried with other values is not asked again of the old ones.
    for file in plan.files.iter().filter(|file| !file.is_replaced) {
        let Some(table) = engine_files::keys(file.table) else { continue };
        let names = plan_names(plan).with_file(table, file, &plan.programs);
        let check = FileCheck { plan, table, file, names, at: None };
        check.check_keys(problems);
        check.check_required(problems);
        check.check_law(problems);
        checked.push(check);
    }
    // What trainc writes is judged like a file of the user; only its keys are right anyway.
    let engine_span =
        plan.job.parallel.as_ref().map_or_else(Span::default, |it| it.engine.span().unwrap_or(it.span));
    let written = trainc_engine::write::read_back(plan);
    let with_table = written.as_ref().and_then(|file| Some((file, engine_files::keys(file.table)?)));
    if let Some((file, table)) = with_table {
        let names = plan_names(plan).with_file(table, file, &plan.programs);
        checked.push(FileCheck { plan, table, file, names, at: Some(engine_span) });
    }
    check_degrees(plan, problems);
    let engine = plan.engine.map(|engine| engine.front.word);
    let files = checked.iter().map(|check| RuleSubject::File(check.table.name));
    let subjects: Vec<RuleSubject> = files.chain(engine.map(RuleSubject::Engine)).collect();
    for rule in engine_files::rules_about(&subjects) {
        if !applies_to_version(plan, rule.package.as_deref(), rule) {
            continue;
        }
        let about = |check: &&FileCheck| rule.file.as_deref() == Some(check.table.name);
        for check in checked.iter().filter(about) {
            let at = rule.at.as_deref().map_or_else(|| check.place(), |key| check.place_of(key));
            let value = rule.at.as_deref().and_then(|key| check.file.setting(key)).map(|it| it.value_span);
            let value = value.filter(|_| check.at.is_none());
            let problem = broken(rule, &check.names, at);
            problems.extend_with(problem.map(|one| one.subject(value.unwrap_or(at))));
        }
        if rule.engine.is_some() && rule.engine.as_deref() == engine {
            problems.extend_with(broken(rule, &plan_names(plan), engine_span));
        }
    }
}

/// Reports degrees of the manifest that the engine's file does not have: the program reads its file alone.
fn check_degrees(plan: &Plan, problems: &mut Problems) {
    let mut files = plan.files.iter();
    let file = files.find(|file| file.reader == FileReader::Engine && !file.is_replaced);
    let Some(file) = file else { return };
    let (Some(parallel), Some(mesh)) = (&plan.job.parallel, &plan.mesh) else { return };
    let Some(of_files) = trainc_plan::plan::mesh::mesh_of_files(plan) else { return };
    for axis in Axis::ALL {
        let Some(span) = axis.written(parallel).span() else { continue };
        if span.source == file.span.source || mesh.degree(axis) == of_files.degree(axis) {
            continue;
        }
        let (node, here, there) = (axis.node(), mesh.degree(axis), of_files.degree(axis));
        problems.push(
            Diagnostic::new(
                &T0802,
                span,
                format!("`{node}` is {here} here, but {there} by `{}`, which the program reads", file.path),
            )
            .remove(node)
            .or_else("set it in the file"),
        );
    }
}

fn applies_to_version(plan: &Plan, package: Option<&str>, rule: &FileRule) -> bool {
    let package = package.or_else(|| Some(engine_files::keys(rule.file.as_deref()?)?.package));
    rule.is_in(package.and_then(|package| version_of(&plan.programs, package)))
}

/// Returns the problem of a rule that does not hold; none if a value that it uses is unknown.
fn broken(rule: &FileRule, names: &Names, at: Span) -> Option<Diagnostic> {
    let applies = rule.when.as_deref().is_none_or(|when| names.holds(when) == Some(true));
    if !applies || rule.must.as_deref().is_some_and(|must| names.holds(must) != Some(false)) {
        return None;
    }
    let code = match rule.severity {
        _ if rule.missing.is_some() => &T0809,
        Severity::Error => &T0807,
        Severity::Warning | Severity::Note => &T0808,
    };
    let mut problem = Diagnostic::new(code, at, names.text(&rule.message)?);
    if let Some(help) = rule.help.as_deref().and_then(|help| names.text(help)) {
        problem = problem.help(format!("write `{help}`"));
    }
    if let Some(says) = &rule.says {
        problem = problem.note(in_its_words(says));
    }
    problem.severity = rule.severity;
    Some(problem.note(format!("source: {} ({})", rule.source, rule.date)).fact("rule", rule.id.as_str()))
}

struct FileCheck<'a> {
    plan: &'a Plan,
    table: &'static KeyTable,
    file: &'a ForeignFile,
    names: Names,
    /// The place of all problems of a file that trainc writes.
    at: Option<Span>,
}

impl FileCheck<'_> {
    /// Returns the place of problems about the file as a whole: its first key.
    fn place(&self) -> Span {
        if let Some(at) = self.at {
            return at;
        }
        self.file.settings.first().map_or(self.file.span, |setting| setting.key_span)
    }

    /// Returns the place of a key, or of the nearest block around it that is written.
    fn place_of(&self, key: &str) -> Span {
        if let Some(at) = self.at {
            // The degree from which trainc writes the key.
            let word = self.table.find(key).and_then(|row| row.word.as_deref()?.strip_prefix("parallel/"));
            let axis = Axis::ALL.into_iter().find(|axis| Some(axis.node()) == word);
            let degree = axis.zip(self.plan.job.parallel.as_ref());
            return degree.and_then(|(axis, parallel)| axis.written(parallel).span()).unwrap_or(at);
        }
        if let Some(setting) = self.file.setting(key) {
            return match setting.value {
                FileValue::Map => setting.key_span,
                FileValue::Scalar(_) | FileValue::List(_) => setting.key_span.to(setting.value_span),
            };
        }
        key.rsplit_once('.').map_or_else(|| self.place(), |(block, _)| self.place_of(block))
    }

    fn check_keys(&self, problems: &mut Problems) {
        let mut ignored: Vec<&str> = Vec::new();
        for setting in &self.file.settings {
            for replaced in &setting.replaced {
                problems.push(
                    Diagnostic::new(&T0805, *replaced, format!("`{}` is written twice", last(&setting.key)))
                        .label(setting.key_span, "this one counts")
                        .help("remove one of the two"),
                );
            }
            let is_inside = |outer: &str| {
                setting.key.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
            };
            if ignored.iter().any(|outer| is_inside(outer)) {
                continue;
            }
            let row = self.table.find(&setting.key);
            if row.is_none_or(|row| self.check_key(row, setting, problems)) {
                ignored.push(&setting.key);
            }
            if row.is_none() {
                problems.extend_with(self.unknown_key(setting));
            }
        }
    }

    /// Reports a file that selects what the engine does not start.
    fn check_law(&self, problems: &mut Problems) {
        let Some(engine) = self.plan.engine else { return };
        let Some(law) = trainc_engine::files::law(self.file, &self.plan.programs) else { return };
        if engine.front.law_named(law).is_some() {
            return;
        }
        let starters = trainc_engine::fronts::ALL.iter().filter(|front| front.law_named(law).is_some());
        let mut words: Vec<String> = starters.map(|front| format!("`engine=\"{}\"`", front.word)).collect();
        words.dedup();
        let message = format!("this file selects `{law}`, which engine `{}` does not start", engine.name());
        let mut problem = Diagnostic::new(&T0807, self.place(), message);
        if let Some(parallel) = &self.plan.job.parallel {
            problem = problem.label(parallel.engine.span().unwrap_or(parallel.span), "the engine");
        }
        problems.push(problem.help(format!("write {}", text::list(&words, "or"))));
    }

    fn check_required(&self, problems: &mut Problems) {
        let is_missing = |row: &&KeyRow| row.required && self.file.setting(&row.key).is_none();
        for row in self.table.rows.iter().filter(is_missing) {
            let around = row.key.rsplit_once('.').map(|(map, _)| self.file.setting(map));
            if matches!(around, Some(None)) || !row.is_in(self.version(row)) {
                continue;
            }
            let at = around.flatten().map_or_else(|| self.place(), |map| map.key_span);
            let key = last(&row.key);
            let message = format!("{} requires `{key}`", self.package_of(row));
            let mut problem = Diagnostic::new(&T0806, at, message).help(format!("add `{key}`"));
            if let Some(says) = &row.says {
                problem = problem.note(in_its_words(says));
            }
            problems.push(with_source(problem, row));
        }
    }

    fn package_of<'b>(&'b self, row: &'b KeyRow) -> &'b str {
        row.package.as_deref().unwrap_or(self.table.package)
    }

    fn version(&self, row: &KeyRow) -> Option<&str> {
        version_of(&self.plan.programs, self.package_of(row))
    }

    fn unknown_key(&self, setting: &FileSetting) -> Option<Diagnostic> {
        let (map, key) = setting.key.rsplit_once('.').unwrap_or(("", &setting.key));
        // Below a value that is no map of the table the program has keys of its own.
        if !map.is_empty() && self.table.find(map).is_some_and(|row| row.kind != KeyKind::Map) {
            return None;
        }
        let package = self.table.package;
        let place = if map.is_empty() { String::new() } else { format!(" in `{map}`") };
        let (code, message) = match self.table.unknown_in(map) {
            UnknownKeys::Passed => return None,
            UnknownKeys::Refused => (&T0806, format!("{package} refuses the unknown key `{key}`{place}")),
            UnknownKeys::Ignored => (&T0805, format!("{package} ignores the unknown key `{key}`{place}")),
        };
        let prefix = if map.is_empty() { String::new() } else { format!("{map}.") };
        let siblings = self.table.rows.iter().flat_map(|row| std::iter::once(&row.key).chain(&row.aliases));
        let siblings = siblings.filter_map(|key| key.strip_prefix(&prefix));
        let siblings = siblings.filter(|key| !key.is_empty() && !key.contains('.'));
        let problem = Diagnostic::new(code, setting.key_span, message);
        Some(match text::nearest(key, siblings) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("remove `{key}`")),
        })
    }

    /// Checks a key. Returns true if nothing is read in a block of this key.
    fn check_key(&self, row: &KeyRow, setting: &FileSetting, problems: &mut Problems) -> bool {
        if row.owner == KeyOwner::Launcher {
            return false;
        }
        let key = last(&setting.key);
        let package = self.package_of(row);
        if let Some(version) = self.version(row).filter(|version| !row.is_in(Some(version))) {
            let is_new = row.since.as_deref().is_some_and(|since| {
                trainc_catalog::images::version_key(version) < trainc_catalog::images::version_key(since)
            });
            let when = match (is_new, &row.since, &row.until) {
                (true, Some(since), _) => {
                    format!("{package} {version} does not have `{key}`, which {since} added")
                }
                (_, _, Some(until)) => {
                    format!("{package} {version} no longer has `{key}`, which {until} removed")
                }
                _ => return false,
            };
            let map = setting.key.rsplit_once('.').map_or("", |(map, _)| map);
            let is_refused = row.removed.is_some() || self.table.unknown_in(map) != UnknownKeys::Ignored;
            let code = if is_refused { &T0806 } else { &T0805 };
            let mut problem = Diagnostic::new(code, setting.key_span, when).help(format!("remove `{key}`"));
            if let Some(says) = &row.removed {
                problem = problem.note(in_its_words(says));
            }
            problems.push(with_source(problem, row));
            return true;
        }
        let names = match &setting.value {
            FileValue::Scalar(value) => self.names.clone().with_value("value", value),
            FileValue::List(_) | FileValue::Map => self.names.clone(),
        };
        if row.read_when.as_deref().is_some_and(|when| names.holds(when) == Some(false)) {
            let is_empty_block = setting.value == FileValue::Map && !self.has_keys_in(&setting.key);
            if !is_empty_block {
                let message = format!("{package} does not read `{key}` here");
                let problem = Diagnostic::new(&T0805, setting.key_span, message);
                let problem = problem.help(format!("remove `{key}`"));
                let problem = match &row.because {
                    Some(because) => problem.note(because.as_str()),
                    None => problem,
                };
                problems.push(with_source(problem, row));
            }
            return setting.value == FileValue::Map;
        }
        if let Some(expected) = refused_value(row, &setting.value) {
            let shown = match &setting.value {
                FileValue::Scalar(value) => format!("`{}`", value.as_variable()),
                FileValue::List(_) => "a list".to_owned(),
                FileValue::Map => "a map".to_owned(),
            };
            let message = format!("{package} refuses `{key}` {shown}; expected {expected}");
            let problem = Diagnostic::new(&T0806, setting.value_span, message);
            let near = setting.value.scalar().and_then(|value| {
                text::nearest(&value.as_variable(), row.words.iter().map(String::as_str)).map(str::to_owned)
            });
            let mut problem = match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("write {expected}")),
            };
            if let Some(says) = &row.says {
                problem = problem.note(in_its_words(says));
            }
            problems.push(with_source(problem, row));
        }
        false
    }

    /// Returns whether a block has a key.
    fn has_keys_in(&self, block: &str) -> bool {
        let mut keys = self.file.settings.iter().filter_map(|setting| setting.key.strip_prefix(block));
        keys.any(|rest| rest.starts_with('.'))
    }
}

/// Quotes the program.
fn in_its_words(says: &str) -> String {
    format!("the program's words: {}", says.trim_end_matches('.'))
}

fn with_source(problem: Diagnostic, row: &KeyRow) -> Diagnostic {
    problem.note(format!("source: {} ({})", row.source, row.date))
}

/// Returns the last part of a key.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Returns what the program expects, if it refuses the value.
fn refused_value(row: &KeyRow, value: &FileValue) -> Option<String> {
    if row.auto && value.scalar() == Some(&Scalar::Text("auto".to_owned())) {
        return None;
    }
    let scalar = match (row.kind, value) {
        (KeyKind::Any, _) | (_, FileValue::Scalar(Scalar::Null)) => return None,
        (KeyKind::Map, FileValue::Map) | (KeyKind::List, FileValue::List(_)) => return None,
        (KeyKind::Map, _) => return Some("a block of keys".to_owned()),
        (KeyKind::List, _) if row.loose => return None,
        (KeyKind::List, _) => return Some("a list".to_owned()),
        (_, FileValue::Map | FileValue::List(_)) => return Some("a single value".to_owned()),
        (_, FileValue::Scalar(scalar)) => scalar,
    };
    let written = scalar.as_variable();
    let number = match scalar {
        Scalar::Int(n) => Some(*n as f64),
        Scalar::Float(x) => Some(*x),
        // As Python's `int` and `float`: `int("2.0")` is an error.
        Scalar::Text(text) if row.loose && row.kind == KeyKind::Int => {
            text.trim().parse::<i64>().ok().map(|n| n as f64)
        }
        Scalar::Text(text) if row.loose => text.trim().parse().ok(),
        Scalar::Text(_) | Scalar::Bool(_) | Scalar::Null => None,
    };
    let expected = match row.kind {
        KeyKind::Word => {
            let is_same =
                |word: &String| *word == written || row.ignore_case && word.eq_ignore_ascii_case(&written);
            (!row.words.iter().any(is_same)).then(|| text::backtick_list(&row.words, "or"))
        }
        KeyKind::Bool => {
            let is_known = matches!(scalar, Scalar::Bool(_))
                || row.loose && BOOLS.contains(&written.to_ascii_lowercase().as_str());
            (!is_known).then(|| "`true` or `false`".to_owned())
        }
        KeyKind::Int => number.is_none_or(|x| x.fract() != 0.0).then(|| "a whole number".to_owned()),
        KeyKind::Number => number.is_none().then(|| "a number".to_owned()),
        KeyKind::Text if row.loose || matches!(scalar, Scalar::Text(_)) => None,
        KeyKind::Text => Some("a text".to_owned()),
        KeyKind::List | KeyKind::Map | KeyKind::Any => None,
    };
    let below = row.min.filter(|min| number.is_some_and(|x| x < *min));
    let above = row.max.filter(|max| number.is_some_and(|x| x > *max));
    expected
        .or_else(|| below.map(|min| format!("{min} or more")))
        .or_else(|| above.map(|max| format!("{max} or less")))
}

/// The texts that Python's converters of programs take for a boolean.
const BOOLS: [&str; 12] = ["true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0"];
