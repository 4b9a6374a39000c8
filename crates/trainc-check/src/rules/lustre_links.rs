//! S3 links of a new Lustre file system: number, paths and prefixes.

use crate::queries::file_system::{self, Association};
use crate::Context;
use crate::queries::s3;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Storage;
use trainc_ir::plan::DIGEST_MARK;

declare_code!(T0474, "too-many-links", Error, "more S3 links than a file system supports");
declare_code!(T0475, "link-paths-overlap", Error, "two S3 links with overlapping paths in the file system");
declare_code!(T0476, "link-prefixes-overlap", Error, "two S3 links with overlapping S3 prefixes");
declare_code!(T0477, "invalid-link-path", Error, "an S3 link with an invalid path in the file system");
declare_code!(T0478, "link-with-digest", Error, "an S3 link whose prefix changes with every edit of the job");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0474, &T0475, &T0476, &T0477, &T0478];

/// Checks the links of each file system that trainc creates.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    for storage in context.plan.job.storage.iter().filter(|storage| file_system::is_created_lustre(storage)) {
        if file_system::valid_combination(storage).is_some_and(|legal| !legal.associations) {
            // Another rule reports that this deployment type does not support links.
            continue;
        }
        check_digests(storage, problems);
        let paths_valid = check_paths(storage, problems);
        let associations = file_system::associations(storage);
        check_count(&associations, problems);
        if paths_valid {
            check_overlaps(&associations, problems);
        }
    }
}

fn check_paths(storage: &Storage, problems: &mut Problems) -> bool {
    let before = problems.errors();
    let shape = shapes::member_at_path("CreateDataRepositoryAssociation", "FileSystemPath");
    for link in storage.imports.iter().chain(&storage.exports) {
        let Some(path) = link.path.val() else { continue };
        let span = path.span_or(link.span);
        if path.value.split('/').any(|part| part == "..") {
            problems.push(
                Diagnostic::new(&T0477, span, format!("path `{}` contains `..`", path.value))
                    .note("FileSystemPath maps one directory of the file system to one prefix \
                        (botocore, CreateDataRepositoryAssociation)"),
            );
        } else if !path.value.starts_with('/') {
            let fixed = format!("\"/{}\"", path.value);
            problems.push(
                Diagnostic::new(&T0477, span, format!("path `{}` does not start with `/`", path.value))
                    .help(format!("write `path={fixed}`"))
                    .fix(span, fixed)
                    .note("the leading slash of FileSystemPath is required (botocore, \
                        CreateDataRepositoryAssociation)"),
            );
        } else if let Some(fixed) = file_system::remove_empty_components(&path.value) {
            let fixed = format!("\"{fixed}\"");
            problems.push(
                Diagnostic::new(&T0477, span, format!("path `{}` is not normalized", path.value))
                    .help(format!("write `path={fixed}`"))
                    .fix(span, fixed)
                    .note("Lustre ignores empty components and `.`, but trainc compares paths literally"),
            );
        } else if shape.as_ref().is_some_and(|shape| !shape.takes_text(&path.value)) {
            problems.push(
                Diagnostic::new(&T0477, span, "the path contains a line break or is too long")
                    .note("FileSystemPath has at most 4,096 characters and no line break (botocore, \
                        CreateDataRepositoryAssociation)"),
            );
        }
    }
    problems.errors() == before
}

fn check_digests(storage: &Storage, problems: &mut Problems) {
    for link in storage.imports.iter().chain(&storage.exports) {
        let Some(uri) = link.s3.val().filter(|uri| uri.value.contains(DIGEST_MARK)) else { continue };
        problems.push(
            Diagnostic::new(
                &T0478,
                uri.span_or(link.span),
                "the prefix of a link must not contain the job's digest",
            )
            .help("link a prefix that all runs share, and let the script write below it")
            .note("the file system outlives edits of the job, and each of its paths is linked to one prefix"),
        );
    }
}

fn check_count(associations: &[Association], problems: &mut Problems) {
    let Some(limit) = limits::get("fsx.associations") else { return };
    let most = usize::try_from(limit.value).unwrap_or(usize::MAX);
    if let Some(first_over) = associations.get(most) {
        problems.push(
            Diagnostic::new(
                &T0474,
                first_over.span,
                format!("{} S3 links; a file system supports at most {most}", associations.len()),
            )
            .help("link a common parent prefix, and set `path` on the channels")
            .note(format!("at most {} {} ({})", limit.value, limit.statement, limit.provenance.source))
            .fact("most", limit.value),
        );
    }
}

fn check_overlaps(associations: &[Association], problems: &mut Problems) {
    for (at, later) in associations.iter().enumerate() {
        let earlier = associations.iter().take(at);
        if let Some(other) = earlier.clone().find(|other| nested(&other.path, &later.path)) {
            let shown = file_system::trim_trailing_slash;
            let diagnostic = Diagnostic::new(
                &T0475,
                later.span,
                if other.path == later.path {
                    format!("two S3 prefixes are linked to `{}`", shown(&later.path))
                } else {
                    format!("`{}` and `{}` overlap", shown(&later.path), shown(&other.path))
                },
            )
            .label(other.span, format!("linked to `{}`", shown(&other.path)))
            .note("paths of data repository associations must not overlap, and `/` is only valid for a \
                single association (botocore, CreateDataRepositoryAssociation)");
            problems.push(match last_part(&later.s3).filter(|_| !later.path_written) {
                Some(part) => {
                    diagnostic.help(format!("give each link its own path, e.g. `path=\"/{part}\"` here"))
                }
                None => diagnostic.help("give each link its own path"),
            });
        } else if let Some(other) = earlier.clone().find(|other| nested(&other.s3, &later.s3)) {
            problems.push(
                Diagnostic::new(
                    &T0476,
                    later.s3_span,
                    if other.s3 == later.s3 {
                        format!("`{}` is linked twice", s3::show_digest_placeholder(&later.s3))
                    } else {
                        format!("`{}` and `{}` overlap", s3::show_digest_placeholder(&later.s3), s3::show_digest_placeholder(&other.s3))
                    },
                )
                .label(other.s3_span, "the other link")
                .help("link the common parent once; import and export of one prefix must use the same path")
                .note("S3 prefixes of a file system's data repository associations must not overlap \
                    (botocore, CreateDataRepositoryAssociation)"),
            );
        }
    }
}

/// Returns whether one path contains the other; both end with `/`.
fn nested(a: &str, b: &str) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

fn last_part(s3: &str) -> Option<&str> {
    let key = s3::parse(s3)?.key.trim_end_matches('/');
    key.rsplit('/').next().filter(|part| !part.is_empty())
}
