//! Reading and writing of weights in the Hugging Face format. Reading loads only the bytes that a rank's
//! shards need; writing holds one unit at a time.

pub mod adapter;
pub mod config_json;
pub mod tensor_names;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{self, AtomicBool};

use serde_json::{Value, json};

use crate::checkpoint;
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::fault_injection;
use crate::fsdp::{Engine, StateKind};
use crate::model::layout::{Shape, Unit};
use crate::safetensors::{self, Reader};
use tensor_names::{Arrangement, Part};

pub(crate) fn fail(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Data, format!("weights {}: {what}", path.display()))
}

/// Returns the failure of writing a tensor file: numbers out of range are a data error, others an output
/// error.
fn tensor_write_failure(directory: &Path, file: &str, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::InvalidData {
        return fail(directory, error);
    }
    write_failure(directory, format!("{file}: {error}"))
}

/// Returns the failure of writing a model.
fn write_failure(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Output, format!("model {}: {what}", path.display()))
}

/// Returns the temporary name of a file that is being written.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Replaces a small file atomically.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = partial(path);
    let written = fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    fs::rename(temporary, path)
}

/// Removes a file if it exists.
fn remove(path: &Path) -> std::io::Result<()> {
    fs::remove_file(path).or_else(|e| if e.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// The opened files of a directory of weights.
pub(crate) struct Weights {
    directory: PathBuf,
    files: Vec<(String, Reader)>,
}

impl Weights {
    fn open(directory: &Path) -> Result<Self, Failure> {
        let index = directory.join("model.safetensors.index.json");
        let mut names = vec!["model.safetensors".to_owned()];
        if index.is_file() {
            let text = fs::read(&index).map_err(|e| fail(&index, e))?;
            let value: Value = serde_json::from_slice(&text).map_err(|e| fail(&index, e))?;
            let map = value.get("weight_map").and_then(Value::as_object);
            let map = map.ok_or_else(|| fail(&index, "`weight_map` is missing"))?;
            names = map.values().filter_map(|v| v.as_str().map(str::to_owned)).collect();
            names.sort();
            names.dedup();
        }
        let open = |name: String| {
            let file = Reader::open(&directory.join(&name)).map_err(|e| fail(&directory.join(&name), e))?;
            Ok((name, file))
        };
        let files = names.into_iter().map(open).collect::<Result<_, Failure>>()?;
        Ok(Self { directory: directory.to_path_buf(), files })
    }

    /// Finds a tensor by its name, or by its name without the outermost module, as in models stored without a
    /// head.
    fn find<'a>(&'a self, name: &'a str) -> Option<(&'a Reader, &'a str)> {
        let short = name.split_once('.').map_or(name, |(_, short)| short);
        [name, short].into_iter().find_map(|name| {
            self.files.iter().find(|(_, f)| f.entries.contains_key(name)).map(|(_, f)| (f, name))
        })
    }

    /// Reads elements `from..to` of a part.
    fn read(&self, part: &Part, from: usize, to: usize, out: &mut [f32]) -> Result<(), Failure> {
        let found = self.find(&part.name);
        let (file, name) =
            found.ok_or_else(|| fail(&self.directory, format!("tensor `{}` not found", part.name)))?;
        let sizes = &file.entries[name].shape;
        // From a longer table of positions the first rows are used.
        let longer = name.ends_with("wpe.weight")
            && sizes.len() == 2
            && sizes[1] == part.sizes[1]
            && sizes[0] > part.sizes[0];
        if *sizes != part.sizes && !longer {
            return Err(fail(
                &self.directory,
                format!("`{name}` has the shape {sizes:?}, expected {:?}", part.sizes),
            ));
        }
        let io = |e: std::io::Error| fail(&self.directory, e);
        if part.form != Arrangement::Transposed {
            for (ours, theirs, len) in part.contiguous_runs(from, to) {
                let values = file.read_range(name, theirs, theirs + len).map_err(io)?;
                out[ours - from..ours - from + len].copy_from_slice(&values);
            }
            return Ok(());
        }
        // Row c of a transposed tensor is column c of ours: reads only the rows needed of each.
        let (first, last) = (from / part.cols, to.div_ceil(part.cols));
        for c in 0..part.cols {
            let values = file.read_range(name, c * part.rows + first, c * part.rows + last).map_err(io)?;
            for (r, value) in values.iter().enumerate() {
                let at = (first + r) * part.cols + c;
                if (from..to).contains(&at) {
                    out[at - from] = *value;
                }
            }
        }
        Ok(())
    }
}

impl Weights {
    /// Fills `out` with the elements of a unit from `start` on.
    fn fill(&self, config: &Config, unit: &Unit, start: usize, out: &mut [f32]) -> Result<(), Failure> {
        let (shape, end) = (Shape::from_model(&config.model), start + out.len());
        for tensor in &unit.tensors {
            let parts = tensor_names::parts(config.model.family, &shape, tensor);
            let mut at = tensor.offset;
            for part in parts.ok_or_else(|| {
                fail(&self.directory, format!("`{}` has no equivalent in this model family", tensor.name))
            })? {
                let len = part.elements();
                let (from, to) = (at.max(start), (at + len).min(end));
                if from < to {
                    self.read(&part, from - at, to - at, &mut out[from - start..to - start])?;
                } else {
                    // Checks the shape, so that all ranks report the same error.
                    self.read(&part, 0, 0, &mut [])?;
                }
                at += len;
            }
        }
        Ok(())
    }
}

/// Reads `config.json` of a directory; none if it does not exist.
fn read_config_json(directory: &Path) -> Result<Option<Value>, Failure> {
    let path = directory.join("config.json");
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| fail(&path, e)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(fail(&path, e)),
    }
}

/// Returns a warning if the `config.json` of the weights configures dropout, which is not applied.
pub(crate) fn dropout_warning(directory: &Path) -> Result<Option<String>, Failure> {
    let Some(card) = read_config_json(directory)? else { return Ok(None) };
    let all: Vec<String> =
        config_json::dropout(&card).iter().map(|(name, p)| format!("`{name}` {p}")).collect();
    let shown = directory.join("config.json");
    Ok((!all.is_empty())
        .then(|| format!("{} configures dropout, which is not applied: {}", shown.display(), all.join(", "))))
}

/// Opens a directory of weights after checking that they fit this config's model.
pub(crate) fn open_matching(config: &Config, directory: &Path) -> Result<Weights, Failure> {
    tensor_names::check_supported(config)?;
    if let Some(card) = read_config_json(directory)? {
        let differences = config_json::differences(&card, config);
        if !differences.is_empty() {
            return Err(fail(&directory.join("config.json"), differences.join("; ")));
        }
    }
    Weights::open(directory)
}

/// Checks that every tensor exists in its shape, and reads part `part` of `parts` of one block. Returns the
/// bytes per second, counted in f32.
pub fn check_weights(config: &Config, directory: &Path, part: usize, parts: usize) -> Result<f64, Failure> {
    let weights = open_matching(config, directory)?;
    let units = Shape::from_model(&config.model).units();
    for unit in units.iter().take(config.model.layers + 2) {
        weights.fill(config, unit, unit.len, &mut [])?;
    }
    let Some(block) = units.get(1 + part % config.model.layers) else { return Ok(0.0) };
    let each = block.len.div_ceil(parts.max(1));
    let start = (part * each).min(block.len);
    let mut values = vec![0.0; each.min(block.len - start)];
    let began = std::time::Instant::now();
    weights.fill(config, block, start, &mut values)?;
    Ok(4.0 * values.len() as f64 / began.elapsed().as_secs_f64().max(1e-9))
}

/// Fills the shards of an engine from a directory of safetensors; each rank reads only its own shards.
pub fn load(engine: &mut dyn Engine, config: &Config, directory: &Path) -> Result<(), Failure> {
    let weights = open_matching(config, directory)?;
    for at in 0..config.model.layers + 2 {
        let shard = &engine.shards()[at];
        let mut values = vec![0.0; shard.len];
        weights.fill(config, &shard.unit, shard.start, &mut values)?;
        engine.write_shard(at, StateKind::Master, &values)?;
    }
    Ok(())
}

/// Files that are copied along with the weights.
const COMPANIONS: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
];

/// Writes a model for `transformers`, unit by unit. Files have temporary names until `finish` renames them,
/// the index last. An interrupted export leaves the old model or, during the renames, one without an index,
/// but never a mixture that loads. A model that its family cannot represent is written under this project's
/// own tensor names, without a config.json.
#[derive(Debug)]
pub struct Writer<'a> {
    config: &'a Config,
    directory: PathBuf,
    dtype: &'static str,
    named: bool,
    count: usize,
    done: usize,
    map: BTreeMap<String, String>,
    total: usize,
    /// Files that still have their temporary names; removed on drop.
    temporary: Vec<PathBuf>,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        for path in &self.temporary {
            let _ = fs::remove_file(partial(path));
        }
    }
}

impl<'a> Writer<'a> {
    /// Creates a writer of `count` units in `F32`, `BF16` or `F16`.
    pub fn new(
        config: &'a Config,
        directory: &Path,
        count: usize,
        dtype: &'static str,
    ) -> Result<Self, Failure> {
        fs::create_dir_all(directory).map_err(|e| write_failure(directory, e))?;
        let named = tensor_names::unsupported(config).is_empty();
        let (directory, map) = (directory.to_path_buf(), BTreeMap::new());
        Ok(Self { config, directory, dtype, named, count, done: 0, map, total: 0, temporary: Vec::new() })
    }

    /// Writes the next unit.
    pub fn write_unit(&mut self, unit: &Unit, values: &[f32]) -> Result<(), Failure> {
        self.done += 1;
        let file = format!("model-{:05}-of-{:05}.safetensors", self.done, self.count);
        let shape = Shape::from_model(&self.config.model);
        let mut tensors = Vec::new();
        for tensor in &unit.tensors {
            let own = || {
                let (rows, cols) = (tensor.rows, tensor.cols);
                vec![Part {
                    name: tensor.name.clone(),
                    rows,
                    cols,
                    sizes: vec![rows, cols],
                    form: Arrangement::Rows,
                }]
            };
            let theirs =
                self.named.then(|| tensor_names::parts(self.config.model.family, &shape, tensor)).flatten();
            let mut at = tensor.offset;
            for part in theirs.unwrap_or_else(own) {
                let len = part.elements();
                self.map.insert(part.name.clone(), file.clone());
                self.total += len * safetensors::width(self.dtype);
                tensors.push((part.name.clone(), part.sizes.clone(), part.to_hf(&values[at..at + len])));
                at += len;
            }
        }
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        let tensors: Vec<_> = tensors.iter().map(|(n, s, v)| (n.clone(), s.clone(), v.as_slice())).collect();
        let path = self.directory.join(&file);
        self.temporary.push(path.clone());
        safetensors::write_as(&partial(&path), self.dtype, &metadata, &tensors)
            .map_err(|e| tensor_write_failure(&self.directory, &file, &e))?;
        Ok(())
    }

    /// Renames the files, then writes config.json, copies the companion files and writes the index.
    pub fn finish(self) -> Result<(), Failure> {
        let directory = self.directory.clone();
        let io = |e: std::io::Error| write_failure(&directory, e);
        let index = json!({"metadata": {"total_size": self.total}, "weight_map": self.map});
        let index_path = directory.join("model.safetensors.index.json");
        let began = self.config.model.weights.as_deref().map(Path::new);
        let base = if self.named { began.map(read_config_json).transpose()?.flatten() } else { None };
        remove(&index_path).map_err(io)?;
        for path in &self.temporary {
            fs::rename(partial(path), path).map_err(io)?;
        }
        if self.named {
            let card = config_json::write(self.config, base.as_ref(), self.dtype);
            replace(&directory.join("config.json"), format!("{card:#}\n").as_bytes()).map_err(io)?;
        }
        for name in COMPANIONS {
            let from = began.map(|began| began.join(name)).filter(|from| from.is_file());
            if let Some(from) = from {
                fs::copy(from, directory.join(name)).map_err(io)?;
            }
        }
        replace(&index_path, format!("{index:#}\n").as_bytes()).map_err(io)?;
        fs::File::open(&directory).and_then(|directory| directory.sync_all()).map_err(io)
    }
}

/// Returns whether any rank was asked to stop. Every rank must call it and gets the same result.
fn stop_requested(engine: &mut dyn Engine, stop: &AtomicBool) -> Result<bool, Failure> {
    let mut flag = [f64::from(u8::from(stop.load(atomic::Ordering::Relaxed)))];
    engine.groups().world.all_reduce_f64(&mut flag)?;
    Ok(flag[0] > 0.0)
}

/// Writes an engine's weights, or its adapters if there are any. Every rank must call it. Returns false if
/// `stop` was set before all were gathered; the directory is then unchanged.
pub fn export(
    engine: &mut dyn Engine,
    config: &Config,
    directory: &Path,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    if config.model.adapter.is_some() {
        let mut units = Vec::new();
        for layer in 0..config.model.layers {
            if stop_requested(engine, stop)? {
                return Ok(false);
            }
            units.push(engine.gather_master_weights(config.model.layers + 2 + layer)?);
        }
        if engine.groups().world.rank() == 0 {
            adapter::write(config, directory, &units)?;
        }
        return engine.groups().world.barrier().map(|()| true);
    }
    let count = engine.shards().len();
    let mut writer = if engine.groups().world.rank() == 0 {
        Some(Writer::new(config, directory, count, "F32")?)
    } else {
        None
    };
    for unit in 0..count {
        if stop_requested(engine, stop)? {
            return Ok(false);
        }
        let values = engine.gather_master_weights(unit)?;
        if let Some(writer) = &mut writer {
            writer.write_unit(&engine.shards()[unit].unit, &values)?;
        }
        fault_injection::wait_for_stop("export", stop);
    }
    writer.map_or(Ok(()), Writer::finish)?;
    engine.groups().world.barrier().map(|()| true)
}

/// Writes the model of a checkpoint, holding one unit at a time. `merge` adds adapters to the weights that
/// they were trained on; without it, only the adapters are written.
pub fn export_checkpoint(
    config: &Config,
    checkpoint: &Path,
    directory: &Path,
    dtype: &'static str,
    merge: bool,
) -> Result<(), Failure> {
    let state = checkpoint::load_state(checkpoint)?;
    checkpoint::check_model(config, checkpoint, &state)?;
    checkpoint::verify(checkpoint, &state)?;
    let shape = Shape::from_model(&config.model);
    let units: Vec<Unit> = shape.units();
    let adapters =
        |layer: usize| checkpoint::read_unit_weights(checkpoint, &state, &format!("adapter.{layer}"));
    let Some(lora) = &shape.adapter else {
        let mut writer = Writer::new(config, directory, units.len(), dtype)?;
        for unit in &units {
            writer.write_unit(unit, &checkpoint::read_unit_weights(checkpoint, &state, &unit.name)?)?;
        }
        return writer.finish();
    };
    if !merge {
        let all = (0..config.model.layers).map(adapters).collect::<Result<Vec<_>, _>>()?;
        return adapter::write(config, directory, &all);
    }
    let weights = Weights::open(Path::new(config.model.weights.as_deref().unwrap_or_default()))?;
    let mut writer = Writer::new(config, directory, shape.layers + 2, dtype)?;
    for (at, unit) in units[..shape.layers + 2].iter().enumerate() {
        let mut values = vec![0.0; unit.len];
        weights.fill(config, unit, 0, &mut values)?;
        if (1..=shape.layers).contains(&at) {
            lora.add(&lora.unit(&shape, at - 1).1, &adapters(at - 1)?, &mut values, 1);
        }
        writer.write_unit(unit, &values)?;
    }
    writer.finish()
}
