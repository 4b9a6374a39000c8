//! The Hugging Face Hub: what names a model on it, and what keeps its libraries from downloading.

use trainc_catalog::vocabulary;
use trainc_ir::job::Hyperparameter;
use trainc_ir::{Pair, Program, Scalar, Script, Val};

/// Variables that keep the libraries of Hugging Face from downloading (huggingface_hub, environment
/// variables; transformers, installation; recalled).
const OFFLINE: &[&str] = &["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"];
/// Their variables for the directory with files of the Hub, which a channel or the image may fill.
const CACHES: &[&str] = &["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"];
/// Their variable for the address of another server.
const MIRROR: &str = "HF_ENDPOINT";

/// Returns the variable that turns downloads off, with its value.
pub(crate) fn offline_switch(program: &Program) -> Option<(&Pair, &Val<String>)> {
    let is_on = |value: &str| matches!(value.to_lowercase().as_str(), "1" | "true" | "yes" | "on");
    program.environment.iter().find_map(|pair| {
        let val = pair.value.val().filter(|val| OFFLINE.contains(&pair.key.as_str()) && is_on(&val.value))?;
        Some((pair, val))
    })
}

/// Returns whether the program's files of the Hub may come from a directory.
pub(crate) fn has_cache(program: &Program) -> bool {
    program.environment.iter().any(|pair| CACHES.contains(&pair.key.as_str()))
}

/// Returns whether the program may get files of the Hub without the internet: it downloads none, has them in
/// a directory, or asks another server. The program itself may set the variables.
pub(crate) fn is_local(program: &Program, script: Option<&Script>) -> bool {
    let has_mirror = program.environment.iter().any(|pair| pair.key == MIRROR);
    let names = OFFLINE.iter().chain(CACHES).chain([&MIRROR]);
    let is_in_script = script.is_some_and(|script| names.into_iter().any(|name| script.has_text(name)));
    has_mirror || has_cache(program) || offline_switch(program).is_some() || is_in_script
}

/// Returns the value of a hyperparameter that names a model on the Hugging Face Hub: `owner/name`.
pub(crate) fn hub_id(h: &Hyperparameter) -> Option<&str> {
    let Some(Scalar::Text(value)) = h.value.value() else { return None };
    let is_model = vocabulary::get(&h.name)?.paths.iter().any(|path| path == "model.name");
    (is_model && value.contains('/') && is_hub_name(value)).then_some(value.as_str())
}

/// Returns whether a text is a name on the Hub, `owner/name` or `name`, and not a path.
pub(crate) fn is_hub_name(text: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match text.split_once('/') {
        Some((owner, name)) => is_part(owner) && is_part(name),
        None => is_part(text),
    }
}
