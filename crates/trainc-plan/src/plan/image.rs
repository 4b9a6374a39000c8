//! The container: from versions as written to the registry path of the region.

use super::neuron_image::{self, neuron_gap, substituted, too_old};
use super::newest;
use super::other_version;
use super::own_image::own;
use super::smp::is_smp_v2;
use crate::resolve::T0220;
use trainc_catalog::images::{self, Framework, ImageProblem, ImageQuery};
use trainc_catalog::{instances, support};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Engine, Image, ImageAsk, Job, Origin, Region};

declare_code!(T0330, "unknown-image-version", Error, "no Deep Learning Container has this version");
declare_code!(
    T0331,
    "unknown-image-python",
    Error,
    "no Deep Learning Container of this version has this Python version"
);
declare_code!(
    T0332,
    "unknown-image-combination",
    Error,
    "no Deep Learning Container combines these two versions"
);
declare_code!(T0333, "mixed-version-lengths", Error, "one version is short and the other is full");
declare_code!(
    T0334,
    "region-without-image",
    Error,
    "the Deep Learning Container is not available in the region"
);
declare_code!(
    T0335,
    "image-instance-mismatch",
    Error,
    "the Deep Learning Container does not support the instance type"
);
declare_code!(T0336, "image-incomplete", Error, "`image` does not identify a container");
declare_code!(T0337, "smp-image-version", Error, "no SMP v2 container exists for the PyTorch version");

/// The codes of this file.
pub(super) static CODES: &[&Code] =
    &[&T0330, &T0331, &T0332, &T0333, &T0334, &T0335, &T0336, &T0337, &neuron_image::T0399];

/// The container of the job; `None` where it is not known.
pub(super) fn image(job: &Job, region: Option<&Region>, problems: &mut Problems) -> Option<Image> {
    let engine = job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
    let Some(ask) = &job.image else {
        if engine == Some(Engine::Worker) {
            return newest::worker(job, region?);
        }
        if job.needs_program {
            let name = job.name.value().map_or("", String::as_str);
            let fit = newest::fitting(job, region);
            problems.push(
                Diagnostic::new(&T0220, job.span, format!("job `{name}` has no `image`"))
                    .help(format!("add `{fit}`"))
                    .note(if fit == newest::NONE {
                        "no container of the catalogue fits engine, region and instance type; `trainc catalog images` lists all"
                    } else {
                        "the newest container that fits; `trainc catalog images` lists all"
                    }),
            );
        }
        return None;
    };
    if let Some(uri) = ask.uri.val() {
        return Some(own(&uri.value, uri.origin.clone()));
    }
    if ask.uri.is_bad() || ask.family.is_bad() {
        return None;
    }
    let Some(family) = ask.family.value().map(String::as_str) else {
        problems.push(
            Diagnostic::new(&T0336, ask.span, "`image` names neither a family nor a `uri`")
                .help(format!("write `{}`, or `image uri=\"…\"`", newest::fitting(job, region))),
        );
        return None;
    };
    // Without a region or an instance type the versions are judged all the same, in the place that has most.
    let written = job.container_instance();
    if matches!(written, Some("custom" | "local")) {
        return None;
    }
    let known = written.filter(|name| instances::instance_exists(name));
    let instance = known.unwrap_or(FULL_INSTANCE);
    let unknown = Unknown { region: region.is_none(), instance: known.is_none(), engine: engine.is_none() };
    let (pytorch, transformers) =
        versions(ask, family, &|| newest::of_family(job, region, family), problems)?;
    let smp_v2 = engine == Some(Engine::Smp) && is_smp_v2(&pytorch);
    let query = ImageQuery {
        framework: match family {
            "huggingface" => Framework::HuggingFace,
            _ if smp_v2 => Framework::SmpV2,
            _ => Framework::PyTorch,
        },
        pytorch: &pytorch,
        transformers: transformers.as_deref(),
        python: ask.python.value().map(String::as_str),
        region: region.map_or(FULL_REGION, |region| region.name.as_str()),
        instance,
        smdistributed: matches!(engine, Some(Engine::Smp | Engine::Smddp)),
    };
    let mut answer = images::resolve(&query);
    // Another Python is one fault, and of the container that is meant: what else is wrong with that one is said too.
    let meant = match &answer {
        Err(ImageProblem::UnknownPython { known, .. }) if !ask.python.is_bad() => {
            images::resolve(&ImageQuery { python: known.last().map(String::as_str), ..query }).ok()
        }
        _ => None,
    };
    if let Some(meant) = meant {
        if let Err(problem) = answer.as_ref()
            && !meant.version_substituted
        {
            problems.push(refused((job, ask), &query, problem));
        }
        answer = Ok(meant);
    }
    if let Some(gap) = answer.as_ref().ok().and_then(|found| neuron_gap(found, instance)) {
        problems.push(too_old(ask, instance, &gap));
        return None;
    }
    match answer {
        Ok(found) if found.version_substituted => {
            problems.push(substituted(ask, &found, instance));
            None
        }
        Ok(_) if unknown.region || unknown.instance => None,
        Err(problem) if unknown.explains(&problem, &query, ask) => None,
        Ok(found) => Some(Image {
            sdk_v2: sdk_v2_takes(job, &query, &found.sdk),
            uri: found.uri,
            family: if smp_v2 { "smp".to_owned() } else { family.to_owned() },
            pytorch: Some(found.pytorch_full_version),
            transformers: found.transformers_full_version,
            python: found.python,
            patch_window: found.patch_window,
            toolkit: true,
            origin: Origin::Catalogue {
                row: format!("images {}:{}", found.repository, found.tag),
                source: found.provenance.source,
                date: found.provenance.date,
            },
        }),
        Err(problem) => {
            problems.push(refused((job, ask), &query, &problem));
            // Which Pythons there are hangs on the version; how one is spelled does not.
            if !matches!(problem, ImageProblem::UnknownPython { .. })
                && let Some(misspelled) = misspelled_python(ask)
            {
                problems.push(misspelled);
            }
            None
        }
    }
}

/// A Python that no container has, whatever its version: theirs are `py` and digits.
fn misspelled_python(ask: &ImageAsk) -> Option<Diagnostic> {
    let written = ask.python.val()?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if written.value.strip_prefix("py").is_some_and(digits) {
        return None;
    }
    let meant: String = written.value.chars().filter(char::is_ascii_digit).collect();
    let diagnostic = Diagnostic::new(
        &T0331,
        written.span_or(ask.span),
        format!("`{}` is no container's Python; expected `py` and digits, as `py312`", written.value),
    );
    Some(if meant.is_empty() { diagnostic } else { diagnostic.help(format!("write `python=\"py{meant}\"`")) })
}

/// A region that has every container.
pub(super) const FULL_REGION: &str = "us-west-2";
/// An instance type that every GPU container serves.
pub(super) const FULL_INSTANCE: &str = "ml.p4d.24xlarge";

/// What of the job is not known, because it is missing or of a problem already reported.
struct Unknown {
    region: bool,
    instance: bool,
    engine: bool,
}

impl Unknown {
    /// Whether the catalogue's answer comes of what is unknown.
    fn explains(&self, problem: &ImageProblem, query: &ImageQuery, ask: &ImageAsk) -> bool {
        match problem {
            ImageProblem::RegionWithoutImage { .. } => self.region,
            ImageProblem::UnsupportedProcessor { .. }
            | ImageProblem::BadInstanceName { .. }
            | ImageProblem::InstanceDeprecated { .. } => self.instance,
            ImageProblem::UnknownPython { .. } => ask.python.is_bad(),
            // Engine `smp` has containers of its own.
            ImageProblem::UnknownVersion { .. } => {
                self.engine
                    && query.framework == Framework::PyTorch
                    && images::resolve(&ImageQuery { framework: Framework::SmpV2, ..*query }).is_ok()
            }
            ImageProblem::MissingTransformers
            | ImageProblem::UnknownCombination { .. }
            | ImageProblem::MixedVersionLengths { .. }
            | ImageProblem::SmpUnknownVersion { .. } => false,
        }
    }
}

/// The versions that the family needs, or a problem for each that is missing or out of place.
fn versions(
    ask: &ImageAsk,
    family: &str,
    fitting: &dyn Fn() -> String,
    problems: &mut Problems,
) -> Option<(String, Option<String>)> {
    let mut fine = true;
    let mut stray = |field: &trainc_ir::Field<String>, name: &str, instead: &dyn Fn() -> String| {
        if let Some(span) = field.span() {
            problems.push(
                Diagnostic::new(&T0336, span, format!("image `{family}` has no `{name}`")).help(instead()),
            );
            fine = false;
        }
    };
    if family == "pytorch" {
        stray(&ask.pytorch, "pytorch", &|| "write `version=` instead".to_owned());
        stray(&ask.transformers, "transformers", &|| {
            "write `image \"huggingface\" transformers=… pytorch=…`".to_owned()
        });
    } else {
        stray(&ask.version, "version", &|| format!("write `{}`", fitting()));
    }
    // A version under another name is the one that is missing.
    let stray_version = !fine;
    let mut missing = |name: &str| {
        problems.push(
            Diagnostic::new(&T0336, asked(ask), format!("image `{family}` lacks `{name}=`"))
                .help(format!("write `{}`", fitting())),
        );
    };
    if family == "pytorch" {
        return match (&ask.version, ask.version.value()) {
            (_, Some(version)) => Some((version.clone(), None)),
            (field, None) => {
                if field.is_absent() && !stray_version {
                    missing("version");
                }
                None
            }
        };
    }
    if ask.transformers.is_absent() && !stray_version {
        missing("transformers");
    }
    if ask.pytorch.is_absent() && !stray_version {
        missing("pytorch");
    }
    Some((ask.pytorch.value()?.clone(), Some(ask.transformers.value()?.clone())))
}

/// Whether SDK v2 takes the versions as spelled: its tables list the image, and its check of the distribution
/// knows the version (`fw_utils`, which knows fewer spellings than the tables).
pub(super) fn sdk_v2_takes(job: &Job, query: &ImageQuery, sdk: &[String]) -> bool {
    if !sdk.iter().any(|major| major == "v2") {
        return false;
    }
    let Some(parallel) = &job.parallel else { return true };
    let launcher = parallel.launcher.value().map_or("torchrun", String::as_str);
    let list = match (parallel.engine.get(), launcher) {
        (Some(Engine::Fsdp), _) | (Some(Engine::Ddp), "torchrun") if query.instance.starts_with("ml.trn") => {
            support::torch_distributed_trainium()
        }
        (Some(Engine::Fsdp), _) | (Some(Engine::Ddp), "torchrun") => support::torch_distributed_accepted(),
        (Some(Engine::Smp), _) if query.framework == Framework::SmpV2 => {
            support::torch_distributed_accepted()
        }
        (Some(Engine::Smddp), _) => support::smddp_accepted_by_sdk(),
        // The PyTorch class turns `pytorchddp` into SMDDP; the HuggingFace class does not check it.
        (Some(Engine::Ddp), "pytorchddp") if query.framework == Framework::PyTorch => {
            support::smddp_accepted_by_sdk()
        }
        _ => return true,
    };
    list.is_some_and(|list| list.pytorch_versions.iter().any(|version| version == query.pytorch))
}

/// One problem of the catalogue in words.
fn refused((job, ask): (&Job, &ImageAsk), query: &ImageQuery, problem: &ImageProblem) -> Diagnostic {
    let region = job.region.span().unwrap_or(ask.span);
    let span_of = |field: &trainc_ir::Field<String>| field.span().unwrap_or(ask.span);
    let pytorch_span =
        if ask.version.span().is_some() { span_of(&ask.version) } else { span_of(&ask.pytorch) };
    let newest = |known: &[String]| known.last().cloned().unwrap_or_default();
    match problem {
        ImageProblem::UnknownVersion { of, found, known } => {
            let span = if *of == "transformers" { span_of(&ask.transformers) } else { pytorch_span };
            other_version::unknown((job, ask), query, span, (*of, found.as_str(), known.as_slice()))
        }
        ImageProblem::MissingTransformers => {
            Diagnostic::new(&T0336, asked(ask), "image `huggingface` lacks `transformers=`")
        }
        ImageProblem::UnknownPython { found, known } => {
            let message = match found {
                Some(found) => format!("the container has {}, not `{found}`", text::ticked(known, "or")),
                None => format!("the container has several Pythons: {}", text::ticked(known, "or")),
            };
            let diagnostic = Diagnostic::new(&T0331, span_of(&ask.python), message);
            match known.first() {
                Some(first) => diagnostic.help(format!("write `python=\"{first}\"`")),
                None => diagnostic,
            }
        }
        ImageProblem::UnknownCombination { transformers, pytorch, bases } => Diagnostic::new(
            &T0332,
            pytorch_span,
            format!("no container joins transformers {transformers} with PyTorch {pytorch}"),
        )
        .label(span_of(&ask.transformers), format!("comes with PyTorch {}", text::list(bases, "or")))
        .help(match bases.last() {
            Some(base) => format!("write `pytorch=\"{base}\"`"),
            None => "choose another transformers version".to_owned(),
        }),
        ImageProblem::MixedVersionLengths { transformers, pytorch } => Diagnostic::new(
            &T0333,
            pytorch_span,
            format!(
                "transformers {transformers} and PyTorch {pytorch}: one version is short, the other full"
            ),
        )
        .label(span_of(&ask.transformers), "the other version")
        .help(match images::nearest_pair(transformers, pytorch) {
            Some((transformers, pytorch)) => {
                format!("write both in full, as `transformers=\"{transformers}\" pytorch=\"{pytorch}\"`")
            }
            None => "write both in full".to_owned(),
        })
        .note("the SageMaker SDK: \"Please use either full version or shortened version\""),
        ImageProblem::RegionWithoutImage { region: name, known } => {
            Diagnostic::new(&T0334, region, format!("the container is not in region `{name}`"))
                .label(ask.span, "the container")
                .note(format!("it is in {}", known.join(", ")))
        }
        ImageProblem::UnsupportedProcessor { instance, processor, known } => Diagnostic::new(
            &T0335,
            asked(ask),
            format!(
                "this container runs on {}, and `{instance}` is a type with {}",
                text::list(&known.iter().map(|name| images::chips(name)).collect::<Vec<_>>(), "or"),
                images::chips(processor)
            ),
        )
        .help("choose another instance type, or another image"),
        ImageProblem::BadInstanceName { instance } => Diagnostic::new(
            &T0335,
            asked(ask),
            format!("`{instance}` is not written as an instance type is: `ml.FAMILY.SIZE`"),
        ),
        ImageProblem::InstanceDeprecated { instance, pytorch } => Diagnostic::new(
            &T0335,
            asked(ask),
            format!("containers with PyTorch {pytorch} no longer run on `{instance}`"),
        )
        .help("choose a newer instance type, or an older PyTorch"),
        ImageProblem::SmpUnknownVersion { found, known, is_library_version } => {
            let diagnostic = Diagnostic::new(
                &T0337,
                pytorch_span,
                format!("SMP v2 has no container for PyTorch {found}; it has {}", text::list(known, "and")),
            )
            .help(format!("write `version=\"{}\"`", newest(known)));
            if *is_library_version {
                diagnostic.note(format!("{found} is a version of the SMP library, not of PyTorch"))
            } else {
                diagnostic
            }
        }
    }
}

/// The place that chose the container: its family, which a layer may have put over another's.
fn asked(ask: &ImageAsk) -> Span {
    ask.family.span().unwrap_or(ask.span)
}
