//! Checkpoints: `step-N/` with one file per shard and `state.json`, which is written last: a directory
//! without it is incomplete. No file has another name before it is complete, since SageMaker uploads every
//! file under each of its names. `latest` names the current checkpoint. Directories with other names are
//! never loaded. Any number of shards can be loaded.

mod load;
mod resume;
mod save;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use load::{Compared, Selection, load, read_unit_weights, verify};
pub use resume::{
    Found, ResumePoint, check_model, check_resumable, find_on_all_ranks, is_directory_shared, restore,
};
pub use save::{Progress, Run, Saver};

use crate::config::{Config, differences};
use crate::data::tokens::hex;
use crate::exit::{Code, Failure};
use crate::fsdp::Engine;
use crate::model::layout::Unit;

/// Checkpoint format that this binary reads.
const FORM: &str = "trainc.checkpoint/v1";

/// Upper bound of steps, as in the config.
const MOST_STEPS: usize = 1 << 40;

/// File that names the current checkpoint.
pub const LATEST: &str = "latest";

/// Contents of `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Format, `trainc.checkpoint/v1`.
    pub form: String,
    /// Digest of the config that wrote the checkpoint.
    pub config: String,
    /// Completed optimizer steps.
    pub step: usize,
    /// Sequences read, over all ranks.
    pub sequences: u64,
    /// Seed of the data order and of fresh weights.
    pub seed: u64,
    /// SHA-256 of the data's index.
    pub data: String,
    /// Number of shard files.
    pub shards: usize,
    /// Elements of each unit, in order.
    pub units: Vec<(String, usize)>,
    /// SHA-256 of the list of tensors.
    pub layout: String,
    /// SHA-256 and size in bytes of each shard's file.
    pub files: Vec<(String, u64)>,
    /// Path in `checkpoint.resume` that the writing run started from.
    #[serde(default)]
    pub began: Option<String>,
    /// Where the current order of the data began.
    #[serde(default)]
    pub order: OrderStart,
    /// The config's `model` without the path of its weights; absent in checkpoints of older binaries.
    #[serde(default)]
    pub model: Option<serde_json::Value>,
    /// Training settings of the config; absent in checkpoints of older binaries.
    #[serde(default)]
    pub settings: Option<serde_json::Value>,
    /// SHA-256 of this file's text with zeros in place of the digest; absent in checkpoints of older
    /// binaries.
    #[serde(default)]
    pub digest: Option<String>,
}

/// Beginning of an order of the data: zeros, unless a run resumed with other data, another seed or batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderStart {
    /// Completed optimizer steps.
    pub step: usize,
    /// Sequences read, over all ranks.
    pub sequences: u64,
}

/// Placeholder for the digest while it is computed.
const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Returns the text of `state.json`, including its digest.
fn text_with_digest(state: &State) -> serde_json::Result<String> {
    let blank = State { digest: Some(BLANK.to_owned()), ..state.clone() };
    let text = serde_json::to_string_pretty(&blank)?;
    let digest = hex(&Sha256::digest(&text));
    // The digest is the last member, so zeros elsewhere are not replaced.
    Ok(text
        .rfind(BLANK)
        .map_or(text.clone(), |at| format!("{}{digest}{}", &text[..at], &text[at + BLANK.len()..])))
}

/// Returns whether the text matches its digest. A text without a digest counts as intact.
fn is_intact(text: &str, state: &State) -> bool {
    let Some(digest) = &state.digest else { return true };
    let Some(at) = text.rfind(digest.as_str()).filter(|_| digest.len() == BLANK.len()) else { return false };
    let blank = format!("{}{BLANK}{}", &text[..at], &text[at + BLANK.len()..]);
    hex(&Sha256::digest(blank)) == *digest
}

/// Returns the settings of a config that affect training and may change between runs.
pub fn training_settings(config: &Config) -> serde_json::Value {
    serde_json::json!({
        "optimizer": config.optimizer, "schedule": config.schedule, "precision": config.precision,
        "data": {"shuffle": config.data.shuffle, "document_mask": config.data.document_mask},
    })
}

/// Describes the training settings that differ from those in `state`; none if all are equal.
pub fn describe_changes(config: &Config, state: &State) -> Option<String> {
    let was = state.settings.as_ref()?;
    let all: Vec<String> = differences("", was, &training_settings(config))
        .into_iter()
        .map(|(at, was, is)| format!("`{at}` was {was}, is {is}"))
        .collect();
    (!all.is_empty()).then(|| format!("settings changed at step {}: {}", state.step, all.join(", ")))
}

/// Returns the settings that define the model's function: all of `model` except the path of its weights.
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

fn units(engine: &dyn Engine) -> Vec<(String, usize)> {
    engine.shards().iter().filter(|s| s.unit.trained).map(|s| (s.unit.name.clone(), s.unit.len)).collect()
}

/// Returns a digest of the tensor layout: checkpoints with equal layouts are interchangeable.
fn layout_digest(engine: &dyn Engine) -> String {
    layout_digest_of_units(engine.shards().iter().map(|s| &s.unit).filter(|unit| unit.trained))
}

fn layout_digest_of_units<'a>(units: impl Iterator<Item = &'a Unit>) -> String {
    let mut hash = Sha256::new();
    for tensor in units.flat_map(|unit| &unit.tensors) {
        hash.update(format!("{} {} {} {}\n", tensor.name, tensor.rows, tensor.cols, tensor.offset));
    }
    hex(&hash.finalize())
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn is_complete(path: &Path) -> bool {
    path.join("state.json").is_file()
}

/// Returns the directories of checkpoints, complete or not, ordered by step.
fn list_directories(directory: &Path) -> Vec<(usize, PathBuf)> {
    let mut found: Vec<(usize, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| {
            let step = entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()?;
            Some((step, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// Returns the complete checkpoints, ordered by step.
pub fn list_checkpoints(directory: &Path) -> Vec<(usize, PathBuf)> {
    let mut all = list_directories(directory);
    all.retain(|(_, path)| is_complete(path));
    all
}

/// Returns the current checkpoint: the one that `latest` names, or else the complete one with the most steps.
pub fn newest(directory: &Path) -> Option<PathBuf> {
    let named = fs::read_to_string(directory.join(LATEST)).ok();
    let named = named.as_deref().map(str::trim).filter(|name| name.starts_with("step-"));
    named
        .map(|name| directory.join(name))
        .filter(|path| is_complete(path))
        .or_else(|| list_checkpoints(directory).pop().map(|(_, path)| path))
}

/// Reads `state.json`.
pub fn load_state(path: &Path) -> Result<State, Failure> {
    let text =
        fs::read_to_string(path.join("state.json")).map_err(|e| fail(path, format!("state.json: {e}")))?;
    let state: State = serde_json::from_str(&text).map_err(|e| fail(path, format!("state.json: {e}")))?;
    if state.form != FORM {
        return Err(fail(
            path,
            format!("state.json: format `{}` is unsupported, expected `{FORM}`", state.form),
        ));
    }
    if !is_intact(&text, &state) {
        return Err(fail(path, "state.json is damaged: its text does not match its `digest`"));
    }
    let (files, shards) = (state.files.len(), state.shards);
    if shards == 0 || files != shards {
        return Err(fail(
            path,
            format!("state.json: invalid checkpoint of {shards} shards in {files} files"),
        ));
    }
    if state.step > MOST_STEPS {
        return Err(fail(path, format!("state.json: invalid step {}", state.step)));
    }
    Ok(state)
}
