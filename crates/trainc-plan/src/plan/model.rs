//! Plans the model from a catalogue name, an architecture with dimensions, a config file, or a number of
//! parameters.

use super::divisors::describe_near_divisors;
use crate::ReadError;
use trainc_catalog::models;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::architecture::{
    Architecture, ArchitectureProblem, Class, Defaulted, Details, Dimensions, Family, LoraProblem,
    parse_hf_config,
};
use trainc_ir::{Job, Model, ModelFacts, Origin, Val};

declare_code!(T0340, "unknown-model", Error, "a model that is not in the catalogue", ends: Speed);
declare_code!(
    T0341,
    "invalid-model-dimension",
    Error,
    "a model dimension is missing or invalid",
    ends: Speed
);
declare_code!(T0342, "invalid-model-config", Error, "a model config file that cannot be used", ends: Speed);
declare_code!(
    T0343,
    "unknown-adapter-target",
    Error,
    "adapter targets that the model does not have",
    ends: Speed
);
declare_code!(
    T0550,
    "assumed-architecture",
    Warning,
    "a model type that is not in the table of architectures"
);
declare_code!(T0552, "uncounted-class", Warning, "a model class whose head has no formula");
declare_code!(T0344, "missing-adapter-rank", Error, "an adapter without a rank", ends: Speed);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0340, &T0341, &T0342, &T0343, &T0344, &T0550, &T0552];

/// Returns the facts of the model; `None` if there is no model or a problem was reported.
pub(super) fn model(
    job: &Job,
    config: Option<&Result<String, ReadError>>,
    problems: &mut Problems,
) -> Option<ModelFacts> {
    let model = job.model.as_ref()?;
    let config = match (config, model.config.val()) {
        (Some(Err(fault)), Some(path)) => {
            let why = match fault {
                ReadError::NotFound => "not found".to_owned(),
                ReadError::OutsideRoot { .. } => "is outside the root directory".to_owned(),
                ReadError::Unreadable(why) => format!("cannot be read: {why}"),
            };
            problems.push(
                Diagnostic::new(&T0342, path.span_or(model.span), format!("`{}` {why}", path.value))
                    .note("the path is relative to the file that contains it"),
            );
            return None;
        }
        (Some(Ok(text)), _) => Some(text.as_str()),
        _ => None,
    };
    let mut facts = base_model_facts(job, model, config, problems)?;
    facts.trainable = trainable_parameters(job, &facts, problems);
    Some(facts)
}

fn base_model_facts(
    job: &Job,
    model: &Model,
    config: Option<&str>,
    problems: &mut Problems,
) -> Option<ModelFacts> {
    if model.name.is_bad() || model.config.is_bad() {
        return None;
    }
    if let Some(path) = model.config.val() {
        return from_config(model, &path.value, path.span_or(model.span), config?, problems);
    }
    let name = model.name.val();
    if let Some(name) = name {
        let span = name.span_or(model.span);
        if let Some(family) = Family::from_name(&name.value)
            && (!model.dimensions.is_empty() || models::find(&name.value).is_none())
            && model.parameters.is_absent()
        {
            return from_dimensions(model, family, &name.value, span, problems);
        }
        if let Some(row) = models::find(&name.value) {
            if let Some((what, dimension)) = model.dimensions.first() {
                problems.push(
                    Diagnostic::new(
                        &T0341,
                        dimension.span_or(span),
                        format!(
                            "`{what}` conflicts with model `{}`, whose dimensions are in the catalogue",
                            row.name
                        ),
                    )
                    .label(span, "model")
                    .help(format!(
                        "remove `{what}`, or specify the architecture: `model \"{}\" {{ … }}`",
                        row.architecture.family.name()
                    )),
                );
            }
            return Some(ModelFacts {
                name: name.value.clone(),
                class: Some(row.class),
                parameters: Val {
                    value: row.parameters,
                    origin: Origin::Catalogue {
                        row: format!("models {}", row.name),
                        source: row.source,
                        date: row.date,
                    },
                },
                trainable: None,
                details: row.details,
                defaulted: describe_defaulted_fields(&row.defaulted),
                architecture: Some(row.architecture),
            });
        }
    }
    if let Some(parameters) = model.parameters.val() {
        return Some(ModelFacts {
            name: name.map_or_else(|| "unnamed".to_owned(), |name| name.value.clone()),
            architecture: None,
            class: None,
            parameters: parameters.clone(),
            trainable: None,
            details: Details::default(),
            defaulted: Vec::new(),
        });
    }
    if model.parameters.is_bad() {
        return None;
    }
    let Some(name) = name else {
        problems.push(Diagnostic::new(&T0340, model.span, "`model` has no name").help(
            "write a catalogue name such as `model \"gpt2-xl\"`, an architecture with \
                    dimensions, or `parameters 30_000_000_000`",
        ));
        return None;
    };
    let diagnostic = unknown_model(&name.value, name.span_or(model.span));
    // A job that describes no training of it has nothing to predict; a name that is nearly another is a
    // mistake.
    let is_described = job.train.span.is_some() || job.adapter.is_some() || job.quantize.is_some();
    let has_layout = trainc_engine::of_job(job).is_none_or(|engine| !engine.law.whole_model);
    problems.push(if is_described || has_layout || diagnostic.fix.is_some() || !is_hub_id(&name.value) {
        diagnostic
    } else {
        diagnostic.severity(Severity::Warning)
    });
    None
}

/// Returns the catalogue name that looks alike: `gpt2-xl` for `gpt2-x1`.
fn find_lookalike_name(name: &str) -> Option<&'static str> {
    let normalized = |name: &str| name.to_lowercase().replace(['1', 'i'], "l").replace('0', "o");
    let wanted = normalized(name);
    models::names().find(|known| normalized(known) == wanted)
}

fn digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}

/// Returns the catalogue name for a name with a size suffix, such as `bigscience/bloom-175b`.
fn find_name_without_size(name: &str) -> Option<&'static str> {
    let (stem, size) = name.rsplit_once('-')?;
    let is_size = size.starts_with(|c: char| c.is_ascii_digit()) && size.ends_with(['b', 'B', 'm', 'M']);
    models::names().find(|known| is_size && *known == stem)
}

/// Returns whether a name has the form of a Hugging Face ID: owner and name.
fn is_hub_id(name: &str) -> bool {
    let valid = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    name.split_once('/').is_some_and(|(owner, name)| valid(owner) && valid(name))
}

fn unknown_model(name: &str, span: Span) -> Diagnostic {
    let known: Vec<&str> = models::names().chain(Family::names()).collect();
    let diagnostic = Diagnostic::new(&T0340, span, format!("model `{name}` is not in the catalogue"));
    let near = find_name_without_size(name).or_else(|| find_lookalike_name(name)).or_else(|| {
        // Another size is another model, not a typo.
        text::nearest(name, known.iter().copied())
            .filter(|near| digits(near) == digits(name) || digits(name).is_empty())
    });
    // `mistralai/Mistral-7B` is the prefix of several names: suggest the shortest one.
    let lower = format!("{}-", name.to_lowercase());
    let longer =
        known.iter().filter(|known| known.to_lowercase().starts_with(&lower)).min_by_key(|known| known.len());
    let diagnostic = match near {
        None if longer.is_some() => {
            diagnostic.did_you_mean(format!("\"{}\"", longer.copied().unwrap_or_default()))
        }
        Some(near) => diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\"")),
        None if is_hub_id(name) => diagnostic
            .help(format!(
                "download `https://huggingface.co/{name}/resolve/main/config.json` and write \
                    `model \"{name}\" config=\"./config.json\"`"
            ))
            .note("or specify its architecture with `hidden`, `layers`, `heads` …, or add `parameters N`"),
        None => diagnostic.help(
            "specify its architecture with `hidden`, `layers`, `heads` …, add \
            `config=\"./config.json\"`, or add `parameters N`",
        ),
    };
    diagnostic.note(
        "`trainc catalog models TEXT` searches the models; architectures are ".to_owned()
            + &Family::names().collect::<Vec<_>>().join(", "),
    )
}

fn from_dimensions(
    model: &Model,
    family: Family,
    name: &str,
    span: Span,
    problems: &mut Problems,
) -> Option<ModelFacts> {
    let get =
        |wanted: &str| model.dimensions.iter().find(|(name, _)| *name == wanted).map(|(_, val)| val.value);
    let written = Dimensions {
        hidden: get("hidden"),
        layers: get("layers"),
        heads: get("heads"),
        kv_heads: get("kv-heads"),
        head_dim: get("head-dim"),
        ffn: get("ffn"),
        vocab: get("vocab"),
        positions: get("positions"),
        experts: get("experts"),
        active_experts: get("active-experts"),
        tied: model.tied.get(),
        ..Dimensions::default()
    };
    match Architecture::from_dimensions(family, &written) {
        Ok(_) if !model.unusable.is_empty() => None,
        Ok((architecture, filled)) => {
            Some(facts(name, architecture, None, Details::default(), &filled, "the dimensions"))
        }
        Err(faults) => {
            for fault in faults.iter().filter(|fault| !model.unusable.contains(&fault.key())) {
                let at = model
                    .dimensions
                    .iter()
                    .find(|(name, _)| *name == fault.key())
                    .map_or(span, |(_, val)| val.span_or(span));
                problems.push(invalid_dimension(fault, at, family));
            }
            None
        }
    }
}

fn invalid_dimension(fault: &ArchitectureProblem, span: Span, family: Family) -> Diagnostic {
    match fault {
        ArchitectureProblem::Missing { key, expected } => Diagnostic::new(
            &T0341,
            span,
            format!("architecture `{}` requires `{key}`: {expected}", family.name()),
        )
        .help(format!("add `{key} …` as a child of `model`")),
        ArchitectureProblem::Unusable { key, found, expected } => {
            Diagnostic::new(&T0341, span, format!("`{key}` is {found}; expected {expected}"))
        }
        ArchitectureProblem::Unknown { .. } => Diagnostic::new(&T0341, span, fault.to_string()),
        ArchitectureProblem::Indivisible { found, whole, .. } => {
            Diagnostic::new(&T0341, span, fault.to_string())
                .help(format!("use a divisor of {whole}: {}", describe_near_divisors(*whole, *found)))
        }
    }
}

fn from_config(
    model: &Model,
    path: &str,
    span: Span,
    text: &str,
    problems: &mut Problems,
) -> Option<ModelFacts> {
    let config = match parse_hf_config(text) {
        Ok(config) => config,
        Err(error) => {
            problems.push(
                Diagnostic::new(
                    &T0342,
                    span,
                    format!("`{path}` is not valid JSON: line {} column {}", error.line(), error.column()),
                )
                .help("specify the `config.json` of a Hugging Face model"),
            );
            return None;
        }
    };
    match Architecture::from_hf_config(&config) {
        Ok(architecture) => {
            let class = architecture.class_of_hf_config(&config);
            let name = model
                .name
                .value()
                .cloned()
                .or_else(|| {
                    config
                        .get("_name_or_path")
                        .and_then(serde_json::Value::as_str)
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned)
                })
                .unwrap_or_else(|| architecture.family.name().to_owned());
            let details = Details::from_hf_config(&config, architecture.family);
            if let Some(unknown) = &architecture.unknown_type {
                problems.push(assumed_architecture(path, span, unknown));
            } else if class.is_none()
                && let Some(warning) = uncounted_class(path, span, &config, &architecture)
            {
                problems.push(warning);
            }
            Some(facts(&name, architecture, class, details, &[], path))
        }
        Err(faults) => {
            match config.get("model_type").and_then(serde_json::Value::as_str) {
                Some(name) if Family::from_model_type(name).is_none() => {
                    problems.push(unknown_type(path, span, name, &faults));
                }
                _ => {
                    for fault in &faults {
                        let diagnostic = Diagnostic::new(&T0342, span, format!("`{path}`: {fault}"))
                            .fact("key", fault.key());
                        let is_unknown = matches!(fault, ArchitectureProblem::Unknown { .. });
                        problems.push(if is_unknown { diagnostic.help(WITHOUT_CONFIG) } else { diagnostic });
                    }
                }
            }
            None
        }
    }
}

/// What to write where a config cannot be counted.
const WITHOUT_CONFIG: &str =
    "write `parameters N`, the published number, instead of `config`: memory and time are then not predicted";

/// Returns the problem of a config whose type the table lacks, with the field that decides that it cannot be
/// counted: one that is not known before one that is missing, which may have another name.
fn unknown_type(path: &str, span: Span, name: &str, faults: &[ArchitectureProblem]) -> Diagnostic {
    let unknown = |fault: &&ArchitectureProblem| matches!(fault, ArchitectureProblem::Unknown { .. });
    let first = faults.iter().find(unknown).or(faults.first());
    let what = match first {
        Some(ArchitectureProblem::Unknown { key, found }) => {
            format!("nor is its field `{key}`, {found}, which could change the number of parameters")
        }
        Some(fault) => format!("and {fault}"),
        None => "nor are its fields".to_owned(),
    };
    let others: Vec<&str> = faults
        .iter()
        .map(ArchitectureProblem::key)
        .filter(|key| first.is_none_or(|first| first.key() != *key))
        .collect();
    let diagnostic =
        Diagnostic::new(&T0342, span, format!("`{path}`: model type `{name}` is not known, {what}"))
            .fact("key", first.map_or("model_type", ArchitectureProblem::key))
            .help(WITHOUT_CONFIG);
    if others.is_empty() {
        diagnostic
    } else {
        diagnostic.note(format!("also missing or not known: {}", text::backtick_list(&others, "and")))
    }
}

fn assumed_architecture(path: &str, span: Span, model_type: &str) -> Diagnostic {
    Diagnostic::new(
        &T0550,
        span,
        format!(
            "`{path}`: model type `{model_type}` is not known; its parameters are counted from its \
            fields, by the formulas of known decoders"
        ),
    )
    .note(
        "all fields of the config are known, but biases and norms that the code of the model adds \
        without a field are not counted",
    )
    .help(
        "compare `parameters` of the plan with the published number, or write `parameters N` instead \
        of `config`",
    )
}

/// Returns a warning if `architectures` names a class that has no formula.
fn uncounted_class(
    path: &str,
    span: Span,
    config: &serde_json::Value,
    architecture: &Architecture,
) -> Option<Diagnostic> {
    let named = config.get("architectures")?.get(0)?.as_str()?;
    let counted = architecture.class_name(architecture.default_class())?;
    let found =
        format!("`{path}`: class `{named}` has no formula; the parameters of `{counted}` are counted");
    Some(
        Diagnostic::new(&T0552, span, found)
            .note("layers and embeddings are the same; the output may differ")
            .help(
                "name the class that you train in `architectures`, or write `parameters N` instead \
                of `config`",
            ),
    )
}

fn facts(
    name: &str,
    architecture: Architecture,
    class: Option<Class>,
    details: Details,
    filled: &[Defaulted],
    from: &str,
) -> ModelFacts {
    let class = class.unwrap_or_else(|| architecture.default_class());
    let total = architecture.parameters_for_class(class).map_or(0, |count| count.total);
    ModelFacts {
        name: name.to_owned(),
        class: Some(class),
        parameters: Val::derived(total, format!("counted from {from} of {}", architecture.family.name())),
        trainable: None,
        details,
        defaulted: describe_defaulted_fields(filled),
        architecture: Some(architecture),
    }
}

fn describe_defaulted_fields(filled: &[Defaulted]) -> Vec<(String, String, String)> {
    filled.iter().map(|d| (d.field.to_owned(), d.value.clone(), d.rule.to_owned())).collect()
}

fn trainable_parameters(job: &Job, facts: &ModelFacts, problems: &mut Problems) -> Option<Val<u64>> {
    let Some(adapter) = &job.adapter else {
        return Some(Val::derived(facts.parameters.value, "the whole model"));
    };
    let rank = if let Some(rank) = adapter.rank.val() {
        rank.value
    } else {
        if adapter.rank.is_absent() {
            problems.push(
                Diagnostic::new(&T0344, adapter.span, "`adapter` has no `rank`")
                    .removed_at(job.removed(&["adapter.rank"]))
                    .add("rank=16"),
            );
        }
        // The targets are still checked.
        1
    };
    let architecture = facts.architecture.as_ref()?;
    let class = facts.class.unwrap_or_else(|| architecture.default_class());
    let all = vec!["all-linear".to_owned()];
    let (targets, span) = match adapter.targets.val() {
        Some(targets) => (&targets.value, targets.span_or(adapter.span)),
        None if adapter.targets.is_absent() => (&all, adapter.span),
        None => return None,
    };
    match architecture.lora_trainable_for_class(class, rank, targets) {
        Ok(_) if adapter.rank.val().is_none() => None,
        Ok(count) => Some(Val::derived(count, format!("LoRA of rank {rank} on {}", targets.join(", ")))),
        Err(LoraProblem::UnknownTargets { unknown, known }) => {
            // Similar names can be different matrices: `q_proj`, `c_proj`.
            let near = unknown.first().and_then(|name| {
                text::nearest(name, known.iter().copied())
                    .filter(|near| near.chars().next() == name.chars().next())
            });
            let diagnostic = Diagnostic::new(
                &T0343,
                span,
                format!(
                    "`{}` has no {} {}",
                    facts.name,
                    if unknown.len() == 1 { "matrix" } else { "matrices" },
                    text::backtick_list(&unknown, "and")
                ),
            )
            .note(format!("matrices of this model: {}", known.join(", ")));
            problems.push(match near {
                Some(near) => diagnostic.did_you_mean(near),
                None => diagnostic
                    .write(format!("targets=\"{}\"", known.first().copied().unwrap_or("all-linear"))),
            });
            None
        }
        Err(LoraProblem::ZeroRank | LoraProblem::NoSuchClass) => None,
    }
}
