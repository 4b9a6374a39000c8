//! Duplicates: subnets and security groups listed twice, and channels that share an environment variable.

use crate::Context;
use std::collections::BTreeMap;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Network, Plan, Val};

declare_code!(T0507, "duplicate-vpc-id", Error, "a subnet or security group that is listed twice");
declare_code!(T0508, "channel-name-collision", Warning, "two channels whose names differ only by case");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0507, &T0508];

/// Checks the VPC IDs and the channel names.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    if let Some(network) = &context.plan.job.network {
        check_ids(network, &network.subnets, "subnet", problems);
        check_ids(network, &network.security_groups, "security group", problems);
    }
    check_channels(context.plan, problems);
}

fn check_ids(network: &Network, values: &[Val<String>], noun: &str, problems: &mut Problems) {
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    for value in values {
        let span = value.span_or(network.span);
        if let Some(first) = seen.insert(&value.value, span) {
            problems.push(
                Diagnostic::new(&T0507, span, format!("{noun} `{}` is listed twice", value.value))
                    .label(first, "first listed here")
                    .help("remove one of them, or correct the ID"),
            );
        }
    }
}

/// Reports channels that share a variable: the toolkit sets `SM_CHANNEL_<NAME>` in upper case.
fn check_channels(plan: &Plan, problems: &mut Problems) {
    let mut seen: BTreeMap<String, (&str, Span)> = BTreeMap::new();
    for channel in &plan.job.channels {
        let Some(name) = channel.name.val() else { continue };
        let span = name.span_or(channel.span);
        let variable = name.value.to_uppercase();
        if let Some((first, at)) = seen.get(&variable) {
            problems.push(
                Diagnostic::new(
                    &T0508,
                    span,
                    format!("channels `{first}` and `{}` share the environment variable \
                        `SM_CHANNEL_{variable}`", name.value),
                )
                .label(*at, "the other channel")
                .help("rename one of them")
                .note("the variable can hold only one directory (aws/sagemaker-training-toolkit \
                    @3383937 (2025-09-19) environment.py)"),
            );
        } else {
            seen.insert(variable, (&name.value, span));
        }
    }
}
