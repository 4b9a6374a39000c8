//! From documents, recordings of scripts and described jobs to compiled manifests in files.

use crate::destination::{Destination, manifest_directory, source_outside_root, write_all};
use crate::origin::Fill;
use crate::{
    Imported, Origin, Recording, import_all, import_document, import_text, rename_duplicates, several_jobs,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use trainc_apply::account::TrainingJob;
use trainc_check::codes::T0760;
use trainc_check::compile;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_diag::{Diagnostic, Problems, Severity};
use trainc_plan::{Compiled, Options};
use trainc_project::files::{Files, is_excluded_from_archive};
use trainc_project::manifest_paths::root_of;

/// Why nothing was imported.
#[derive(Debug)]
pub enum Refusal {
    /// The input has problems.
    Problems(SourceMap, Problems),
    /// An argument cannot be used.
    Usage {
        /// What is wrong.
        reason: String,
        /// What to type.
        help: Option<String>,
    },
}

impl Refusal {
    /// Refuses an input that has one problem.
    pub fn problem(sources: SourceMap, problem: Diagnostic) -> Self {
        let mut problems = Problems::default();
        problems.push(problem);
        Self::Problems(sources, problems)
    }
}

/// A job with the path of its manifest.
pub(crate) struct Destined {
    pub(crate) imported: Imported,
    pub(crate) out: Option<PathBuf>,
    name: String,
}

/// An imported job whose manifest was written, or is to be printed.
pub struct Converted {
    /// The job and its manifest.
    pub imported: Imported,
    /// File of the manifest.
    pub out: Option<PathBuf>,
    /// Name of the manifest for display.
    pub name: String,
    /// The manifest, compiled.
    pub compiled: Compiled,
    /// Texts of the manifest.
    pub sources: SourceMap,
}

/// A document or script.
struct Input {
    source: SourceId,
    sources: SourceMap,
}

/// Imports the requests of a document.
pub fn convert_document(
    to: &Destination,
    options: &Options,
    shown: &str,
    text: &str,
) -> Result<Vec<Converted>, Refusal> {
    let mut sources = SourceMap::default();
    let source = sources.add(shown, text);
    let mut found = Problems::default();
    let Some(jobs) = import_all(source, shown, text, &mut found) else {
        return Err(Refusal::Problems(sources, found));
    };
    let mut jobs: Vec<Vec<Imported>> = jobs.into_iter().map(|job| vec![job]).collect();
    // The plain ones are the last way.
    for fill in Fill::WAYS.iter().rev().filter(|fill| fill.values && !fill.file) {
        for (ways, job) in jobs.iter_mut().zip(import_text(text, &Origin::filled(*fill))) {
            ways.insert(0, job);
        }
    }
    convert_jobs(to, options, Input { source, sources }, jobs)
}

/// Imports a training job of an account.
pub fn convert_described(
    to: &Destination,
    options: &Options,
    shown: &str,
    job: TrainingJob,
) -> Result<Vec<Converted>, Refusal> {
    convert_document(to, options, shown, &to_describe_response(job).to_string())
}

/// Imports the requests that a script sent; `text` is that of the script.
pub fn convert_recording(
    to: &Destination,
    options: &Options,
    script: &Path,
    text: &str,
    recording: &mut Recording,
) -> Result<Vec<Converted>, Refusal> {
    let shown = script.to_string_lossy();
    let mut sources = SourceMap::default();
    let source = sources.add(&*shown, text);
    for source in recording.sources.values_mut() {
        source.others.retain(|name| !is_excluded_from_archive(name.trim_end_matches('/')));
    }
    let directory = manifest_directory(to.out.as_deref());
    if let Some(refusal) = source_outside_root(script, to, recording, &directory) {
        return Err(refusal);
    }
    let mut jobs = Vec::new();
    for document in &recording.documents {
        let mut origin = Origin::from_recording(&shown, document, recording, &directory);
        let mut all: Vec<Vec<Imported>> = Vec::new();
        let ways = Fill::WAYS.iter().map(|fill| (*fill, true)).chain([(Fill::default(), false)]);
        for (fill, has_sources) in ways {
            origin.fill = fill;
            if !has_sources {
                origin.forget_sources();
            }
            for (at, job) in import_document(&document.value, &origin).into_iter().enumerate() {
                match all.get_mut(at) {
                    Some(others) => others.push(job),
                    None => all.push(vec![job]),
                }
            }
        }
        jobs.append(&mut all);
    }
    convert_jobs(to, options, Input { source, sources }, jobs)
}

/// Compiles and writes the manifests of jobs. Each job comes in several ways, the best one first: with what
/// is known of its training and the source of its program, or without them where they cannot be used.
fn convert_jobs(
    to: &Destination,
    options: &Options,
    input: Input,
    mut jobs: Vec<Vec<Imported>>,
) -> Result<Vec<Converted>, Refusal> {
    let many = jobs.len() > 1;
    if many && to.out.is_none() && to.prints_one {
        return Err(Refusal::problem(input.sources, several_jobs(input.source, jobs.len())));
    }
    rename_duplicates(&mut jobs);
    let mut done: Vec<Destined> = Vec::new();
    for ways in jobs {
        let Some(first) = ways.first() else { continue };
        let out = to.manifest_of(&first.job, many);
        let name = out.as_ref().map_or_else(|| "<imported>".to_owned(), |out| out.display().to_string());
        done.extend(best(options, &name, ways).map(|imported| Destined { imported, out, name }));
    }
    write_all(to, &done).map_err(|reason| {
        let reason = format!("{reason}; nothing was written");
        Refusal::Usage { reason, help: None }
    })?;
    Ok(done.into_iter().map(|job| review(options, job)).collect())
}

/// Compiles a manifest that has been written, for its problems.
fn review(options: &Options, job: Destined) -> Converted {
    let Destined { imported, out, name } = job;
    let (mut compiled, sources) = compiled(options, &name, &imported.manifest);
    if imported.outcome.is_none() {
        // A request has no outcome to review.
        compiled.problems.retain(|problem| problem.severity == Severity::Error);
    }
    Converted { imported, out, name, compiled, sources }
}

/// Returns the first way in which a job has the fewest errors, and the fewest differences of its request. It
/// says why a source is not used.
fn best(options: &Options, name: &str, ways: Vec<Imported>) -> Option<Imported> {
    let mut best: Option<(Imported, (usize, usize))> = None;
    let mut refused: Vec<String> = Vec::new();
    let mut first: Option<Vec<String>> = None;
    for way in ways {
        let way = way.reconcile(|manifest| compiled(options, name, manifest).0);
        let (found, sources) = compiled(options, name, &way.manifest);
        let errors =
            found.problems.iter().filter(|one| one.severity == Severity::Error && one.code.id != T0760.id);
        let errors: Vec<String> = errors.map(|one| one.masked(&sources).message).collect();
        let faults = (errors.len(), way.lost.len());
        if way.has_source && refused.is_empty() {
            refused.clone_from(&errors);
        }
        first.get_or_insert(errors);
        if best.as_ref().is_none_or(|(_, least)| faults < *least) {
            best = Some((way, faults));
        }
        if faults == (0, 0) {
            break;
        }
    }
    let (mut best, (errors, _)) = best?;
    let first = first.unwrap_or_default();
    if errors < first.len() && best.has_source {
        best.unsupported.extend(
            first
                .iter()
                .map(|message| format!("not written, because the manifest would have an error: {message}")),
        );
    }
    if !best.has_source {
        best.unsupported.extend(refused.iter().map(|message| format!("`program source=`: {message}")));
    }
    Some(best)
}

fn compiled(options: &Options, name: &str, manifest: &str) -> (Compiled, SourceMap) {
    let mut sources = SourceMap::default();
    let source = sources.add(name, manifest);
    // As for a manifest that has been written.
    let root = root_of(&manifest_directory(Some(Path::new(name))).join("job.kdl"), None);
    let compiled = compile(source, manifest, options, &mut Files::new(root, options), &mut sources);
    (compiled, sources)
}

/// Returns a training job in the form of a DescribeTrainingJob response.
fn to_describe_response(job: TrainingJob) -> Value {
    let mut members = match job.request {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    let mut add = |name: &str, value: Value| {
        if !value.is_null() {
            members.insert(name.to_owned(), value);
        }
    };
    add("TrainingJobName", job.name.into());
    add("TrainingJobArn", job.arn.into());
    add("TrainingJobStatus", job.status.into());
    add("FailureReason", job.failure.into());
    add("CreationTime", job.created.into());
    add("TrainingTimeInSeconds", job.training_seconds.into());
    add("BillableTimeInSeconds", job.billable_seconds.into());
    Value::Object(members)
}
