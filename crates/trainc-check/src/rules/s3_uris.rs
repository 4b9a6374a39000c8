//! S3 URIs: scheme, bucket name, length.

use crate::Context;
use crate::queries::s3::{ROLE_READ, uris};
use std::borrow::Cow;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::s3::{self, Uri};
use trainc_ir::{ACCOUNT_MARK, Bucket};

declare_code!(T0439, "invalid-s3-uri", Error, "an invalid S3 URI");
declare_code!(T0590, "literal-s3-pattern", Warning, "a pattern or an empty directory in an S3 key");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0439, &T0590];

/// Checks each S3 URI.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let longest = shapes::member_at_path("CreateTrainingJob", "OutputDataConfig.S3OutputPath")
        .and_then(|shape| shape.max)
        .unwrap_or(f64::MAX);
    for bucket in &context.plan.job.buckets {
        check_bucket(bucket, problems);
    }
    for (field, fallback, what) in uris(context.plan) {
        let Some(uri) = field.val() else { continue };
        let span = uri.span_or(fallback);
        let length = uri.value.chars().count();
        if length as f64 > longest {
            problems.push(
                Diagnostic::new(
                    &T0439,
                    span,
                    format!("`{what}` has {length} characters; SageMaker accepts at most {longest}"),
                )
                .note("`S3Uri` and `S3OutputPath`, botocore's model of CreateTrainingJob"),
            );
        }
        // The policy adds its own wildcards after the prefix; one inside would be taken literally.
        if what == ROLE_READ && uri.value.contains(['*', '?']) {
            let prefix = uri.value.split(['*', '?']).next().unwrap_or_default();
            let prefix = prefix.rsplit_once('/').map_or(prefix, |(head, _)| head);
            problems.push(
                Diagnostic::new(
                    &T0439,
                    span,
                    format!(
                        "`{what}`: `{}` contains a wildcard, but a prefix already grants everything below it",
                        uri.value
                    ),
                )
                .help(format!("write `\"{prefix}/\"` to grant read access to everything below it")),
            );
            continue;
        }
        // CreateTrainingJob accepts web URLs, and only these fields are sent as written.
        let accepts_web = what.starts_with("channel") && s3::parse(&uri.value).is_some();
        let checked = if accepts_web { to_s3_uri(&uri.value) } else { Cow::Borrowed(uri.value.as_str()) };
        // Show the placeholder instead of the mark for the digest, which is not known yet.
        let shown = uri.value.replace(DIGEST_MARK, "{{ job.digest }}");
        if let Some(fault) = fault(&checked) {
            let diagnostic = Diagnostic::new(&T0439, span, format!("`{what}`: `{shown}` {}", fault.why));
            let diagnostic = match fault.note {
                Some(note) => diagnostic.note(note),
                None => diagnostic,
            };
            // A fix with the bound text would replace the placeholder.
            let bound = context.sources.slice(span).contains("{{");
            problems.push(match fault.instead.filter(|_| !bound) {
                Some(instead) => {
                    diagnostic.help(format!("write `\"{instead}\"`")).fix(span, format!("\"{instead}\""))
                }
                None => diagnostic,
            });
        } else if let Some((why, help)) = pattern(&checked) {
            problems.push(
                Diagnostic::new(&T0590, span, format!("`{what}`: `{shown}` {why}"))
                    .help(help)
                    .note("a key is plain text: SageMaker lists the objects whose keys start with it"),
            );
        }
    }
}

/// Checks the name of a bucket of another account.
fn check_bucket(bucket: &Bucket, problems: &mut Problems) {
    let Some(name) = bucket.name.val() else { return };
    let Some(why) = bucket_name_error(&name.value) else { return };
    let span = name.span_or(bucket.span);
    let words = format!("`bucket`: `{}` is an invalid bucket name, {why}", name.value);
    let one = Diagnostic::new(&T0439, span, words);
    let bare = s3::parse(&name.value).map(|uri| uri.bucket).filter(|bare| bucket_name_error(bare).is_none());
    problems.push(match bare {
        Some(bare) => one.help(format!("write `\"{bare}\"`")).fix(span, format!("\"{bare}\"")),
        None => one,
    });
}

/// Returns why a key is probably not meant as it is written, and what to write.
fn pattern(uri: &str) -> Option<(&'static str, String)> {
    let key = s3::parse(uri)?.key;
    // The mark of the account has braces, and so has a name that the program replaces.
    let literal = key.replace(ACCOUNT_MARK, "0");
    if !literal.contains("${") && literal.contains(['*', '?', '{', '}']) {
        let end = uri.len() - key.len() + key.find(['*', '?', '{', '}', '$']).unwrap_or_default();
        let prefix = uri.get(..end).and_then(|head| head.rsplit_once('/')).map_or(uri, |(head, _)| head);
        return Some((
            "contains a pattern, which S3 does not expand",
            format!("write the prefix of the objects, `\"{prefix}/\"`, or a channel for each of them"),
        ));
    }
    if literal.contains("//") || literal.starts_with('/') {
        let head = uri.get(..uri.len() - key.len())?;
        let parts: Vec<&str> = key.split('/').filter(|part| !part.is_empty()).collect();
        let end = if key.ends_with('/') { "/" } else { "" };
        return Some((
            "contains `//`, which is another key than `/`",
            format!("write `\"{head}{}{end}\"`", parts.join("/").replace(DIGEST_MARK, "{{ job.digest }}")),
        ));
    }
    None
}

struct Fault {
    why: String,
    instead: Option<String>,
    note: Option<String>,
}

/// Returns what is wrong with a URI, and a replacement if that one is valid.
fn fault(uri: &str) -> Option<Fault> {
    let mut found = first_fault(uri)?;
    if let Some(instead) = found.instead.take() {
        found.instead = match first_fault(&instead) {
            None => Some(instead),
            // Two faults, e.g. a missing slash and uppercase letters: fix both or none.
            Some(second) => second.instead.filter(|instead| first_fault(instead).is_none()),
        };
    }
    Some(found)
}

fn first_fault(uri: &str) -> Option<Fault> {
    let plain = |why: &str, instead: Option<String>| Some(Fault { why: why.to_owned(), instead, note: None });
    let Some(rest) = uri.strip_prefix("s3://") else {
        let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
        if matches!(scheme.to_ascii_lowercase().as_str(), "s3" | "s3a" | "s3n") {
            return plain("has an invalid scheme: expected `s3://`", Some(format!("s3://{rest}")));
        }
        if scheme.eq_ignore_ascii_case("https") {
            let instead = s3::parse(&format!("https://{rest}")).map(|parts| format_s3_uri(&parts));
            return plain("is a web URL: an S3 URI starts with `s3://`", instead);
        }
        if scheme.is_empty() && rest.starts_with("s3:/") {
            return plain(
                "is missing a slash after `s3:/`",
                Some(format!("s3://{}", rest.trim_start_matches("s3:/"))),
            );
        }
        let instead = bucket_of_arn(uri).map(|path| format!("s3://{path}"));
        return plain("is not an S3 URI: it does not start with `s3://`", instead);
    };
    let (bucket, key) = rest.split_once('/').map_or((rest, None), |(bucket, key)| (bucket, Some(key)));
    // The ARN of an access point takes the place of a bucket's name, that of a bucket does not.
    if let Some(path) = bucket_of_arn(rest) {
        return plain("contains the ARN of a bucket in place of its name", Some(format!("s3://{path}")));
    }
    if bucket.starts_with("arn:") {
        return None;
    }
    // Any account ID will do while the account is not known.
    let checked = bucket.replace(ACCOUNT_MARK, "000000000000");
    let why = bucket_name_error(&checked)?;
    let lower = bucket.to_ascii_lowercase().replace('_', "-");
    let instead =
        (lower == bucket.to_ascii_lowercase() && lower != bucket && bucket_name_error(&lower).is_none())
            .then(|| key.map_or_else(|| format!("s3://{lower}"), |key| format!("s3://{lower}/{key}")));
    Some(Fault {
        why: format!("has an invalid bucket name `{bucket}`, {why}"),
        instead,
        note: limits::get("s3.bucket-name").map(|limit| limit.provenance.source.clone()),
    })
}

/// Returns bucket and key of `arn:aws:s3:::bucket/key`.
fn bucket_of_arn(text: &str) -> Option<&str> {
    text.strip_prefix("arn:")?.split_once(":s3:::").map(|(_, path)| path)
}

/// Converts a web URL of S3 to `s3://bucket/key`; returns any other text unchanged.
fn to_s3_uri(uri: &str) -> Cow<'_, str> {
    match s3::parse(uri).filter(|_| !uri.starts_with("s3://")) {
        Some(parts) => Cow::Owned(format_s3_uri(&parts)),
        None => Cow::Borrowed(uri),
    }
}

fn format_s3_uri(parts: &Uri<'_>) -> String {
    format!("s3://{}/{}", parts.bucket, parts.key)
}

/// Returns why a bucket name is invalid (Amazon S3 user guide, bucket naming rules).
fn bucket_name_error(bucket: &str) -> Option<String> {
    let (min, max) = (limits::get("s3.bucket-name-min")?.value, limits::get("s3.bucket-name")?.value);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if bucket.is_empty() {
        return Some("which is empty".to_owned());
    }
    if let Some(odd) =
        bucket.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.')))
    {
        return Some(if odd.is_ascii_uppercase() {
            "which contains uppercase letters".to_owned()
        } else {
            format!("which contains `{odd}`")
        });
    }
    let length = bucket.len() as u64;
    if length < min || length > max {
        return Some(format!("which has {}, not {min} to {max}", text::count(length, "character")));
    }
    if !ends(bucket.chars().next()) || !ends(bucket.chars().last()) {
        return Some("which does not start and end with a letter or digit".to_owned());
    }
    if bucket.contains("..") {
        return Some("which contains two adjacent dots".to_owned());
    }
    let parts: Vec<&str> = bucket.split('.').collect();
    if parts.len() == 4
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    {
        return Some("which is formatted as an IP address".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_web_urls_to_s3_uris() {
        assert_eq!(to_s3_uri("https://bucket.s3.us-west-2.amazonaws.com/x/y"), "s3://bucket/x/y");
        assert_eq!(to_s3_uri("https://s3.us-west-2.amazonaws.com/a/x"), "s3://a/x");
        assert_eq!(to_s3_uri("https://example.com/x"), "https://example.com/x");
    }

    #[test]
    fn finds_patterns_in_keys() {
        for (uri, help) in [
            ("s3://a-bucket/x/*.csv", "write the prefix of the objects, `\"s3://a-bucket/x/\"`"),
            ("s3://a-bucket/{train,test}/", "write the prefix of the objects, `\"s3://a-bucket/\"`"),
            ("s3://a-bucket//x//y/", "write `\"s3://a-bucket/x/y/\"`"),
        ] {
            let found = pattern(uri).expect(uri).1;
            assert!(found.starts_with(help), "{uri}: {found}");
        }
        for fine in [
            "s3://a-bucket/x/y/",
            "s3://a-bucket",
            "s3://sagemaker-us-east-1-${account}/${account}/x",
            "s3://a-bucket/",
        ] {
            assert!(pattern(fine).is_none(), "{fine}");
        }
        assert!(pattern(&format!("s3://a-bucket/{DIGEST_MARK}/")).is_none());
    }

    #[test]
    fn validates_s3_uris() {
        for good in [
            "s3://example-runs/a/b/",
            "s3://a.b-c9",
            "s3://sagemaker-us-east-1-${account}/x",
            "s3://arn:aws:s3:us-west-2:111122223333:accesspoint/x/y",
        ] {
            assert!(fault(good).is_none(), "{good}");
        }
        for (bad, instead) in [
            ("S3://bucket/x", Some("s3://bucket/x")),
            ("s3a://bucket/x", Some("s3://bucket/x")),
            ("s3:/bucket/x", Some("s3://bucket/x")),
            ("s3://Bucket/x", Some("s3://bucket/x")),
            ("s3:/Bucket/x", Some("s3://bucket/x")),
            ("s3:/your_Bucket/x", None),
            ("s3://arn:aws:s3:::a-bucket/x/", Some("s3://a-bucket/x/")),
            ("arn:aws:s3:::a-bucket/x/", Some("s3://a-bucket/x/")),
            ("s3a://my_bucket/x", None),
            ("https://s3.us-west-2.amazonaws.com/a/x", None),
            ("https://bucket.s3.us-west-2.amazonaws.com/x/y", Some("s3://bucket/x/y")),
            ("https://s3.us-west-2.amazonaws.com/bucket/x", Some("s3://bucket/x")),
            ("https://bucket.s3.us-west-2.amazonaws.com/x?X-Amz-Signature=1", None),
            ("https://example.com/bucket/x", None),
            ("/data/train", None),
            ("s3://my_bucket/x", None),
            ("s3://runs-${role_arn}/x", None),
            ("s3://ab/x", None),
            ("s3://192.168.5.4/x", None),
            ("s3:///x", None),
        ] {
            assert_eq!(fault(bad).expect(bad).instead.as_deref(), instead, "{bad}");
        }
    }
}
