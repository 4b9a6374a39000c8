//! Built-in rules of the debugger and the profiler, as members of the request: each runs in AWS's image of
//! the region.

use trainc_catalog::debugger_rules;
use trainc_diag::source::{Span, Spanned};
use trainc_ir::job::MonitoringRule;
use trainc_ir::{Job, Raw, Region, RequestMember, Scalar};

/// Adds the members of the rules. A member that the manifest writes itself stays as it is; a rule of the
/// checks reports it.
pub(super) fn add_rules(mut job: Job, region: Option<&Region>) -> Job {
    let Some(image) = region.and_then(|region| debugger_rules::image(&region.name)) else { return job };
    // The debugger is left out of the request of an engine that it does not support.
    let is_left_out = trainc_engine::of_job(&job).is_some_and(|engine| !engine.front.takes_debugger);
    let debugger =
        job.debugger.iter().filter(|_| !is_left_out).flat_map(|node| &node.rules).collect::<Vec<_>>();
    let profiler = job.profiler.iter().flat_map(|node| &node.rules).collect::<Vec<_>>();
    let members: Vec<RequestMember> =
        [("DebugRuleConfigurations", debugger), ("ProfilerRuleConfigurations", profiler)]
            .into_iter()
            .filter_map(|(name, rules)| {
                let span = rules.first()?.name_span();
                let items = rules.into_iter().map(|rule| configuration(rule, &image)).collect();
                Some(RequestMember { name: name.to_owned(), span, value: Raw::List(items) })
            })
            .collect();
    for member in members {
        if !job.request.iter().any(|other| other.name == member.name) {
            job.request.push(member);
        }
    }
    job
}

fn configuration(rule: &MonitoringRule, image: &str) -> Raw {
    let span = rule.name_span();
    let name = debugger_rules::get(&rule.name.value).map_or(rule.name.value.as_str(), |found| found.name);
    let own = rule.parameters.iter().filter_map(|pair| {
        let value = pair.value.value()?;
        Some(member(&pair.key, pair.key_span, text(value, pair.value.span().unwrap_or(pair.key_span))))
    });
    let invoked = member("rule_to_invoke", span, text(name, span));
    Raw::Object(vec![
        member("RuleConfigurationName", span, text(name, span)),
        member("RuleEvaluatorImage", span, text(image, span)),
        member("RuleParameters", span, Raw::Object(own.chain([invoked]).collect())),
    ])
}

fn member(name: &str, span: Span, value: Raw) -> RequestMember {
    RequestMember { name: name.to_owned(), span, value }
}

fn text(value: &str, span: Span) -> Raw {
    Raw::Scalar(Spanned::new(Scalar::Text(value.to_owned()), span))
}
