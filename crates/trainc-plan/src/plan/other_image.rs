//! Images of frameworks other than PyTorch and of built-in algorithms.

use super::image::{FULL_INSTANCE, FULL_REGION, T0330, T0336, UnknownInputs, family_span, image_problem};
use trainc_catalog::images::{self, Framework, ImageProblem, ImageQuery, OtherQuery};
use trainc_catalog::instances;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::{Image, ImageRequest, Job, Origin, Region};

/// Returns the image of a family of the catalogue's second table.
pub(super) fn other_image(
    job: &Job,
    ask: &ImageRequest,
    family: &str,
    region: Option<&Region>,
    problems: &mut Problems,
) -> Option<Image> {
    let mut is_supported = true;
    for (field, name) in [(&ask.pytorch, "pytorch"), (&ask.transformers, "transformers")] {
        if let Some(span) = field.span() {
            is_supported = false;
            problems.push(
                Diagnostic::new(&T0336, span, format!("image `{family}` does not support `{name}`"))
                    .remove(format!("{name}=")),
            );
        }
    }
    if !is_supported || ask.version.is_bad() {
        return None;
    }
    let written = job.container_instance();
    let known = written.filter(|name| instances::instance_exists(name));
    if matches!(written, Some("custom" | "local")) {
        return None;
    }
    let query = OtherQuery {
        family,
        version: ask.version.value().map(String::as_str),
        python: ask.python.value().map(String::as_str),
        region: region.map_or(FULL_REGION, |region| region.name.as_str()),
        instance: known.unwrap_or(FULL_INSTANCE),
    };
    let problem = match images::resolve_other(&query) {
        Ok(found) => {
            return (region.is_some() && known.is_some()).then(|| Image {
                uri: found.uri,
                family: "own".to_owned(),
                pytorch: None,
                transformers: None,
                python: found.python,
                patch_window: None,
                toolkit: true,
                sdk_v2: false,
                origin: Origin::Catalogue {
                    row: format!("images {}:{}", found.repository, found.tag),
                    source: found.provenance.source,
                    date: found.provenance.date,
                },
            });
        }
        Err(problem) => problem,
    };
    // The shape of a query of the first table, for the messages that both share.
    let shared = ImageQuery {
        framework: Framework::PyTorch,
        pytorch: query.version.unwrap_or_default(),
        transformers: None,
        python: query.python,
        region: query.region,
        instance: query.instance,
        smdistributed: false,
    };
    let unknown = UnknownInputs { region: region.is_none(), instance: known.is_none(), engine: false };
    if unknown.causes_problem(&problem, &shared, ask) {
        return None;
    }
    problems.push(match &problem {
        ImageProblem::UnknownVersion { known, .. } => unknown_version(ask, family, known),
        other => image_problem((job, ask), &shared, other),
    });
    None
}

/// Reports a version that the family does not have, or that is missing.
fn unknown_version(ask: &ImageRequest, family: &str, known: &[String]) -> Diagnostic {
    let newest = images::newest_other(family).unwrap_or_default();
    let Some(version) = ask.version.val() else {
        return Diagnostic::new(&T0336, family_span(ask), format!("image `{family}` requires `version=`"))
            .write(format!("image \"{family}\" version=\"{newest}\""));
    };
    let written = images::other_version_key(&version.value);
    let key = |known: &&String| images::other_version_key(known);
    let has_same_major = |known: &&String| key(known).first() == written.first();
    let later = |known: &&String| key(known) > written;
    let near = (known.iter().filter(has_same_major).find(later))
        .or_else(|| known.iter().rfind(has_same_major))
        .or_else(|| known.iter().find(later))
        .unwrap_or(&newest);
    let recent = known.get(known.len().saturating_sub(8)..).unwrap_or_default();
    Diagnostic::new(
        &T0330,
        version.span_or(ask.span),
        format!("no `{family}` container has version {}", version.value),
    )
    .write(format!("version=\"{near}\""))
    .note(format!("versions: {}", text::list(recent, "and")))
}
