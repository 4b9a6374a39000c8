//! Plans the container image: from the versions as written to the registry path of the region.

use super::custom_image::custom_image;
use super::neuron_image::{self, neuron_version_too_old, substituted_version, unsupported_chip};
use super::newest_image;
use super::other_image::other_image;
use super::version_suggestion::unknown_version;
use crate::resolve::missing_node::missing_node;
use trainc_catalog::images::{self, Framework, ImageProblem, ImageQuery};
use trainc_catalog::{cuda, instances, support};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_engine::{of_job, runs_worker};
use trainc_ir::{Engine, Image, ImageRequest, Job, Launcher, Origin, Region};

declare_code!(
    T0330,
    "unknown-image-version",
    Error,
    "no Deep Learning Container has this version",
    ends: Speed
);
declare_code!(
    T0331,
    "unknown-image-python",
    Error,
    "no Deep Learning Container of this version has this Python version",
    ends: Speed
);
declare_code!(
    T0332,
    "unknown-image-combination",
    Error,
    "no Deep Learning Container combines these two versions",
    ends: Speed
);
declare_code!(
    T0333,
    "mixed-version-lengths",
    Error,
    "one version is short and the other is full",
    ends: Speed
);
declare_code!(
    T0334,
    "region-without-image",
    Error,
    "the Deep Learning Container is not available in the region",
    ends: Speed
);
declare_code!(
    T0335,
    "image-instance-mismatch",
    Error,
    "the Deep Learning Container does not support the instance type",
    ends: Speed
);
declare_code!(T0336, "image-incomplete", Error, "`image` does not identify a container", ends: Speed);
declare_code!(
    T0337,
    "smp-image-version",
    Error,
    "no SMP v2 container exists for the PyTorch version",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] =
    &[&T0330, &T0331, &T0332, &T0333, &T0334, &T0335, &T0336, &T0337, &neuron_image::T0399];

/// Returns the container image of the job; `None` if it is unknown.
pub(super) fn image(job: &Job, region: Option<&Region>, problems: &mut Problems) -> Option<Image> {
    let engine = of_job(job);
    let Some(ask) = &job.image else {
        if runs_worker(job) {
            return newest_image::worker_image(job, region?);
        }
        if job.needs_program {
            let name = job.name.value().map_or("", String::as_str);
            let fit = newest_image::suggested_image(job, region);
            problems.push(missing_node(job.span, job.removed(&["image"]), name, "image", &fit).note(
                if fit == newest_image::NONE {
                    "the catalogue has no container for this engine, region and instance \
                            type; `trainc catalog images` lists all containers"
                } else {
                    "the image is the newest compatible container; `trainc catalog images` \
                            lists all containers"
                },
            ));
        }
        return None;
    };
    if let Some(uri) = ask.uri.val() {
        return Some(custom_image(&uri.value, uri.origin.clone()));
    }
    if ask.uri.is_bad() || ask.family.is_bad() {
        return None;
    }
    let Some(family) = ask.family.value().map(String::as_str) else {
        problems.push(
            Diagnostic::new(&T0336, ask.span, "`image` has neither a family nor a `uri`").help(format!(
                "write `{}`, or `image uri=\"…\"`",
                newest_image::suggested_image(job, region)
            )),
        );
        return None;
    };
    if images::other_families().contains(&family) {
        return other_image(job, ask, family, region, problems);
    }
    // Without a region or instance type the versions are still checked, for the region and type with the most
    // images.
    let written = job.container_instance();
    if matches!(written, Some("custom" | "local")) {
        return None;
    }
    let known = written.filter(|name| instances::instance_exists(name));
    let instance = known.unwrap_or(FULL_INSTANCE);
    let unknown =
        UnknownInputs { region: region.is_none(), instance: known.is_none(), engine: engine.is_none() };
    let (pytorch, transformers) = required_versions(
        ask,
        family,
        &|| newest_image::suggested_image_of_family(job, region, family),
        problems,
    )?;
    let own_family = engine.and_then(|engine| own_family(engine, &pytorch));
    let query = ImageQuery {
        framework: match family {
            "huggingface" => Framework::HuggingFace,
            _ if own_family.is_some() => Framework::SmpV2,
            _ => Framework::PyTorch,
        },
        pytorch: &pytorch,
        transformers: transformers.as_deref(),
        python: ask.python.value().map(String::as_str),
        region: region.map_or(FULL_REGION, |region| region.name.as_str()),
        instance,
        smdistributed: engine.is_some_and(|engine| engine.front.needs_library()),
    };
    let mut answer = images::resolve(&query);
    // For an unknown Python version, continue with another Python so that other problems of the image are
    // reported too.
    let with_other_python = match &answer {
        Err(ImageProblem::UnknownPython { known, .. }) if !ask.python.is_bad() => {
            images::resolve(&ImageQuery { python: known.last().map(String::as_str), ..query }).ok()
        }
        _ => None,
    };
    if let Some(found) = with_other_python {
        if let Err(problem) = answer.as_ref()
            && !found.version_substituted
        {
            problems.push(image_problem((job, ask), &query, problem));
        }
        answer = Ok(found);
    }
    if let Some(gap) = answer.as_ref().ok().and_then(|found| neuron_version_too_old(found, instance)) {
        problems.push(unsupported_chip(ask, instance, &gap));
        return None;
    }
    match answer {
        Ok(found) if found.version_substituted => {
            problems.push(substituted_version(ask, &found, instance));
            None
        }
        Ok(_) if unknown.region || unknown.instance => None,
        Err(problem) if unknown.causes_problem(&problem, &query, ask) => None,
        Ok(found) => Some(Image {
            sdk_v2: sdk_v2_accepts(job, &query, &found.sdk),
            uri: found.uri,
            family: own_family.unwrap_or(family).to_owned(),
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
            problems.push(image_problem((job, ask), &query, &problem));
            // The available Python versions depend on the image version, but their spelling does not.
            if !matches!(problem, ImageProblem::UnknownPython { .. })
                && let Some(misspelled) = misspelled_python(ask)
            {
                problems.push(misspelled);
            }
            None
        }
    }
}

/// Reports a Python version that is not spelled `py` and digits, as all containers spell it.
fn misspelled_python(ask: &ImageRequest) -> Option<Diagnostic> {
    let written = ask.python.val()?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if written.value.strip_prefix("py").is_some_and(digits) {
        return None;
    }
    let meant: String = written.value.chars().filter(char::is_ascii_digit).collect();
    let diagnostic = Diagnostic::new(
        &T0331,
        written.span_or(ask.span),
        format!("invalid Python version `{}`; expected `py` and digits, such as `py312`", written.value),
    );
    Some(if meant.is_empty() { diagnostic } else { diagnostic.write(format!("python=\"py{meant}\"")) })
}

/// A region with all containers.
pub(super) const FULL_REGION: &str = "us-west-2";
/// An instance type that all GPU containers support.
pub(super) const FULL_INSTANCE: &str = "ml.p4d.24xlarge";

/// Inputs that are missing or have a problem already reported.
pub(super) struct UnknownInputs {
    pub(super) region: bool,
    pub(super) instance: bool,
    pub(super) engine: bool,
}

impl UnknownInputs {
    /// Returns true if an unknown input causes the problem.
    pub(super) fn causes_problem(
        &self,
        problem: &ImageProblem,
        query: &ImageQuery,
        ask: &ImageRequest,
    ) -> bool {
        match problem {
            ImageProblem::RegionWithoutImage { .. } => self.region,
            ImageProblem::UnsupportedProcessor { .. }
            | ImageProblem::BadInstanceName { .. }
            | ImageProblem::InstanceDeprecated { .. } => self.instance,
            ImageProblem::UnknownPython { .. } => ask.python.is_bad(),
            // Engine `smp` has separate containers.
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

/// Returns the versions that the family requires; reports each version that is missing or not supported by
/// the family.
fn required_versions(
    ask: &ImageRequest,
    family: &str,
    fitting: &dyn Fn() -> String,
    problems: &mut Problems,
) -> Option<(String, Option<String>)> {
    let mut fine = true;
    let mut unsupported = |field: &trainc_ir::Field<String>, name: &str, help: &dyn Fn() -> String| {
        if let Some(span) = field.span() {
            problems.push(
                Diagnostic::new(&T0336, span, format!("image `{family}` does not support `{name}`"))
                    .help(help()),
            );
            fine = false;
        }
    };
    if family == "pytorch" {
        unsupported(&ask.pytorch, "pytorch", &|| "use `version=`".to_owned());
        unsupported(&ask.transformers, "transformers", &|| {
            "write `image \"huggingface\" transformers=… pytorch=…`".to_owned()
        });
    } else {
        unsupported(&ask.version, "version", &|| format!("write `{}`", fitting()));
    }
    // The misnamed version is the missing one.
    let misnamed_version = !fine;
    let mut missing = |name: &str| {
        problems.push(
            Diagnostic::new(&T0336, family_span(ask), format!("image `{family}` requires `{name}=`"))
                .write(fitting()),
        );
    };
    if family == "pytorch" {
        return match (&ask.version, ask.version.value()) {
            (_, Some(version)) => Some((version.clone(), None)),
            (field, None) => {
                if field.is_absent() && !misnamed_version {
                    missing("version");
                }
                None
            }
        };
    }
    if ask.transformers.is_absent() && !misnamed_version {
        missing("transformers");
    }
    if ask.pytorch.is_absent() && !misnamed_version {
        missing("pytorch");
    }
    Some((ask.pytorch.value()?.clone(), Some(ask.transformers.value()?.clone())))
}

/// Returns the family of images that only the generation of the engine for a PyTorch version uses.
pub(super) fn own_family(engine: Engine, pytorch: &str) -> Option<&'static str> {
    trainc_engine::in_image(engine, "pytorch", Some(pytorch)).front.image_family
}

/// Returns the engine with the generation in the images of a query.
pub(super) fn engine_in_framework(engine: Engine, query: &ImageQuery) -> Engine {
    let family = match query.framework {
        Framework::SmpV2 => "smp",
        Framework::HuggingFace => "huggingface",
        Framework::PyTorch => "pytorch",
    };
    trainc_engine::in_image(engine, family, Some(query.pytorch))
}

/// Returns true if SDK v2 accepts the versions as spelled: its tables list the image, and its check of the
/// distribution accepts the version (`fw_utils`, which accepts fewer spellings than the tables).
pub(super) fn sdk_v2_accepts(job: &Job, query: &ImageQuery, sdk: &[String]) -> bool {
    if !sdk.iter().any(|major| major == "v2") {
        return false;
    }
    let Some(parallel) = &job.parallel else { return true };
    let Some(engine) = of_job(job) else { return true };
    let list = match engine_in_framework(engine, query).front.launcher(parallel) {
        Launcher::Torchrun if query.instance.starts_with("ml.trn") => support::torch_distributed_trainium(),
        Launcher::Torchrun | Launcher::SmpV2 => support::torch_distributed_accepted(),
        Launcher::Smddp => support::smddp_accepted_by_sdk(),
        // The PyTorch class maps `pytorchddp` to SMDDP; the HuggingFace class does not check it.
        Launcher::PytorchDdp if query.framework == Framework::PyTorch => support::smddp_accepted_by_sdk(),
        _ => return true,
    };
    list.is_some_and(|list| list.pytorch_versions.iter().any(|version| version == query.pytorch))
}

/// Returns true if the image starts the job as its engine requires, by the SDK v2 or by the launch script,
/// and its code runs on the GPU.
pub(super) fn is_startable(job: &Job, query: &ImageQuery, found: &images::Image) -> bool {
    let range = instances::get(query.instance).and_then(|row| cuda::of_accelerator(&row.accelerator));
    if let (Some(range), Some(version)) = (range, images::cuda_of_uri(&found.uri))
        && !range.contains(&version)
    {
        return false;
    }
    let parallel = job.parallel.as_ref();
    let front = parallel.and_then(|parallel| Some((parallel, of_job(job)?.front)));
    let by_script = front.filter(|(_, front)| front.runs_program).is_some_and(|(parallel, front)| {
        match front.launcher(parallel) {
            Launcher::Torchrun | Launcher::Accelerate => true,
            // The toolkit of the image starts a plain script.
            Launcher::Plain | Launcher::ParameterServer | Launcher::MultiWorkerMirrored => true,
            _ => false,
        }
    });
    sdk_v2_accepts(job, query, &found.sdk)
        || (by_script
            && query.framework != Framework::SmpV2
            && support::is_newer_than_torch_distributed(&found.pytorch_full_version))
}

/// Converts a problem of the catalogue to a diagnostic.
pub(super) fn image_problem(
    (job, ask): (&Job, &ImageRequest),
    query: &ImageQuery,
    problem: &ImageProblem,
) -> Diagnostic {
    let region = job.region.span().unwrap_or(ask.span);
    let span_of = |field: &trainc_ir::Field<String>| field.span().unwrap_or(ask.span);
    let pytorch_span =
        if ask.version.span().is_some() { span_of(&ask.version) } else { span_of(&ask.pytorch) };
    match problem {
        ImageProblem::UnknownVersion { of, found, known } => {
            let span = if *of == "transformers" { span_of(&ask.transformers) } else { pytorch_span };
            unknown_version((job, ask), query, span, (*of, found.as_str(), known.as_slice()))
        }
        ImageProblem::MissingTransformers => {
            Diagnostic::new(&T0336, family_span(ask), "image `huggingface` requires `transformers=`")
        }
        ImageProblem::UnknownPython { found, known } => {
            let message = match found {
                Some(found) => {
                    format!(
                        "the container does not support `{found}`; expected {}",
                        text::backtick_list(known, "or")
                    )
                }
                None => {
                    format!(
                        "the container supports several Python versions: {}",
                        text::backtick_list(known, "or")
                    )
                }
            };
            let diagnostic = Diagnostic::new(&T0331, span_of(&ask.python), message);
            match known.first() {
                Some(first) => diagnostic.write(format!("python=\"{first}\"")),
                None => diagnostic,
            }
        }
        ImageProblem::UnknownCombination { transformers, pytorch, bases } => Diagnostic::new(
            &T0332,
            pytorch_span,
            format!("no container combines transformers {transformers} with PyTorch {pytorch}"),
        )
        .label(span_of(&ask.transformers), format!("available with PyTorch {}", text::list(bases, "or")))
        .choose(
            match images::nearest_version(pytorch, bases) {
                Some(base) => format!("write `pytorch=\"{base}\"`"),
                None => "use another transformers version".to_owned(),
            },
            &images::nearest_version(pytorch, bases).map(|base| format!("pytorch=\"{base}\"")),
        ),
        ImageProblem::MixedVersionLengths { transformers, pytorch } => Diagnostic::new(
            &T0333,
            pytorch_span,
            format!(
                "transformers {transformers} and PyTorch {pytorch}: one version is short, the other full"
            ),
        )
        .label(span_of(&ask.transformers), "other version")
        .help(match images::nearest_pair(transformers, pytorch) {
            Some((transformers, pytorch)) => {
                format!("write both in full: `transformers=\"{transformers}\" pytorch=\"{pytorch}\"`")
            }
            None => "write both versions in full".to_owned(),
        })
        .note("SageMaker Python SDK: \"Please use either full version or shortened version\""),
        ImageProblem::RegionWithoutImage { region: name, known } => {
            Diagnostic::new(&T0334, region, format!("the container is not available in region `{name}`"))
                .label(ask.span, "container")
                .note(format!("available in {}", known.join(", ")))
        }
        ImageProblem::UnsupportedProcessor { instance, processor, known } => Diagnostic::new(
            &T0335,
            family_span(ask),
            format!(
                "this container requires {}, but `{instance}` has {}",
                text::list(&known.iter().map(|name| images::processor_noun(name)).collect::<Vec<_>>(), "or"),
                images::processor_noun(processor)
            ),
        )
        .help("use another instance type or another image"),
        ImageProblem::BadInstanceName { instance } => Diagnostic::new(
            &T0335,
            family_span(ask),
            format!("invalid instance type `{instance}`; expected `ml.FAMILY.SIZE`"),
        ),
        ImageProblem::InstanceDeprecated { instance, pytorch } => Diagnostic::new(
            &T0335,
            family_span(ask),
            format!("containers with PyTorch {pytorch} no longer support `{instance}`"),
        )
        .help("use a newer instance type or an older PyTorch version"),
        ImageProblem::SmpUnknownVersion { found, known, is_library_version } => {
            let diagnostic = Diagnostic::new(
                &T0337,
                pytorch_span,
                format!("no SMP v2 container for PyTorch {found}; expected {}", text::list(known, "or")),
            )
            .write(format!(
                "version=\"{}\"",
                images::nearest_version(found, known).map_or("", String::as_str)
            ));
            if *is_library_version {
                diagnostic.note(format!("{found} is a version of the SMP library, not of PyTorch"))
            } else {
                diagnostic
            }
        }
    }
}

/// Returns the span of the image family, which may come from another layer than `image`.
pub(super) fn family_span(ask: &ImageRequest) -> Span {
    ask.family.span().unwrap_or(ask.span)
}
