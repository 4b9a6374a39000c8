//! Built-in rules of the debugger and the profiler: names and parameters.

use crate::Context;
use trainc_catalog::debugger_rules::{self, BuiltInRule, RuleKind};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::job::MonitoringRule;

declare_code!(
    T0593, "invalid-monitoring-rule", Error,
    "a rule of the debugger or the profiler that does not exist, or a parameter that it does not have"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0593];

/// The rule that accepts the parameters of all others, such as `CPUBottleneck_threshold`.
const REPORT: &str = "ProfilerReport";

/// Checks the rules of both nodes.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let debugger = job.debugger.iter().flat_map(|node| &node.rules).map(|rule| (rule, RuleKind::Debugger));
    let profiler = job.profiler.iter().flat_map(|node| &node.rules).map(|rule| (rule, RuleKind::Profiler));
    for (rule, kind) in debugger.chain(profiler) {
        check(rule, kind, problems);
    }
    for (name, has_rules) in [
        ("DebugRuleConfigurations", job.debugger.as_ref().is_some_and(|node| !node.rules.is_empty())),
        ("ProfilerRuleConfigurations", job.profiler.as_ref().is_some_and(|node| !node.rules.is_empty())),
    ] {
        let first = job.debugger.iter().flat_map(|node| &node.rules).chain(job.profiler.iter().flat_map(|node| &node.rules)).map(MonitoringRule::name_span);
        let own: Vec<_> = first.collect();
        let written = job.request.iter().find(|member| member.name == name && has_rules && !own.contains(&member.span));
        if let Some(member) = written {
            problems.push(
                Diagnostic::new(&T0593, member.span, format!("`{name}` is written twice: in `request`, and \
                    as `rule` nodes"))
                    .help("write all of them in one place"),
            );
        }
    }
}

fn check(rule: &MonitoringRule, kind: RuleKind, problems: &mut Problems) {
    let (node, other) = match kind {
        RuleKind::Debugger => ("debugger", "profiler"),
        RuleKind::Profiler => ("profiler", "debugger"),
    };
    let Some(found) = debugger_rules::get(&rule.name.value) else {
        let known = debugger_rules::names(kind);
        let diagnostic = Diagnostic::new(&T0593, rule.name_span(), format!("`{}` is not a built-in rule of \
            the {node}", rule.name.value))
            .note(format!("rules: {}", known.join(", ")));
        problems.push(match text::nearest(&rule.name.value, known.iter().copied()) {
            Some(near) => diagnostic.did_you_mean(near),
            None => diagnostic.help("write a rule of your own in `request`, with its image and its source"),
        });
        return;
    };
    if found.kind != kind {
        problems.push(
            Diagnostic::new(&T0593, rule.name_span(), format!("`{}` is a rule of the {other}", found.name))
                .help(format!("move it to `{other}`")),
        );
        return;
    }
    for pair in &rule.parameters {
        if !is_parameter(&found, &pair.key) {
            let diagnostic = Diagnostic::new(&T0593, pair.key_span, format!("`{}` has no parameter `{}`", found.name, pair.key))
                .note(format!("parameters: {} ({})", found.parameters.join(", "), found.provenance.source));
            problems.push(match text::nearest(&pair.key, found.parameters.iter().map(String::as_str)) {
                Some(near) => diagnostic.did_you_mean(near),
                None => diagnostic,
            });
        }
    }
    let missing: Vec<&String> =
        found.required.iter().filter(|name| !rule.parameters.iter().any(|pair| pair.key == **name)).collect();
    if let Some(first) = missing.first() {
        problems.push(
            Diagnostic::new(&T0593, rule.name_span(), format!("`{}` requires {}", found.name, text::backtick_list(&missing, "and")))
                .help(format!("add `{first}=…`")),
        );
    }
}

fn is_parameter(rule: &BuiltInRule, name: &str) -> bool {
    let of_other = || {
        let (other, rest) = name.split_once('_')?;
        let other = debugger_rules::get(other).filter(|other| other.kind == RuleKind::Profiler)?;
        Some(other.parameters.iter().any(|known| known == rest))
    };
    rule.parameters.iter().any(|known| known == name) || (rule.name == REPORT && of_other() == Some(true))
}
