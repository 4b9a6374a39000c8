//! Checkpoints: `step-N/` with one file per shard and `state.json`, written beside as `step-N.partial`, synced, and only
//! then named; `latest` says which one counts. A directory without that name is never taken. Loading takes any number
//! of shards.

mod load;
mod resume;
mod save;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use load::{Compared, Selection, compare, load, unit, verify};
pub use resume::{
    Found, ResumePoint, check_model, choose_checkpoint, find, fits, restore, resumable, shared,
};
pub use save::{Run, Saver};

use crate::config::{Config, differences};
use crate::data::tokens::hex;
use crate::exit::{Code, Failure};
use crate::fsdp::Engine;
use crate::model::layout::Unit;

/// The form that this binary reads.
const FORM: &str = "trainc.checkpoint/v1";

/// As the config bounds them.
const MOST_STEPS: usize = 1 << 40;

/// The file that names the checkpoint that counts.
pub const LATEST: &str = "latest";

/// `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// `trainc.checkpoint/v1`.
    pub form: String,
    /// Digest of the config that wrote it.
    pub config: String,
    /// Optimizer steps done.
    pub step: usize,
    /// Sequences read, over all ranks.
    pub sequences: u64,
    /// Of the order and fresh weights.
    pub seed: u64,
    /// sha256 of the data's index.
    pub data: String,
    /// Files of one copy.
    pub shards: usize,
    /// Elements of each unit, in order.
    pub units: Vec<(String, usize)>,
    /// sha256 of the list of tensors.
    pub layout: String,
    /// sha256 and bytes of each shard's file.
    pub files: Vec<(String, u64)>,
    /// The path in `checkpoint.resume` that the run which wrote it came from.
    #[serde(default)]
    pub began: Option<String>,
    /// The config's `model`, less where its weights lie; absent in what older binaries wrote.
    #[serde(default)]
    pub model: Option<serde_json::Value>,
    /// What of the config says how it is trained; absent in what older binaries wrote.
    #[serde(default)]
    pub settings: Option<serde_json::Value>,
    /// sha256 of this file's text with zeros in this place; absent in what older binaries wrote.
    #[serde(default)]
    pub digest: Option<String>,
}

/// What stands in a state's text for its digest while that is computed.
const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The text of `state.json`, with its digest.
fn text_with_digest(state: &State) -> serde_json::Result<String> {
    let blank = State { digest: Some(BLANK.to_owned()), ..state.clone() };
    let text = serde_json::to_string_pretty(&blank)?;
    let digest = hex(&Sha256::digest(&text));
    // The last of the file's members: zeros elsewhere stay.
    Ok(text
        .rfind(BLANK)
        .map_or(text.clone(), |at| format!("{}{digest}{}", &text[..at], &text[at + BLANK.len()..])))
}

/// Whether a text is the one that was written; one without a digest is taken as it is.
fn is_intact(text: &str, state: &State) -> bool {
    let Some(digest) = &state.digest else { return true };
    let Some(at) = text.rfind(digest.as_str()).filter(|_| digest.len() == BLANK.len()) else { return false };
    let blank = format!("{}{BLANK}{}", &text[..at], &text[at + BLANK.len()..]);
    hex(&Sha256::digest(blank)) == *digest
}

/// What of a config says how a model is trained, and may change from one run to the next.
pub fn training_settings(config: &Config) -> serde_json::Value {
    serde_json::json!({
        "optimizer": config.optimizer, "schedule": config.schedule, "precision": config.precision,
        "data": {"shuffle": config.data.shuffle, "document_mask": config.data.document_mask},
    })
}

/// What this run trains otherwise than the one that wrote `state`; nothing where all is the same.
pub fn describe_changes(config: &Config, state: &State) -> Option<String> {
    let was = state.settings.as_ref()?;
    let all: Vec<String> = differences("", was, &training_settings(config))
        .into_iter()
        .map(|(at, was, is)| format!("`{at}` was {was}, is {is}"))
        .collect();
    (!all.is_empty())
        .then(|| format!("from step {} on other settings than before: {}", state.step, all.join(", ")))
}

/// What of a config says which function the weights are part of: all of `model` but where they were read from.
pub fn model_settings(config: &Config) -> serde_json::Value {
    let mut model = serde_json::to_value(&config.model).unwrap_or_default();
    if let Some(members) = model.as_object_mut() {
        members.remove("weights");
    }
    model
}

fn fail(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Checkpoint, format!("checkpoint {}: {what}", path.display()))
}

fn file_name(shard: usize, of: usize) -> String {
    format!("shard-{shard:05}-of-{of:05}.safetensors")
}

fn units(engine: &Engine) -> Vec<(String, usize)> {
    engine.trained().map(|s| (s.unit.name.clone(), s.unit.len)).collect()
}

/// Which tensors lie where: two runs with the same have interchangeable checkpoints.
fn layout(engine: &Engine) -> String {
    layout_of(engine.trained().map(|s| &s.unit))
}

fn layout_of<'a>(units: impl Iterator<Item = &'a Unit>) -> String {
    let mut hash = Sha256::new();
    for tensor in units.flat_map(|unit| &unit.tensors) {
        hash.update(format!("{} {} {} {}\n", tensor.name, tensor.rows, tensor.cols, tensor.offset));
    }
    hex(&hash.finalize())
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn complete(path: &Path) -> bool {
    path.join("state.json").is_file()
}

/// Complete checkpoints by step.
pub fn steps(directory: &Path) -> Vec<(usize, PathBuf)> {
    let mut found: Vec<(usize, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let step = entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()?;
            complete(&entry.path()).then(|| (step, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// The checkpoint that counts: what `latest` names, or, where that is missing or names nothing complete, the one with
/// the most steps.
pub fn newest(directory: &Path) -> Option<PathBuf> {
    let named = fs::read_to_string(directory.join(LATEST)).ok();
    let named = named.as_deref().map(str::trim).filter(|name| name.starts_with("step-"));
    named
        .map(|name| directory.join(name))
        .filter(|path| complete(path))
        .or_else(|| steps(directory).pop().map(|(_, path)| path))
}

/// Reads `state.json`.
pub fn state(path: &Path) -> Result<State, Failure> {
    let text =
        fs::read_to_string(path.join("state.json")).map_err(|e| fail(path, format!("state.json: {e}")))?;
    let state: State = serde_json::from_str(&text).map_err(|e| fail(path, format!("state.json: {e}")))?;
    if state.form != FORM {
        return Err(fail(path, format!("state.json: form `{}` is not `{FORM}`", state.form)));
    }
    if !is_intact(&text, &state) {
        return Err(fail(
            path,
            "state.json is damaged: its text is not the one that its `digest` was made of",
        ));
    }
    let (files, shards) = (state.files.len(), state.shards);
    if shards == 0 || files != shards {
        return Err(fail(path, format!("state.json: {shards} shards in {files} files are no checkpoint")));
    }
    if state.step > MOST_STEPS {
        return Err(fail(path, format!("state.json: {} steps are more than any run has", state.step)));
    }
    Ok(state)
}
