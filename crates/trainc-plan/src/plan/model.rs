//! The model: a catalogue name, an architecture with dimensions, a config file, or a size alone.

use super::divisors::do_divide;
use crate::resolve::LayerFault;
use trainc_catalog::models;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::architecture::{
    Architecture, Class, Defaulted, Details, Dimensions, Family, LoraProblem, Problem,
};
use trainc_ir::{Job, Model, ModelFacts, Origin, Val};

declare_code!(T0340, "unknown-model", Error, "a model that is not in the catalogue");
declare_code!(T0341, "invalid-model-dimension", Error, "a model dimension is missing or invalid");
declare_code!(T0342, "invalid-model-config", Error, "a model config file that cannot be used");
declare_code!(T0343, "unknown-adapter-target", Error, "adapter targets that the model does not have");
declare_code!(T0344, "missing-adapter-rank", Error, "an adapter without a rank");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0340, &T0341, &T0342, &T0343, &T0344];

/// What is known of the model; `None` where nothing is written, or it was reported.
pub(super) fn model(
    job: &Job,
    config: Option<&Result<String, LayerFault>>,
    problems: &mut Problems,
) -> Option<ModelFacts> {
    let model = job.model.as_ref()?;
    let config = match (config, model.config.val()) {
        (Some(Err(fault)), Some(path)) => {
            let why = match fault {
                LayerFault::NotFound => "is not there".to_owned(),
                LayerFault::OutsideRoot => "leaves the repository".to_owned(),
                LayerFault::Unreadable(why) => format!("cannot be read: {why}"),
            };
            problems.push(
                Diagnostic::new(&T0342, path.span_or(model.span), format!("`{}` {why}", path.value))
                    .note("the path is relative to the file that says it"),
            );
            return None;
        }
        (Some(Ok(text)), _) => Some(text.as_str()),
        _ => None,
    };
    let mut facts = base(model, config, problems)?;
    facts.trainable = trainable(job, &facts, problems);
    Some(facts)
}

fn base(model: &Model, config: Option<&str>, problems: &mut Problems) -> Option<ModelFacts> {
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
                            "`{what}` beside the catalogue's model `{}`, whose dimensions are known",
                            row.name
                        ),
                    )
                    .label(span, "the model")
                    .help(format!(
                        "remove `{what}`, or name the architecture: `model \"{}\" {{ … }}`",
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
                defaulted: defaulted(&row.defaulted),
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
        problems.push(
            Diagnostic::new(&T0340, model.span, "`model` does not say which model")
                .help("write a catalogue name, as `model \"gpt2-xl\"`, an architecture with its dimensions, or `parameters 30_000_000_000`"),
        );
        return None;
    };
    problems.push(unknown(&name.value, name.span_or(model.span)));
    None
}

/// The catalogue's name that looks the same, as `gpt2-xl` for `gpt2-x1`.
fn looks_like(name: &str) -> Option<&'static str> {
    let seen = |name: &str| name.to_lowercase().replace(['1', 'i'], "l").replace('0', "o");
    let wanted = seen(name);
    models::names().find(|known| seen(known) == wanted)
}

fn digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}

/// The catalogue's name of a model that was written with its size behind it, as `bigscience/bloom-175b`.
fn without_size(name: &str) -> Option<&'static str> {
    let (stem, size) = name.rsplit_once('-')?;
    let is_size = size.starts_with(|c: char| c.is_ascii_digit()) && size.ends_with(['b', 'B', 'm', 'M']);
    models::names().find(|known| is_size && *known == stem)
}

fn unknown(name: &str, span: Span) -> Diagnostic {
    let known: Vec<&str> = models::names().chain(Family::names()).collect();
    let diagnostic = Diagnostic::new(&T0340, span, format!("the catalogue knows no model `{name}`"));
    let near = without_size(name).or_else(|| looks_like(name)).or_else(|| {
        // Another size is another model, not a slip.
        text::nearest(name, known.iter().copied())
            .filter(|near| digits(near) == digits(name) || digits(name).is_empty())
    });
    // `mistralai/Mistral-7B`, of which there are several: the one with the shortest name is the first of them.
    let lower = format!("{}-", name.to_lowercase());
    let longer =
        known.iter().filter(|known| known.to_lowercase().starts_with(&lower)).min_by_key(|known| known.len());
    let diagnostic = match near {
        None if longer.is_some() => {
            diagnostic.help(format!("did you mean `\"{}\"`?", longer.copied().unwrap_or_default()))
        }
        Some(near) => diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\"")),
        None => diagnostic.help("name its architecture with `hidden`, `layers`, `heads` …, or a `config=\"./config.json\"`, or add `parameters N`"),
    };
    diagnostic.note(
        "`trainc catalog models` lists them; architectures are ".to_owned()
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
                problems.push(dimension(fault, at, family));
            }
            None
        }
    }
}

fn dimension(fault: &Problem, span: Span, family: Family) -> Diagnostic {
    match fault {
        Problem::Missing { key, expected } => Diagnostic::new(
            &T0341,
            span,
            format!("architecture `{}` needs `{key}`: {expected}", family.name()),
        )
        .help(format!("add `{key} …` as a child of `model`")),
        Problem::Unusable { key, found, expected } => {
            Diagnostic::new(&T0341, span, format!("`{key}` is {found}; expected {expected}"))
        }
        Problem::Indivisible { found, whole, .. } => Diagnostic::new(&T0341, span, fault.to_string())
            .help(format!("{found} does not divide {whole}; {}", do_divide(*whole, *found))),
    }
}

fn from_config(
    model: &Model,
    path: &str,
    span: Span,
    text: &str,
    problems: &mut Problems,
) -> Option<ModelFacts> {
    let config: serde_json::Value = match serde_json::from_str(text) {
        Ok(config) => config,
        Err(error) => {
            problems.push(
                Diagnostic::new(
                    &T0342,
                    span,
                    format!("`{path}` is no JSON: line {} column {}", error.line(), error.column()),
                )
                .help("name the model's `config.json` as Hugging Face writes it"),
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
            Some(facts(&name, architecture, class, details, &[], path))
        }
        Err(faults) => {
            for fault in faults {
                problems.push(
                    Diagnostic::new(&T0342, span, format!("`{path}`: {fault}")).fact("key", fault.key()),
                );
            }
            None
        }
    }
}

fn facts(
    name: &str,
    architecture: Architecture,
    class: Option<Class>,
    details: Details,
    filled: &[Defaulted],
    from: &str,
) -> ModelFacts {
    let class = class.unwrap_or_else(|| architecture.family.default_class());
    let total = architecture.parameters_as(class).map_or(0, |count| count.total);
    ModelFacts {
        name: name.to_owned(),
        class: Some(class),
        parameters: Val::derived(total, format!("counted from {from} of {}", architecture.family.name())),
        trainable: None,
        details,
        defaulted: defaulted(filled),
        architecture: Some(architecture),
    }
}

fn defaulted(filled: &[Defaulted]) -> Vec<(String, String, String)> {
    filled.iter().map(|d| (d.field.to_owned(), d.value.clone(), d.rule.to_owned())).collect()
}

fn trainable(job: &Job, facts: &ModelFacts, problems: &mut Problems) -> Option<Val<u64>> {
    let Some(adapter) = &job.adapter else {
        return Some(Val::derived(facts.parameters.value, "the whole model"));
    };
    let rank = if let Some(rank) = adapter.rank.val() {
        rank.value
    } else {
        if adapter.rank.is_absent() {
            problems.push(
                Diagnostic::new(&T0344, adapter.span, "an adapter needs its `rank`").help("write `rank=16`"),
            );
        }
        // The targets are judged all the same.
        1
    };
    let architecture = facts.architecture.as_ref()?;
    let class = facts.class.unwrap_or_else(|| architecture.family.default_class());
    let all = vec!["all-linear".to_owned()];
    let (targets, span) = match adapter.targets.val() {
        Some(targets) => (&targets.value, targets.span_or(adapter.span)),
        None if adapter.targets.is_absent() => (&all, adapter.span),
        None => return None,
    };
    match architecture.lora_trainable_as(class, rank, targets) {
        Ok(_) if adapter.rank.val().is_none() => None,
        Ok(count) => Some(Val::derived(count, format!("LoRA of rank {rank} on {}", targets.join(", ")))),
        Err(LoraProblem::UnknownTargets { unknown, known }) => {
            // Names of one pattern are near each other and mean other things: `q_proj`, `c_proj`.
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
                    text::ticked(&unknown, "and")
                ),
            )
            .note(format!("it has {}", known.join(", ")));
            problems.push(match near {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic
                    .help(format!("write `targets=\"{}\"`", known.first().copied().unwrap_or("all-linear"))),
            });
            None
        }
        Err(LoraProblem::ZeroRank | LoraProblem::NoSuchClass) => None,
    }
}
