//! What is named twice where once is meant: subnets and security groups, and channels that share a variable.

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

/// Both.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    if let Some(network) = &context.plan.job.network {
        listed(network, &network.subnets, "subnet", problems);
        listed(network, &network.security_groups, "security group", problems);
    }
    channels(context.plan, problems);
}

fn listed(network: &Network, values: &[Val<String>], noun: &str, problems: &mut Problems) {
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    for value in values {
        let span = value.span_or(network.span);
        if let Some(first) = seen.insert(&value.value, span) {
            problems.push(
                Diagnostic::new(&T0507, span, format!("{noun} `{}` is named twice", value.value))
                    .label(first, "the first time")
                    .help("remove one of the two, or name the one that was meant"),
            );
        }
    }
}

/// The toolkit names a channel's directory in `SM_CHANNEL_<NAME>`, in capitals whatever the name is.
fn channels(plan: &Plan, problems: &mut Problems) {
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
                    format!("channels `{first}` and `{}` share the variable `SM_CHANNEL_{variable}`", name.value),
                )
                .label(*at, "the other")
                .help("give one of them another name")
                .note("the variable holds the directory of one of them (aws/sagemaker-training-toolkit @3383937 (2025-09-19) environment.py)"),
            );
        } else {
            seen.insert(variable, (&name.value, span));
        }
    }
}
