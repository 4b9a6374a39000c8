//! Channels: reserved names, S3 prefixes and input modes.

use crate::Context;
use crate::queries::s3;
use trainc_catalog::reserved_names::{self, Kind};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_ir::{Channel, Job};

declare_code!(T0419, "reserved-channel", Error, "a channel name that trainc uses itself");
declare_code!(T0409, "prefix-without-slash", Note, "an S3 prefix that does not end with a slash");
declare_code!(T0432, "channel-input-conflict", Error, "incompatible input settings of a channel");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0409, &T0419, &T0432];

/// Checks each channel separately.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let isolated = plan.job.network.as_ref().and_then(|network| network.isolation.get()) == Some(true);
    let toolkit = plan.job.program.as_ref().is_some_and(|program| program.entrypoint.is_empty())
        && !plan.is_worker();
    for channel in &plan.job.channels {
        check_input(&plan.job, channel, problems);
        check_slash(context, channel, problems);
        let Some(name) = channel.name.val() else { continue };
        if let Some(row) = reserved_names::get(Kind::Channel, &name.value).filter(|_| isolated && toolkit) {
            problems.push(
                Diagnostic::new(
                    &T0419,
                    name.span_or(channel.span),
                    format!("channel name `{}` is reserved for {}", name.value, row.statement),
                )
                .help("use another name, e.g. `\"data\"`")
                .note(format!("set by {} ({})", row.set_by, row.provenance.source)),
            );
        }
    }
}

/// Endings of objects without an extension: the files of MNIST, a marker of Hadoop.
const OBJECT_ENDINGS: [&str; 2] = ["-ubyte", "_SUCCESS"];

/// Returns whether the last component of a key names a single object: it has an extension, a known ending, or
/// the number of a part, which writers pad with zeros (`part-00000`, `000000_0`, `data-00003-of-00010`).
fn is_object_name(name: &str) -> bool {
    let is_padded = |word: &str| {
        word.len() >= 5 && word.starts_with('0') && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.contains('.')
        || OBJECT_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.split(['-', '_']).any(is_padded)
}

/// CTJ-52a: `s3://b/train` also matches `train2/…`.
fn check_slash(context: &Context, channel: &Channel, problems: &mut Problems) {
    let Some(uri) = channel.s3.val() else { return };
    let last = uri.value.rsplit('/').next().unwrap_or("");
    let is_bucket = s3::parse(&uri.value).is_none_or(|parts| parts.key.is_empty());
    if last.is_empty() || is_object_name(last) || is_bucket {
        return;
    }
    let span = uri.span_or(channel.span);
    let literal = format!("\"{}/\"", uri.value);
    let diagnostic = Diagnostic::new(
        &T0409,
        span,
        format!("`{last}` is a key prefix: the channel also matches `{last}2/…`"),
    )
    .note("`S3Uri` of S3DataSource, botocore's model of CreateTrainingJob");
    problems.push(if context.sources.slice(span).contains("{{") {
        diagnostic.help("end a directory with `/`")
    } else {
        diagnostic.write(format!("s3={literal}")).fix(span, literal)
    });
}

/// CTJ-12, 48, 49, 50: input modes, from the documentation of CreateTrainingJob.
fn check_input(job: &Job, channel: &Channel, problems: &mut Problems) {
    let mode = job.input_mode(channel);
    let mode_span = channel.input.span().or_else(|| job.input_mode_member().map(|member| member.span));
    let name = channel.name.value().map_or("", String::as_str);
    let mut reject = |span: Option<trainc_diag::source::Span>, message: String, help: Help| {
        problems.push(
            Diagnostic::new(&T0432, span.or(mode_span).unwrap_or(channel.span), message)
                .help(help)
                .note("documentation of Channel and S3DataSource, botocore's model of CreateTrainingJob"),
        );
    };
    if channel.input.is_bad() {
        return;
    }
    let other = [
        (&channel.manifest, "a manifest"),
        (&channel.augmented_manifest, "a manifest"),
        (&channel.converse, "conversations"),
    ];
    if let Some((_, what)) =
        other.iter().find(|(field, _)| !field.is_absent()).filter(|_| mode == "fast-file")
    {
        reject(
            mode_span,
            format!("channel `{name}`: fast-file mode requires an S3 prefix, not {what}"),
            Help::write("input=\"file\"").or_else("`s3=` with a prefix"),
        );
    }
    if !channel.from.is_absent() && mode != "file" {
        reject(
            mode_span,
            format!("channel `{name}`: a file system requires input mode `file`, not `{mode}`"),
            Help::remove("input"),
        );
    }
    if !channel.augmented_manifest.is_absent() && mode != "pipe" {
        reject(
            channel.augmented_manifest.span(),
            format!("channel `{name}`: an augmented manifest requires pipe mode, not `{mode}`"),
            Help::add("input=\"pipe\""),
        );
    }
    if !channel.augmented_manifest.is_absent() && channel.attributes.is_absent() {
        reject(
            channel.augmented_manifest.span(),
            format!("channel `{name}`: an augmented manifest requires attribute names"),
            Help::add("attributes=\"source-ref,label\""),
        );
    }
    if channel.compression.value().map(String::as_str) == Some("gzip") && mode != "pipe" {
        reject(
            channel.compression.span(),
            format!("channel `{name}`: gzip is only decompressed in pipe mode, not in `{mode}`"),
            Help::from("remove `compression` and decompress in the program, or add `input=\"pipe\"`"),
        );
    }
    if channel.record_wrapper.value().map(String::as_str) == Some("recordio") && mode != "pipe" {
        reject(
            channel.record_wrapper.span(),
            format!("channel `{name}`: recordio is only supported in pipe mode, not in `{mode}`"),
            Help::remove("record-wrapper").or_else("add `input=\"pipe\"`"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::is_object_name;

    #[test]
    fn objects_are_told_from_directories_by_their_names() {
        for object in [
            "train.csv",
            "model.tar.gz",
            "part-00000",
            "000000_0",
            "shard_00012",
            "data-00003-of-00010",
            "train-images-idx3-ubyte",
            "_SUCCESS",
        ] {
            assert!(is_object_name(object), "{object}");
        }
        for directory in ["train", "tokens-2026", "v3", "run-12", "run-0001", "step-2000", "2026-11-28", "c4-en"] {
            assert!(!is_object_name(directory), "{directory}");
        }
    }
}
