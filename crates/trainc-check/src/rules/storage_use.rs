//! Storages and the channels that use them.

use crate::Context;
use crate::queries::file_system;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Prices, Problems};
use trainc_ir::{Channel, Plan};

declare_code!(T0484, "unknown-storage", Error, "a channel from a storage that does not exist");
declare_code!(T0485, "unused-storage", Warning, "a storage that no channel uses");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0484, &T0485];

/// Checks that each channel's storage exists and each storage is used.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    for channel in &plan.job.channels {
        check_exists(plan, channel, problems);
    }
    check_used(plan, problems);
}

fn check_exists(plan: &Plan, channel: &Channel, problems: &mut Problems) {
    let Some(from) = channel.from.val() else { return };
    if file_system::find_storage(plan, &from.value).is_some()
        // A storage without a valid name, reported elsewhere, may be the intended one.
        || plan.job.storage.iter().any(|storage| storage.name.value().is_none_or(String::is_empty))
    {
        return;
    }
    let span = from.span_or(channel.span);
    let names: Vec<&str> = plan.job.storage.iter().map(file_system::name).collect();
    let diagnostic = Diagnostic::new(&T0484, span, format!("unknown storage `{}`", from.value));
    problems.push(match text::nearest(&from.value, names.iter().copied()) {
        Some(near) => diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\"")),
        None if names.is_empty() => diagnostic
            .help(format!("add `storage \"lustre\" name=\"{}\" id=\"fs-…\" mount=\"…\"`", from.value))
            .note("the job has no `storage`"),
        None => diagnostic.note(format!("available: {}", text::backtick_list(&names, "and"))),
    });
}

fn check_used(plan: &Plan, problems: &mut Problems) {
    let names: Vec<&str> = plan.job.storage.iter().map(file_system::name).collect();
    // A channel with an invalid or unknown `from` may refer to any of them.
    let unclear = plan.job.channels.iter().any(|channel| {
        channel.from.is_bad() || channel.from.value().is_some_and(|from| !names.contains(&from.as_str()))
    });
    if unclear {
        return;
    }
    for storage in &plan.job.storage {
        // A storage without a name is reported by another rule.
        let name = storage.name.value().filter(|name| !name.is_empty());
        let (Some(name), Some(_)) = (name, storage.kind.value()) else { continue };
        if plan.job.channels.iter().any(|channel| channel.from.value() == Some(name)) {
            continue;
        }
        let diagnostic = Diagnostic::new(&T0485, storage.span, format!("no channel uses `{name}`"))
            .add(format!("channel \"train\" from=\"{name}\"")).or_else("remove the storage");
        let costs =
            if file_system::is_created_lustre(storage) { file_system::monthly_usd(plan, storage) } else { None };
        problems.push(match costs {
            Some((usd, price)) => diagnostic
                .note(Note::cost(format!(
                    "it would be created and cost {} per month ({})",
                    text::dollars(usd),
                    price.catalogue_row().unwrap_or_else(|| price.source.clone())
                )))
                .prices(Prices::Named)
                .fact("usd_per_month", usd),
            None if file_system::is_created_lustre(storage) => {
                diagnostic.note("it would be created and billed, but not mounted")
            }
            None => diagnostic.note("it would not be mounted"),
        });
    }
}
