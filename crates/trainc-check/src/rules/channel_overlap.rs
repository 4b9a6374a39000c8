//! Channels with overlapping data, and input buckets in another region.

use crate::Context;
use crate::queries::{file_system, s3};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Channel, Plan};

declare_code!(
    T0479,
    "bucket-name-region-mismatch",
    Warning,
    "input from a bucket whose name contains another region"
);
declare_code!(T0490, "channels-overlap", Note, "two channels with overlapping data");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0479, &T0490];

/// Checks the prefixes and file system paths of the channels.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    check_overlaps(plan, problems);
    check_regions(plan, problems);
}

/// Returns the location of a channel's data, in a form whose prefixes are its parents, and its span.
fn location(channel: &Channel) -> Option<(String, Span)> {
    if let Some(from) = channel.from.val() {
        if channel.path.is_bad() {
            return None;
        }
        let path = file_system::enclose_in_slashes(channel.path.value().map_or("/", String::as_str));
        return Some((
            format!("{}:{path}", from.value),
            channel.path.span().unwrap_or(from.span_or(channel.span)),
        ));
    }
    // An S3 URI without a bucket is reported by another rule.
    let uri = channel.s3.val().filter(|uri| s3::parse(&uri.value).is_some_and(|at| !at.bucket.is_empty()))?;
    Some((uri.value.to_string(), uri.span_or(channel.span)))
}

fn check_overlaps(plan: &Plan, problems: &mut Problems) {
    let places: Vec<(&Channel, String, Span)> = plan
        .job
        .channels
        .iter()
        .filter_map(|channel| location(channel).map(|(place, span)| (channel, place, span)))
        .collect();
    for (at, (later, place, span)) in places.iter().enumerate() {
        let other = places
            .iter()
            .take(at)
            .find(|(_, other, _)| place.starts_with(other.as_str()) || other.starts_with(place.as_str()));
        let Some((earlier, same, earlier_span)) = other else { continue };
        let name = |channel: &Channel| channel.name.value().cloned().unwrap_or_default();
        let what = if same == place { "read the same data" } else { "overlap" };
        let diagnostic = Diagnostic::new(
            &T0490,
            *span,
            format!("channels `{}` and `{}` {what}", name(earlier), name(later)),
        )
        .label(*earlier_span, "the other channel");
        problems.push(if later.from.is_absent() {
            diagnostic.note("data in both channels is downloaded to every node twice")
        } else {
            let mounted = "the file system is mounted twice".to_owned();
            diagnostic.note(if same == place {
                mounted
            } else {
                mounted + "; a test set inside the training set would be used for training"
            })
        });
    }
}

fn check_regions(plan: &Plan, problems: &mut Problems) {
    let Some(region) = &plan.region else { return };
    let channels = plan.job.channels.iter().flat_map(|channel| {
        [&channel.s3, &channel.manifest, &channel.augmented_manifest, &channel.converse]
            .into_iter()
            .filter_map(|field| field.val())
            .map(|val| (val, channel.span))
    });
    let links = plan
        .job
        .storage
        .iter()
        .flat_map(|storage| &storage.imports)
        .filter_map(|link| Some((link.s3.val()?, link.span)));
    for (uri, fallback) in channels.chain(links) {
        let Some(parts) = s3::parse(&uri.value) else { continue };
        let named = parts.region.or_else(|| s3::region_in_name(parts.bucket));
        let Some(named) = named.filter(|named| *named != region.name) else { continue };
        if trainc_catalog::regions::get(named).is_none() {
            continue;
        }
        let what = if parts.region.is_some() { "the address of bucket" } else { "the name of bucket" };
        let why = if parts.region.is_some() {
            "input data and imports must be in the job's region (botocore, S3DataSource; FSx for \
                Lustre guide)"
        } else {
            "input data and imports must be in the job's region (botocore, S3DataSource; FSx for \
                Lustre guide); the name follows the pattern of the SageMaker SDK's default bucket"
        };
        let help = if parts.region.is_some() {
            "copy the data to a bucket in the job's region".to_owned()
        } else {
            format!("use bucket `sagemaker-{}-…`, or copy the data there", region.name)
        };
        problems.push(
            Diagnostic::new(
                &T0479,
                uri.span_or(fallback),
                format!(
                    "{what} `{}` contains region {named}, but the job is in {}",
                    parts.bucket, region.name
                ),
            )
            .label(plan.job.region.span().unwrap_or(plan.job.span), "the job's region")
            .help(help)
            .note(why),
        );
    }
}
