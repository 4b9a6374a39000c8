//! Jobs of one run against each other: names, and prefixes that they would both write to.

use super::manifests::Manifest;
use crate::declare_code;
use crate::diag::{Code, Diagnostic};
use crate::ir::plan::DIGEST_MARK;
use crate::ir::{Plan, Val};
use crate::source::Span;

declare_code!(T0142, "duplicate-job", Error, "two manifests describe jobs of one name");
declare_code!(T0467, "prefix-of-two-jobs", Warning, "two jobs that write to one S3 prefix");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0142, &T0467];

/// Reports at the later of two manifests, in the order of the run.
pub(super) fn judge(manifests: &mut [Manifest]) {
    names(manifests);
    prefixes(manifests);
}

fn names(manifests: &mut [Manifest]) {
    let mut seen: Vec<(String, String, Option<Span>)> = Vec::new();
    for manifest in manifests {
        let Some(job) = manifest.compiled.job.clone() else { continue };
        let span = manifest.compiled.plan.as_ref().and_then(|plan| plan.job.name.span());
        if let Some((_, first, first_span)) = seen.iter().find(|(name, _, _)| *name == job) {
            if let Some(span) = span {
                let mut diagnostic =
                    Diagnostic::new(&T0142, span, format!("`{first}` describes a job `{job}` as well"))
                        .help("give one of them another name: names tell jobs apart in the account");
                if let Some(first_span) = first_span {
                    diagnostic = diagnostic.label(*first_span, "the other");
                }
                manifest.compiled.problems.push(diagnostic);
                manifest.compiled.problems.sort();
            }
        } else {
            seen.push((job, manifest.path.clone(), span));
        }
    }
}

/// One prefix that a job writes to as it stands: SageMaker puts the job's name below all others.
struct Written {
    what: &'static str,
    uri: String,
    span: Span,
}

fn written(plan: &Plan) -> Vec<Written> {
    let mut out = Vec::new();
    let mut put = |what: &'static str, val: Option<&Val<String>>| {
        let Some(val) = val.filter(|val| !val.value.contains(DIGEST_MARK)) else { return };
        let Some(span) = val.origin.span() else { return };
        out.push(Written { what, uri: format!("{}/", val.value.trim_end_matches('/')), span });
    };
    put("checkpoint", plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.val()));
    for storage in &plan.job.storage {
        for link in &storage.exports {
            put("export", link.s3.val());
        }
    }
    out
}

/// Whether the job silences the warning, with a date that has not passed.
fn allows(manifest: &Manifest, plan: &Plan) -> bool {
    let named = |allow: &crate::ir::Allow| {
        allow.code.value().is_some_and(|code| code == T0467.id || code == T0467.name)
    };
    plan.job.allows.iter().any(named)
        && !manifest.compiled.problems.iter().any(|diagnostic| diagnostic.code.id == "T0242")
}

fn prefixes(manifests: &mut [Manifest]) {
    let mut seen: Vec<(String, Written)> = Vec::new();
    for manifest in manifests {
        let (Some(job), Some(plan)) = (manifest.compiled.job.clone(), &manifest.compiled.plan) else {
            continue;
        };
        let mut found: Vec<Diagnostic> = Vec::new();
        let silenced = allows(manifest, plan);
        let mine = written(plan);
        for one in &mine {
            let clash = seen.iter().find(|(other, theirs)| {
                *other != job
                    && theirs.what == one.what
                    && (theirs.uri.starts_with(&one.uri) || one.uri.starts_with(&theirs.uri))
            });
            let Some((other, theirs)) = clash else { continue };
            let mut diagnostic = Diagnostic::new(
                &T0467,
                one.span,
                format!("jobs `{other}` and `{job}` write their {}s to one place", one.what),
            )
            .help(format!("put `{{{{ job.digest }}}}` into `{}`: it differs from job to job", one.what))
            .note("run at the same time, each overwrites the other's files; run one after the other, the second begins with the first's");
            // One layer may say it for both.
            if theirs.span != one.span {
                diagnostic = diagnostic.label(theirs.span, format!("of `{other}`"));
            }
            found.push(diagnostic);
        }
        seen.extend(mine.into_iter().map(|one| (job.clone(), one)));
        if found.is_empty() || silenced {
            continue;
        }
        // What one of them says of its checkpoints alone is said with it.
        let spans: Vec<Span> = found.iter().map(|diagnostic| diagnostic.span).collect();
        let problems = &mut manifest.compiled.problems;
        problems.retain(|diagnostic| diagnostic.code.id != "T0448" || !spans.contains(&diagnostic.span));
        for diagnostic in found {
            problems.push(diagnostic);
        }
        problems.sort();
    }
}
