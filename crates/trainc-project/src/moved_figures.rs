//! Emitted files that differ in nothing but figures that measured runs moved.
//!
//! A new run in the table changes the predicted time of a job, but not the job: `emit --check` does not
//! report it.

use crate::directory::{Target, Tree};
use crate::files::read_regular;
use serde_json::Value;
use std::path::Path;
use trainc_emit::PLAN_VARIABLE;

const PLAN: &str = "plan.json";

/// The plan for people, whose figures are those of plan.json.
const PAGES: [&str; 2] = ["plan.md", "report.html"];

/// Member of plan.json that names the measured runs.
const EVIDENCE: &str = "evidence";

/// Members of plan.json that are predicted, or say something about what is predicted.
const PREDICTED: [&str; 6] = [EVIDENCE, "speed", "run", "after_end", "notes", "problems"];

/// Member of plan.json with the plans of further instance types, of which the same members are predicted.
const CHOICES: &str = "choices";

/// Largest size of an emitted file that is compared, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// Replaces the content of each file that differs from that in the directory by figures alone with the
/// latter, if measured runs moved figures of either.
pub fn keep_moved_figures(target: &mut Target) {
    let there = |path: &Path| read_regular(&target.dir.join(path), MOST_BYTES).ok();
    let Some((old, old_plan)) = there(Path::new(PLAN)).and_then(|bytes| Some((json(&bytes)?, bytes))) else {
        return;
    };
    let Some(new) = target.tree.get(Path::new(PLAN)).and_then(|bytes| json(bytes)) else { return };
    // What the directory says of itself is no reason to overlook a difference.
    if new.get(EVIDENCE).is_none() || without_figures(old) != without_figures(new) {
        return;
    }
    let kept: Tree = target
        .tree
        .iter()
        .filter_map(|(path, bytes)| {
            let is_page = PAGES.iter().any(|page| path == Path::new(page));
            let old = if path == Path::new(PLAN) { Some(old_plan.clone()) } else { there(path) };
            old.filter(|old| path == Path::new(PLAN) || is_page || has_same_lines(old, bytes))
                .map(|old| (path.clone(), old))
        })
        .collect();
    target.tree.extend(kept);
}

fn json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

fn without_figures(mut plan: Value) -> Value {
    let Some(members) = plan.as_object_mut() else { return plan };
    members.retain(|name, _| !PREDICTED.contains(&name.as_str()));
    let choices = members.get_mut(CHOICES).and_then(Value::as_array_mut);
    for choice in choices.into_iter().flatten().filter_map(Value::as_object_mut) {
        choice.retain(|name, _| !PREDICTED.contains(&name.as_str()));
    }
    plan
}

/// Returns true if two files have the same lines, except those with the planned figures of the start script.
fn has_same_lines(old: &[u8], new: &[u8]) -> bool {
    let [old, new] = [old, new].map(|bytes| std::str::from_utf8(bytes).ok().map(|text| text.split('\n')));
    let (Some(mut old), Some(mut new)) = (old, new) else { return false };
    loop {
        match (old.next(), new.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || without_planned_values(a) == without_planned_values(b) => {}
            _ => return false,
        }
    }
}

/// Returns a line without the quoted values of the planned figures, which follow their name and a colon or an
/// equals sign. The name of the figures of further instance types begins alike.
fn without_planned_values(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(PLAN_VARIABLE) {
        let (before, named) = rest.split_at(at + PLAN_VARIABLE.len());
        out.push_str(before);
        let Some(start) = named.find([':', '=', ',']).map(|at| at + 1) else {
            rest = named;
            continue;
        };
        let (name, value) = named.split_at(start);
        out.push_str(name);
        let quote =
            value.find(['"', '\'']).filter(|at| value.get(..*at).is_some_and(|gap| gap.trim().is_empty()));
        rest = value;
        if let Some(open) = quote {
            let mark = value.as_bytes().get(open).copied().unwrap_or(b'"');
            let mut escaped = false;
            let end = value.bytes().enumerate().skip(open + 1).find_map(|(at, byte)| {
                let closes = byte == mark && !escaped;
                escaped = byte == b'\\' && !escaped;
                closes.then_some(at)
            });
            rest = end.and_then(|end| value.get(end..)).unwrap_or(value);
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    #[test]
    fn moved_figures_are_no_difference_and_others_are() {
        let dir = std::env::temp_dir().join(format!("trainc-figures-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let request = |seconds: f64, name: &str| format!("\"{PLAN_VARIABLE}\": \"{seconds}\"\n{name}\n");
        let plan = |seconds: f64, nodes: u64, runs: &str| {
            format!(
                "{{\"speed\": {{\"step_seconds\": {seconds}}}, \"cluster\": {{\"nodes\": {nodes}}}{runs}}}"
            )
        };
        let runs = ", \"evidence\": {\"same\": 1}";
        let files =
            [(PLAN, plan(2.0, 4, runs)), ("plan.md", "2 s".to_owned()), ("request.json", request(2.0, "a"))];
        for (name, text) in &files {
            fs::write(dir.join(name), text).unwrap();
        }
        let kept = |plan: String, request: String| {
            let tree = [(PLAN, plan), ("plan.md", "3 s".to_owned()), ("request.json", request)];
            let tree = tree.map(|(name, text)| (PathBuf::from(name), text.into_bytes()));
            let mut target = Target { dir: dir.clone(), tree: tree.into_iter().collect() };
            keep_moved_figures(&mut target);
            let is_old = |(name, text): &(&str, String)| target.tree[Path::new(name)] == text.as_bytes();
            files.iter().filter(|file| is_old(file)).count()
        };
        assert_eq!(kept(plan(3.0, 4, runs), request(3.0, "a")), 3);
        assert_eq!(kept(plan(3.0, 4, runs), request(3.0, "b")), 2, "the request differs");
        assert_eq!(kept(plan(3.0, 8, runs), request(3.0, "a")), 0, "the cluster differs");
        assert_eq!(kept(plan(3.0, 4, ""), request(3.0, "a")), 0, "no measured runs moved them");
        let with = |nodes: u64| format!("{runs}, \"choices\": [{{\"run\": {nodes}, \"nodes\": {nodes}}}]");
        assert_eq!(kept(plan(3.0, 4, &with(8)), request(3.0, "a")), 0, "a further instance type is new");
        fs::write(dir.join(PLAN), plan(2.0, 4, &with(4))).unwrap();
        assert_eq!(kept(plan(3.0, 4, &with(8)), request(3.0, "a")), 0, "its nodes differ");
        fs::write(dir.join(PLAN), plan(2.0, 4, "")).unwrap();
        assert_eq!(kept(plan(3.0, 4, ""), request(3.0, "a")), 0, "no measured runs moved them");
        // The plan kept is that of the directory, which has no runs.
        assert_eq!(kept(plan(3.0, 4, runs), request(3.0, "a")), 2, "the first runs moved them");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn only_the_value_of_the_planned_figures_may_differ_in_a_line() {
        let line = |value: &str, rest: &str| format!("  {PLAN_VARIABLE}_P5: '{value}'{rest}\n").into_bytes();
        assert!(has_same_lines(&line("1", ""), &line("2", "")));
        assert!(!has_same_lines(&line("1", ", \"Role\": \"a\""), &line("2", ", \"Role\": \"b\"")));
        let json = |value: &str, role: &str| {
            let value = serde_json::json!({PLAN_VARIABLE: value, "Role": role});
            value.to_string().into_bytes()
        };
        assert!(has_same_lines(&json("{\"step\": 1}", "a"), &json("{\"step\": 2}", "a")));
        assert!(!has_same_lines(&json("{\"step\": 1}", "a"), &json("{\"step\": 2}", "b")));
    }
}
