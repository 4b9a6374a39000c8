//! A channel takes from exactly one place, and has the settings that such a place has.

use crate::check::{Context, file_system};
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::{Channel, Field, Plan};
use crate::source::Span;
use crate::text;

declare_code!(T0483, "channel-source", Error, "a channel that takes from no place, or from several");
declare_code!(T0484, "unknown-storage", Error, "a channel from a storage that does not exist");
declare_code!(T0485, "unused-storage", Warning, "a storage that no channel uses");
declare_code!(T0487, "channel-setting", Error, "a setting that this kind of channel does not have");
declare_code!(T0488, "channel-input", Error, "an input mode that this kind of channel does not have");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0483, &T0484, &T0485, &T0487, &T0488];

/// Judges each channel, then what no channel uses.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    for channel in &plan.job.channels {
        if one_source(channel, problems) {
            settings(channel, problems);
            input(channel, problems);
        }
        unknown(plan, channel, problems);
    }
    unused(plan, problems);
}

fn name(channel: &Channel) -> &str {
    channel.name.value().map_or("", String::as_str)
}

/// The place where a field was written; `None` if it was not.
fn at<T>(field: &Field<T>, channel: &Channel) -> Option<Span> {
    (!field.is_absent()).then(|| field.span().unwrap_or(channel.span))
}

fn one_source(channel: &Channel, problems: &mut Problems) -> bool {
    let sources = [
        ("s3", &channel.s3),
        ("manifest", &channel.manifest),
        ("augmented-manifest", &channel.augmented_manifest),
        ("from", &channel.from),
    ];
    let written: Vec<(&str, Span)> =
        sources.iter().filter_map(|(name, field)| Some((*name, at(field, channel)?))).collect();
    match written.as_slice() {
        [_] => true,
        [] => {
            problems.push(
                Diagnostic::new(&T0483, channel.span, format!("channel `{}` does not say where its data are", name(channel)))
                    .help("add `s3=\"s3://bucket/prefix/\"`, or `from=\"…\"` with the name of a `storage`")
                    .note("DataSource of a channel is required (botocore, CreateTrainingJob)"),
            );
            false
        }
        [(_, first), rest @ ..] => {
            let names: Vec<&str> = written.iter().map(|(name, _)| *name).collect();
            let diagnostic = Diagnostic::new(
                &T0483,
                rest.first().map_or(*first, |(_, span)| *span),
                format!("channel `{}` takes from {} at once", name(channel), text::ticked(&names, "and")),
            )
            .label(*first, "one place");
            problems.push(diagnostic.help("keep one, and make a channel of its own for the other").note("a channel has one DataSource (botocore, CreateTrainingJob)"));
            false
        }
    }
}

fn settings(channel: &Channel, problems: &mut Problems) {
    let mut refuse = |span: Option<Span>, setting: &str, kind: &str, why: &str| {
        if let Some(span) = span {
            problems.push(
                Diagnostic::new(&T0487, span, format!("`{setting}` has no meaning for {kind}"))
                    .label(channel.span, format!("channel `{}`", name(channel)))
                    .help(format!("remove `{setting}`"))
                    .note(why),
            );
        }
    };
    if channel.from.is_absent() {
        let (kind, why) = ("a channel from S3", "it is a member of FileSystemDataSource, and would be ignored (botocore, CreateTrainingJob)");
        refuse(at(&channel.path, channel), "path", kind, why);
        refuse(at(&channel.mode, channel), "mode", kind, why);
        if channel.augmented_manifest.is_absent() {
            refuse(
                at(&channel.attributes, channel),
                "attributes",
                "a channel without an augmented manifest",
                "AttributeNames goes with AugmentedManifestFile (botocore, S3DataSource)",
            );
        }
        return;
    }
    let kind = "a channel from a file system";
    let why = "it is a setting of S3 data, and would be ignored or refused (botocore, CreateTrainingJob)";
    refuse(at(&channel.shard, channel), "shard", kind, "every host sees the whole file system; S3DataDistributionType is a member of S3DataSource");
    refuse(at(&channel.groups, channel), "groups", kind, why);
    refuse(at(&channel.attributes, channel), "attributes", kind, why);
    refuse(at(&channel.compression, channel), "compression", kind, "CompressionType goes with Pipe mode, a file system with File mode (botocore, Channel)");
    refuse(at(&channel.record_wrapper, channel), "record-wrapper", kind, "RecordWrapperType goes with Pipe mode, a file system with File mode (botocore, Channel)");
    refuse(at(&channel.shuffle_seed, channel), "shuffle-seed", kind, "ShuffleConfig shuffles S3 keys (botocore, Channel)");
}

fn input(channel: &Channel, problems: &mut Problems) {
    let word = channel.input.value().map(String::as_str);
    let span = channel.input.span().unwrap_or(channel.span);
    if !channel.from.is_absent() {
        if let Some(word @ ("fast-file" | "pipe")) = word {
            problems.push(
                Diagnostic::new(&T0488, span, format!("a file system is mounted, not read as `{word}`"))
                    .help("remove `input`, or write `input=\"file\"`")
                    .fix(span, "\"file\"")
                    .note("an EFS or FSx channel takes File mode only (botocore, DataSource)"),
            );
        }
    } else if !channel.augmented_manifest.is_absent() {
        if word != Some("pipe") && !channel.input.is_bad() {
            let diagnostic = Diagnostic::new(&T0488, span, "an augmented manifest is read as `pipe` only")
                .help("add `input=\"pipe\"`")
                .note("AugmentedManifestFile can only be used with Pipe input mode (botocore, S3DataSource)");
            problems.push(if channel.input.is_absent() { diagnostic } else { diagnostic.fix(span, "\"pipe\"") });
        }
    } else if !channel.manifest.is_absent() && word == Some("fast-file") {
        problems.push(
            Diagnostic::new(&T0488, span, "fast file mode takes an S3 prefix, not a manifest")
                .help("write `input=\"file\"`, or name a prefix with `s3=`")
                .fix(span, "\"file\"")
                .note("FastFile supports S3Prefix alone (botocore, TrainingInputMode)"),
        );
    }
}

fn unknown(plan: &Plan, channel: &Channel, problems: &mut Problems) {
    let Some(from) = channel.from.val() else { return };
    if file_system::of(plan, &from.value).is_some() || plan.job.storage.iter().any(|storage| storage.name.is_bad()) {
        return;
    }
    let span = from.span_or(channel.span);
    let names: Vec<&str> = plan.job.storage.iter().map(file_system::name).collect();
    let diagnostic = Diagnostic::new(&T0484, span, format!("there is no storage `{}`", from.value));
    problems.push(match text::nearest(&from.value, names.iter().copied()) {
        Some(near) => diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\"")),
        None if names.is_empty() => diagnostic
            .help(format!("add `storage \"lustre\" name=\"{}\" id=\"fs-…\" mount=\"…\"`", from.value))
            .note("the job has no `storage`"),
        None => diagnostic.note(format!("there is {}", text::ticked(&names, "and"))),
    });
}

fn unused(plan: &Plan, problems: &mut Problems) {
    let names: Vec<&str> = plan.job.storage.iter().map(file_system::name).collect();
    // A channel whose `from` is unusable or misspelt may mean any of them.
    let unclear = plan.job.channels.iter().any(|channel| {
        channel.from.is_bad() || channel.from.value().is_some_and(|from| !names.contains(&from.as_str()))
    });
    if unclear {
        return;
    }
    for storage in &plan.job.storage {
        let (Some(name), Some(_)) = (storage.name.value(), storage.kind.value()) else { continue };
        if plan.job.channels.iter().any(|channel| channel.from.value() == Some(name)) {
            continue;
        }
        let diagnostic = Diagnostic::new(&T0485, storage.span, format!("no channel takes from `{name}`"))
            .help(format!("add `channel \"train\" from=\"{name}\"`, or remove the storage"));
        let costs = if file_system::is_made(storage) { file_system::monthly_usd(plan, storage) } else { None };
        problems.push(match costs {
            Some((usd, price)) => diagnostic
                .note(format!("it would be made, and cost {} a month ({}, {})", text::dollars(usd), price.region, price.provenance.date))
                .fact("usd_per_month", usd),
            None if file_system::is_made(storage) => diagnostic.note("it would be made and paid for, and the job would not see it"),
            None => diagnostic.note("the job would not see it"),
        });
    }
}
