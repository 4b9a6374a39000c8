//! Parameters of SageMaker model parallel: generation, version, range, conflicts and dependencies, from the
//! catalogue. The SDK checks few of them, and the library checks the rest only after the nodes have started.

use crate::Context;
use crate::queries::smp::{WrittenParameter, parameters};
use trainc_catalog::images::version_key;
use trainc_catalog::smp::{Parameter, SmpVersion, parameter};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::job::Recompute;
use trainc_engine::smp;
use trainc_ir::{Field, Parallel, Plan, Scalar};

declare_code!(
    T0367,
    "smp-parameter-wrong-version",
    Error,
    "a parameter that the image's SageMaker model parallel does not support",
    ends: Speed
);
declare_code!(
    T0368,
    "smp-parameter-range",
    Error,
    "a SageMaker model parallel parameter that is out of range",
    ends: Speed
);
declare_code!(
    T0369,
    "smp-parameter-too-new",
    Error,
    "a parameter that the image's SageMaker model parallel is too old for",
    ends: Speed
);
declare_code!(
    T0370,
    "smp-parameters-conflict",
    Error,
    "two mutually exclusive SageMaker model parallel parameters",
    ends: Speed
);
declare_code!(
    T0371,
    "smp-parameter-dependency",
    Error,
    "a SageMaker model parallel parameter without another that it requires",
    ends: Speed
);
declare_code!(
    T0372,
    "smp-unsupported-placement",
    Warning,
    "a placement that the SageMaker SDK rejects",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0367, &T0368, &T0369, &T0370, &T0371, &T0372];

struct SmpV1<'a> {
    plan: &'a Plan,
    parallel: &'a Parallel,
    written: &'a [WrittenParameter],
    library: Option<&'a str>,
}

/// Checks each parameter in the manifest. One that the generation does not support is reported once and
/// skipped by the other checks.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(version)) = (&plan.job.parallel, smp::version(plan)) else { return };
    let mut written = parameters(parallel);
    written.retain(|one| check_generation(plan, parallel, version, one, problems));
    if version == SmpVersion::V1 {
        let smp_v1 = SmpV1 { plan, parallel, written: &written, library: plan.library.as_deref() };
        for one in &written {
            if let Some(row) = parameter(SmpVersion::V1, one.v1) {
                smp_v1.check_since(one.name, one.span, row, problems);
                smp_v1.check_range(one, row, problems);
                smp_v1.check_conflicts(one, row, problems);
                smp_v1.check_dependencies(one, row, problems);
            }
        }
        smp_v1.check_precision(problems);
    }
}

/// Reports a parameter that the image's generation does not support; returns whether it is supported.
fn check_generation(
    plan: &Plan,
    parallel: &Parallel,
    version: SmpVersion,
    one: &WrittenParameter,
    problems: &mut Problems,
) -> bool {
    let (row, other, mine, theirs) = match version {
        SmpVersion::V1 => (parameter(SmpVersion::V1, one.v1), parameter(SmpVersion::V2, one.v2), "v1", "v2"),
        SmpVersion::V2 => (parameter(SmpVersion::V2, one.v2), parameter(SmpVersion::V1, one.v1), "v2", "v1"),
    };
    let pytorch = plan.image.as_ref().and_then(|image| image.pytorch.as_deref()).unwrap_or("of this image");
    let image = plan
        .job
        .image
        .as_ref()
        .map_or(parallel.span, |ask| ask.version.span().or(ask.pytorch.span()).unwrap_or(ask.span));
    match row {
        Some(row) if row.framework.as_deref() == Some("tensorflow") => {
            problems.push(
                Diagnostic::new(
                    &T0367,
                    one.span,
                    format!(
                        "`{}` is a parameter of SMP v1 for TensorFlow and has no effect with PyTorch",
                        one.name
                    ),
                )
                .remove(one.name)
                .note(row.provenance.source.as_str()),
            );
            false
        }
        Some(_) => true,
        None => {
            // What SMP v2 does with a parameter that its reference lacks is not documented, and AWS's own
            // example for Falcon sends those of v1 to PyTorch 2.0.1, which is `framework_version="2.0"` of
            // the SDK (amazon-sagemaker-examples @2d519b5, archived/falcon, read 2026-11-28). One that
            // decides the layout is an error: the plan would count what does not run.
            let decides_layout = other.is_some_and(|row| row.layout);
            let (severity, message) = if version == SmpVersion::V2 && !decides_layout {
                (Severity::Warning, format!("the documentation of SMP v2 does not list `{}`", one.name))
            } else {
                (Severity::Error, format!("SMP {mine} does not support `{}`", one.name))
            };
            let diagnostic = Diagnostic::new(&T0367, one.span, message)
                .severity(severity)
                .label(image, format!("PyTorch {pytorch} has SMP {mine}"))
                .fact("generation", mine);
            problems.push(match other {
                Some(_) => diagnostic
                    .remove(one.name).or_else(&format!("use an image with SMP {theirs}: PyTorch {}", if theirs == "v1" { "2.0.0 or older" } else { "2.0.1 or newer" }))
                    .note(format!("`{}` belongs to SMP {theirs}; the image determines the SMP version", one.name)),
                None => diagnostic.remove(one.name),
            });
            false
        }
    }
}

impl SmpV1<'_> {
    fn find(&self, v1: &str) -> Option<&WrittenParameter> {
        self.written.iter().find(|one| one.v1 == v1)
    }

    fn int(&self, v1: &str) -> Option<i128> {
        match self.find(v1).map(|one| &one.value) {
            Some(Scalar::Int(n)) => Some(*n),
            _ => None,
        }
    }

    fn check_since(&self, name: &str, span: Span, row: &Parameter, problems: &mut Problems) {
        let (Some(library), Some(since)) = (self.library, &row.since) else { return };
        if version_key(library) >= version_key(since) {
            return;
        }
        let pytorch = self.plan.image.as_ref().and_then(|image| image.pytorch.as_deref()).unwrap_or("?");
        problems.push(
            Diagnostic::new(
                &T0369,
                span,
                format!("`{name}` requires SMP {since} or newer; PyTorch {pytorch} has SMP {library}"),
            )
            .help("use a newer image: PyTorch 1.13.1 has SMP 1.15")
            .note(format!("{} ({})", row.provenance.source, row.provenance.date))
            .fact("since", since.as_str())
            .fact("library", library),
        );
    }

    fn check_range(&self, one: &WrittenParameter, row: &Parameter, problems: &mut Problems) {
        if let Scalar::Text(word) = &one.value {
            if !row.sdk_words.is_empty() && !row.sdk_words.contains(word) {
                check_placement(one, word, row, problems);
            }
            return;
        }
        let number = match &one.value {
            Scalar::Int(n) => *n as f64,
            Scalar::Float(x) => *x,
            Scalar::Text(_) | Scalar::Bool(_) | Scalar::Null => return,
        };
        let partitions = self.int("partitions").unwrap_or(1);
        let most = match row.max_words.as_deref() {
            Some("partitions - 1") => Some((
                (partitions - 1) as f64,
                format!(
                    "{}: there are {}",
                    partitions - 1,
                    text::count(u64::try_from(partitions).unwrap_or(1), "stage")
                ),
            )),
            _ => row.max.map(|max| (max, text::short_number(max))),
        };
        let least = row.min.filter(|min| number < *min);
        let most = most.filter(|(max, _)| number > *max);
        if let Some(min) = least {
            problems.push(
                Diagnostic::new(
                    &T0368,
                    one.span,
                    format!("`{}` {} is below the minimum of {}", one.name, text::short_number(number), text::short_number(min)),
                )
                .write(format!("{} {}", one.name, text::short_number(min))).and_text(" or more"),
            );
        } else if let Some((max, shown)) = most {
            problems.push(
                Diagnostic::new(
                    &T0368,
                    one.span,
                    format!("`{}` {} exceeds the maximum of {shown}", one.name, text::short_number(number)),
                )
                .help(format!("write at most `{} {}`", one.name, text::short_number(max)))
                .note("the SDK rejects it when the job is created")
                .fact("max", max),
            );
        }
        let microbatches = self.int("microbatches").unwrap_or(1);
        if one.v1 == "active_microbatches" && number > microbatches as f64 {
            problems.push(
                Diagnostic::new(
                    &T0368,
                    one.span,
                    format!(
                        "`active-microbatches` {} exceeds the {microbatches} micro-batches of a step",
                        text::short_number(number)
                    ),
                )
                .severity(Severity::Warning)
                .write(format!("active-microbatches={microbatches}")).or_else("more `microbatches`"),
            );
        }
    }

    fn check_conflicts(&self, one: &WrittenParameter, row: &Parameter, problems: &mut Problems) {
        if !one.is_in_use() {
            return;
        }
        let older =
            |version: &str| self.library.is_none_or(|library| version_key(library) < version_key(version));
        let before = row.excludes_before.iter().filter(|(_, version)| older(version));
        let all = row
            .excludes
            .iter()
            .map(|name| (name, None))
            .chain(before.map(|(name, version)| (name, Some(version))));
        for (name, until) in all {
            let Some(other) = self.find(name).filter(|other| other.is_in_use()) else { continue };
            // If both rows exclude each other, only the first in the manifest is reported.
            let mutual = parameter(SmpVersion::V1, name)
                .is_some_and(|row| row.excludes.iter().any(|back| back == one.v1));
            if mutual && other.span < one.span {
                continue;
            }
            let diagnostic = Diagnostic::new(
                &T0370,
                one.span,
                match until {
                    None => format!("`{}` cannot be combined with `{}`", one.name, other.name),
                    Some(version) => format!(
                        "`{}` cannot be combined with `{}` before SMP {version}{}",
                        one.name,
                        other.name,
                        self.library_words()
                    ),
                },
            )
            .label(other.span, "the other one")
            .note(format!("{} ({})", row.provenance.source, row.provenance.date));
            problems.push(match until {
                None => diagnostic.help(format!("remove `{}` or `{}`", one.name, other.name)),
                Some(_) => {
                    diagnostic.help("use an image with PyTorch 1.13.1 (SMP 1.15), or remove one of them")
                }
            });
        }
    }

    fn library_words(&self) -> String {
        self.library.map_or_else(String::new, |library| format!("; this image has SMP {library}"))
    }

    /// Returns whether the request sets `ddp`: as written, otherwise if the mesh requires it.
fn uses_ddp(&self) -> bool {
        match self.find("ddp") {
            Some(one) => one.is_in_use(),
            None => self.is_data_parallel() || self.find("shard_optimizer_state").is_some_and(WrittenParameter::is_in_use),
        }
    }

    fn is_data_parallel(&self) -> bool {
        self.plan.mesh.as_ref().is_some_and(|mesh| mesh.world_size > mesh.pipeline_degree.value)
    }

    fn check_dependencies(&self, one: &WrittenParameter, row: &Parameter, problems: &mut Problems) {
        if row.needs.iter().any(|name| name == "ddp") && !self.uses_ddp() {
            problems.push(
                Diagnostic::new(&T0371, one.span, format!("`{}` requires `ddp #true`", one.name))
                    .write("ddp #true")
                    .note("the SDK rejects it otherwise when the job is created"),
            );
        }
        match (one.v1, &one.value) {
            ("ddp", Scalar::Bool(false)) if self.is_data_parallel() => {
                let tensor = self.find("tensor_parallel_degree").filter(|other| other.is_in_use());
                let diagnostic = Diagnostic::new(
                    &T0371,
                    one.span,
                    match tensor {
                        Some(_) => "`tensor-degree` above 1 requires `ddp #true`".to_owned(),
                        None => "data parallelism requires `ddp #true`: the world size exceeds the \
                            pipeline degree".to_owned(),
                    },
                )
                .remove("ddp #false").and_text(": trainc derives `ddp` from the mesh");
                problems.push(match tensor {
                    Some(other) => diagnostic.label(other.span, "the tensor degree"),
                    None => diagnostic,
                });
            }
            ("auto_partition", Scalar::Bool(false)) if self.find("default_partition").is_none() => problems.push(
                Diagnostic::new(&T0371, one.span, "`auto-partition #false` requires `default-partition`")
                    .add("default-partition 0")
                    .note("the SDK rejects it when the job is created; modules that the script does \
                        not assign are placed in this partition"),
            ),
            ("offload_activations", Scalar::Bool(true)) => match &self.plan.job.train.activation_checkpointing {
                Field::Bad => {}
                field if field.get().is_some_and(|what| what != Recompute::None) => {}
                Field::Absent | Field::Is(_) => problems.push(
                    Diagnostic::new(&T0371, one.span, "`offload-activations` requires \
                        `activation-checkpointing`: it only moves checkpointed activations")
                        .add_to("train", "activation-checkpointing #true")
                        .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
                ),
            },
            _ => {}
        }
    }

    /// Checks `precision`, which becomes a parameter of the library.
    fn check_precision(&self, problems: &mut Problems) {
        let Some(precision) = self.plan.job.train.precision.val() else { return };
        let Some(row) = parameter(SmpVersion::V1, &precision.value) else { return };
        let span = precision.span_or(self.parallel.span);
        self.check_since(&precision.value, span, row, problems);
        for name in &row.excludes {
            let Some(other) = self.find(name).filter(|other| other.is_in_use()) else { continue };
            problems.push(
                Diagnostic::new(
                    &T0370,
                    other.span,
                    format!("`{}` cannot be combined with `precision \"{}\"`", other.name, precision.value),
                )
                .label(span, "the precision")
                .remove(other.name).or_write("precision \"fp16\"")
                .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
            );
        }
        let needs_sharding = row.needs.iter().any(|name| name == "sharded_data_parallel_degree");
        if needs_sharding
            && !self.find("sharded_data_parallel_degree").is_some_and(WrittenParameter::is_in_use)
            && !self.parallel.shard_degree.is_bad()
        {
            problems.push(
                Diagnostic::new(
                    &T0371,
                    span,
                    format!("SMP v1 supports {} only with sharded data parallelism", precision.value),
                )
                .write("precision \"fp16\"").or_else("a `shard-degree` above 1")
                .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
            );
        }
    }
}

fn check_placement(one: &WrittenParameter, word: &str, row: &Parameter, problems: &mut Problems) {
    // cluster = DPT and spread = TPD (SDK documentation of placement_strategy).
let equivalent = match word {
        "DPT" => Some("cluster"),
        "TPD" => Some("spread"),
        _ => None,
    };
    let diagnostic = Diagnostic::new(
        &T0372,
        one.span,
        format!("the SageMaker SDK supports only placement {}, not `{word}`", text::backtick_list(&row.sdk_words, "and")),
    )
    .note("the library supports every permutation, and trainc sends it; only the emitted \
        `estimator.py` would be rejected by the SDK");
    problems.push(match equivalent {
        Some(equivalent) => diagnostic
            .help(format!("write `placement \"{equivalent}\"`, which is equivalent"))
            .fix(one.span, format!("\"{equivalent}\"")),
        None => diagnostic.help(
            "write `placement \"cluster\"` (DPT) or `\"spread\"` (TPD) if the job should also \
                run from the SDK",
        ),
    });
}
