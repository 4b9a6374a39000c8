//! Suggests a supported version for an unknown one.

use super::image::{T0330, engine_in_framework, is_startable, own_family};
use super::neuron_image::neuron_version_too_old;
use trainc_catalog::images::{
    self, Framework, ImageFamily, ImageProblem, ImageQuery, closeness, version_key,
};
use trainc_catalog::instances;
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_engine::{has_library, of_job};
use trainc_ir::{ImageRequest, Job};

/// A container that supports the job.
struct Candidate {
    transformers: Option<String>,
    pytorch: String,
    python: Option<String>,
}

impl Candidate {
    /// Returns the version to suggest: of transformers if the image has one, otherwise of PyTorch.
    fn suggested_version(&self) -> &str {
        self.transformers.as_deref().unwrap_or(&self.pytorch)
    }

    /// Returns the properties of `image` to write, including others that have to change with the version.
    fn properties(&self, ask: &ImageRequest) -> String {
        let python =
            self.python.as_ref().filter(|python| ask.python.value().is_none_or(|old| old != *python));
        let python = python.map(|python| format!(" python=\"{python}\"")).unwrap_or_default();
        match &self.transformers {
            Some(version) if ask.pytorch.value().is_some_and(|old| *old == self.pytorch) => {
                format!("transformers=\"{version}\"{python}")
            }
            Some(version) => format!("transformers=\"{version}\" pytorch=\"{}\"{python}", self.pytorch),
            None => format!("version=\"{}\"{python}", self.pytorch),
        }
    }
}

/// Reports an unknown version and suggests versions that the job's engine, instance type and region support.
pub(super) fn unknown_version(
    (job, ask): (&Job, &ImageRequest),
    query: &ImageQuery,
    span: Span,
    (of, found, known): (&str, &str, &[String]),
) -> Diagnostic {
    let noun = if of == "pytorch" { "PyTorch" } else { of };
    let diagnostic = Diagnostic::new(
        &T0330,
        span,
        format!("no container with {noun} {}", if found.is_empty() { "`\"\"`" } else { found }),
    )
    .fact("known", known.to_vec());
    let candidates = candidates(job, query, known);
    let newest =
        candidates.iter().max_by_key(|one| (version_key(one.suggested_version()), version_key(&one.pytorch)));
    let nearest = candidates.iter().max_by_key(|one| {
        let version = one.suggested_version();
        let is_base_kept = one.pytorch == query.pytorch;
        (closeness(version, found), is_base_kept, version_key(version), version_key(&one.pytorch))
    });
    let (Some(nearest), Some(newest)) = (nearest, newest) else { return diagnostic };
    let newest = newest.suggested_version();
    let diagnostic = diagnostic.write(nearest.properties(ask));
    if nearest.suggested_version() == newest {
        diagnostic.and_text(", the newest version for this job")
    } else {
        diagnostic.and_text(&format!("; the newest version for this job is {newest}"))
    }
}

/// Returns the versions with a container that supports the job.
fn candidates(job: &Job, query: &ImageQuery, known: &[String]) -> Vec<Candidate> {
    let rows: Vec<(Option<String>, String)> = if query.framework == Framework::HuggingFace {
        let rows = images::of_family(ImageFamily::HuggingFace);
        rows.iter()
            .filter(|row| row.transformers.as_ref().is_some_and(|version| known.contains(version)))
            .map(|row| (row.transformers.clone(), row.pytorch.clone()))
            .collect()
    } else {
        known.iter().map(|version| (None, version.clone())).collect()
    };
    rows.into_iter()
        .filter_map(|(transformers, pytorch)| {
            let query = ImageQuery { transformers: transformers.as_deref(), pytorch: &pytorch, ..*query };
            let python = compatible_image(job, &query)?.python;
            Some(Candidate { transformers, pytorch, python })
        })
        .collect()
}

/// Returns the container if it supports the job: with the Python version as written if available, otherwise
/// the newest.
fn compatible_image(job: &Job, query: &ImageQuery) -> Option<images::Image> {
    let engine = of_job(job);
    let framework = match (engine, query.framework) {
        (Some(engine), Framework::PyTorch) if own_family(engine, query.pytorch).is_some() => Framework::SmpV2,
        (_, framework) => framework,
    };
    let query = ImageQuery { framework, ..*query };
    let found = match images::resolve(&query) {
        Err(ImageProblem::UnknownPython { known, .. }) => {
            images::resolve(&ImageQuery { python: known.last().map(String::as_str), ..query })
        }
        answer => answer,
    };
    let found = found.ok().filter(|found| !found.version_substituted)?;
    let row = instances::get(query.instance);
    let front = engine.map(|engine| engine_in_framework(engine, &query).front);
    let runs = framework == Framework::SmpV2
        || front
            .is_none_or(|front| !front.needs_library() || has_library(front, query.pytorch, row.as_ref()));
    let fits =
        runs && is_startable(job, &query, &found) && neuron_version_too_old(&found, query.instance).is_none();
    fits.then_some(found)
}
