//! Names in addresses that nobody has chosen yet: what a template or `import` writes in place of one.

use crate::codes;
use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::address::for_each_address;
use trainc_ir::{Field, Job, Raw, Scalar, s3};

// The name is not meant to be valid.
declare_code!(
    T0760,
    "placeholder-name",
    Error,
    "a placeholder in the name of a bucket or another resource",
    supersedes: { Value: [codes::T0254, codes::T0437, codes::T0439, codes::T0440] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0760];

/// The text that `import` writes for a value that only the account knows.
const MADE_UP: &str = "made-up";

/// The beginning of the names in templates.
const EXAMPLE: &str = "your-";

/// The fewest capital X in a row that are a blank to be filled in.
const BLANK: &str = "XXXX";

/// A part of an address that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder<'a> {
    /// Nobody can own it, or anybody.
    Blank(&'a str),
    /// As in an example. It may be the name of a resource.
    Example(&'a str),
}

/// Reports placeholders in addresses. Those of examples are only warnings until an account is asked: an
/// example can be checked, planned and emitted as it is.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let addresses = addresses(&context.plan.job);
    let mut places: Vec<(Placeholder, Vec<Span>)> = Vec::new();
    for (text, span) in &addresses {
        let Some(found) = find(text) else { continue };
        match places.iter_mut().find(|(known, _)| *known == found) {
            Some((_, spans)) if spans.contains(span) => {}
            Some((_, spans)) => spans.push(*span),
            None => places.push((found, vec![*span])),
        }
    }
    for (found, spans) in places {
        let Some((span, others)) = spans.split_first() else { continue };
        let (Placeholder::Blank(name) | Placeholder::Example(name)) = found;
        let words = format!("`{name}` is a placeholder, not the name of a resource");
        let one = Diagnostic::new(&T0760, *span, words);
        let one = others.iter().fold(one, |one, other| one.label(*other, "and here"));
        problems.push(match found {
            Placeholder::Blank(_) if name.contains(MADE_UP) => one
                .help(format!("write the real name in place of `{name}`"))
                .note("`import` writes `made-up-…` where only the account, or what the script computes \
                    from it, knows the value"),
            Placeholder::Blank(_) => one.help(format!("write the real name in place of `{name}`")),
            Placeholder::Example(_) => one
                .severity(if context.asks_account { Severity::Error } else { Severity::Warning })
                .help(format!("write your own name in place of `{name}`"))
                .note("a stranger may own the resource of this name; commands that ask an account refuse it"),
        });
    }
}

/// Returns the placeholder in an address, if it has one.
fn find(address: &str) -> Option<Placeholder<'_>> {
    if let Some(blank) = address.find('<').and_then(|at| address.get(at..)) {
        let end = blank.find('>').map(|end| end + 1);
        if let Some(blank) = end.and_then(|end| blank.get(..end)) {
            return Some(Placeholder::Blank(blank));
        }
    }
    let parts = || address.split(['/', ':', '.', '@', '=']);
    if let Some(part) = parts().find(|part| part.contains(BLANK) || has_word(part, MADE_UP)) {
        return Some(Placeholder::Blank(part));
    }
    // Below a bucket, the words of a key are the user's own.
    let names = match s3::parse(address) {
        Some(uri) => uri.bucket,
        None => address,
    };
    let part = names.split(['/', ':', '.', '@', '=']).find(|part| part.starts_with(EXAMPLE))?;
    Some(Placeholder::Example(part))
}

/// Returns whether a text contains words between characters that belong to no word.
fn has_word(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + words.len()..).and_then(|after| after.chars().next());
        [before, after].iter().all(|next| !next.is_some_and(char::is_alphanumeric))
    })
}

/// Returns the addresses of a job with their spans: every value that names a resource, and every text of the
/// program and of the request that is an S3 URI or an ARN.
fn addresses(job: &Job) -> Vec<(String, Span)> {
    let mut out: Vec<(String, Span)> = Vec::new();
    for_each_address(&mut job.clone(), &mut |field| add(&mut out, field, job.span));
    for channel in &job.channels {
        add(&mut out, &channel.dataset, channel.span);
        add(&mut out, &channel.hub, channel.span);
    }
    for storage in &job.storage {
        add(&mut out, &storage.id, storage.span);
    }
    for bucket in &job.buckets {
        add(&mut out, &bucket.name, bucket.span);
    }
    add(&mut out, &job.account, job.span);
    if let Some(image) = &job.image {
        add(&mut out, &image.uri, image.span);
    }
    if let Some(network) = &job.network {
        let ids = network.subnets.iter().chain(&network.security_groups);
        out.extend(ids.map(|id| (id.value.clone(), id.span_or(network.span))));
    }
    if let Some(program) = &job.program {
        add(&mut out, &program.git, program.span);
        for one in &program.hyperparameters {
            if let Some(Scalar::Text(text)) = one.value.value() {
                add_address(&mut out, text, one.value.span().unwrap_or(one.name_span));
            }
        }
        for pair in &program.environment {
            if let Some(text) = pair.value.value() {
                add_address(&mut out, text, pair.value.span().unwrap_or(pair.key_span));
            }
        }
        for word in program.entrypoint.iter().chain(&program.arguments) {
            add_address(&mut out, &word.value, word.span_or(program.span));
        }
    }
    for member in &job.request {
        add_raw(&mut out, &member.value);
    }
    out
}

fn add(out: &mut Vec<(String, Span)>, field: &Field<impl AsRef<str>>, fallback: Span) {
    out.extend(field.val().map(|val| (val.value.as_ref().to_owned(), val.span_or(fallback))));
}

/// Adds a text if it is an S3 URI or an ARN.
fn add_address(out: &mut Vec<(String, Span)>, text: &str, span: Span) {
    if text.starts_with("arn:") || s3::parse(text).is_some() {
        out.push((text.to_owned(), span));
    }
}

fn add_raw(out: &mut Vec<(String, Span)>, value: &Raw) {
    match value {
        Raw::Scalar(scalar) => {
            if let Scalar::Text(text) = &scalar.value {
                add_address(out, text, scalar.span);
            }
        }
        Raw::List(items) => items.iter().for_each(|item| add_raw(out, item)),
        Raw::Object(members) => members.iter().for_each(|member| add_raw(out, &member.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_found_in_every_part_of_an_address() {
        for (address, blank) in [
            ("s3://made-up-bucket/output/", "made-up-bucket"),
            ("s3://acme-made-up/output/", "acme-made-up"),
            ("s3://acme/made-up-value/output/", "made-up-value"),
            ("s3://<bucket>/output/", "<bucket>"),
            ("s3://acme/<team>/output/", "<team>"),
            ("arn:aws:iam::<account id>:role/training", "<account id>"),
            ("arn:aws:kms:us-west-2:111122223333:key/XXXXXXXX-XXXX", "XXXXXXXX-XXXX"),
            ("fs-XXXX", "fs-XXXX"),
            ("https://github.com/made-up/x.git", "made-up"),
            ("made-up-SubnetId", "made-up-SubnetId"),
        ] {
            assert_eq!(find(address), Some(Placeholder::Blank(blank)), "{address}");
        }
    }

    #[test]
    fn names_of_examples_are_told_apart() {
        for (address, name) in [
            ("s3://your-bucket/output/", "your-bucket"),
            ("arn:aws:iam::111122223333:role/your-role", "your-role"),
            ("https://github.com/your-org/x.git", "your-org"),
        ] {
            assert_eq!(find(address), Some(Placeholder::Example(name)), "{address}");
        }
    }

    #[test]
    fn names_that_someone_chose_are_none() {
        for name in [
            "s3://example-runs/output/",
            "s3://acme-runs/your-tts/",
            "s3://acme-runs/a<b/c",
            "s3://unmade-upper/x/",
            "s3://acme-runs/XXX/",
            "s3://sagemaker-us-west-2-${account}/x/",
            "arn:aws:iam::111122223333:role/training",
            "123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1",
            "subnet-0123456789abcdef0",
        ] {
            assert_eq!(find(name), None, "{name}");
        }
    }
}
