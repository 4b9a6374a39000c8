//! Preflight checks, within a minute once all ranks have connected: links, data, weights, checkpoints,
//! clocks. All ranks take part; the first prints. A failure has the exit code that training would have ended
//! with.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::checkpoint;
use crate::comm::topology::{Kind, Step};
use crate::comm::{Groups, Wire};
use crate::config::Config;
use crate::console;
use crate::data::order::Order;
use crate::data::tokens::{Documents, Rows, Tokens};
use crate::exit::{Code, Failure};
use crate::fsdp::{Engine, MemoryParts, shared_memory_plan};
use crate::model::init::mix;

/// Maximum size of the test file in the checkpoint directory, in bytes.
const PROBE: usize = 64 << 20;
/// Seconds for measuring the data read rate.
const READ: f64 = 1.0;
/// Time limit for verifying a checkpoint's files; training verifies every file that it reads.
const COMPARE: Duration = Duration::from_secs(20);
/// Limit in FLOPs above which a pass is not measured, because it would take too long.
const HEAVY: f64 = 2e11;
/// Allowed clock difference in seconds, so that logs of hosts can be compared.
const CLOCKS: f64 = 60.0;

struct Preflight<'a> {
    config: &'a Config,
    rank: usize,
}

impl Preflight<'_> {
    fn report(&self, check: &str, figures: Value, people: &str) {
        if self.rank != 0 {
            return;
        }
        let mut line = json!({"check": check, "ok": true});
        if let (Some(line), Value::Object(figures)) = (line.as_object_mut(), figures) {
            line.extend(figures);
        }
        console::print_stdout(line);
        console::print_stderr(format_args!("{check}: {people}"));
    }

    fn warn(&self, text: &str) {
        if self.rank == 0 {
            console::print_stdout(json!({"check": "warning", "warning": text}));
            console::print_stderr(format_args!("warning: {text}"));
        }
    }
}

/// Gathers one number from each rank.
pub(crate) fn gather_from_ranks(groups: &mut Groups, mine: f64) -> Result<Vec<f64>, Failure> {
    let mut all = vec![0.0; groups.world.size()];
    all[groups.world.rank()] = mine;
    groups.world.all_reduce_f64(&mut all)?;
    Ok(all)
}

pub(crate) fn least(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(all: &[f64]) -> f64 {
    all.iter().copied().fold(0.0, f64::max)
}

/// Runs all checks. Every rank must call it.
pub fn run(
    config: &Config,
    mut groups: Groups,
    create: impl FnOnce(Groups) -> Result<Box<dyn Engine>, Failure>,
) -> Result<(), Failure> {
    let p = Preflight { config, rank: groups.world.rank() };
    let began = Instant::now();
    groups.world.barrier()?;
    crate::fault_injection::hang("preflight");
    p.report_ranks(&groups);
    p.check_clocks(&mut groups)?;
    if !config.uses_gpus() {
        // The self-check has measured those of GPUs.
        p.measure_links(&mut groups)?;
    }
    p.check_checkpoints(&mut groups)?;
    p.check_outputs(&mut groups)?;
    p.check_resume(&mut groups)?;
    p.check_weights(&mut groups)?;
    p.check_data(groups, create)?;
    p.report(
        "all",
        json!({"seconds": began.elapsed().as_secs_f64()}),
        &format!("ready after {:.1} s", began.elapsed().as_secs_f64()),
    );
    Ok(())
}

impl Preflight<'_> {
    fn report_ranks(&self, groups: &Groups) {
        let c = self.config;
        let (ranks, hosts) = (groups.world.size(), c.cluster.nodes);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let bytes = MemoryParts::from_config(c);
        let devices =
            if c.uses_gpus() { "one GPU each".to_owned() } else { format!("CPU ranks on {cores} cores") };
        let (shards, replicas) = (groups.shard.size(), groups.replica.size());
        self.report(
            "ranks",
            json!({"ranks": ranks, "hosts": hosts, "shard_degree": shards, "data_parallel_replicas": replicas,
                "cores": cores, "memory_parts": bytes}),
            &format!(
                "{ranks} = {shards} shards x {replicas} replicas on {hosts} hosts, {devices}; \
                    memory per rank: {}",
                bytes.describe()
            ),
        );
        if !c.uses_gpus() && ranks / hosts > cores {
            self.warn(&format!("{} ranks share the {cores} cores of each host", ranks / hosts));
        }
    }

    fn check_clocks(&self, groups: &mut Groups) -> Result<(), Failure> {
        groups.world.barrier()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let all = gather_from_ranks(groups, now.map_or(0.0, |d| d.as_secs_f64()))?;
        let apart = most(&all) - least(&all);
        if apart > CLOCKS {
            let at = |value: f64| all.iter().position(|v| *v == value).unwrap_or(0);
            let (late, early) = (at(most(&all)), at(least(&all)));
            return Err(Failure::new(
                Code::Peer,
                format!("the clock of rank {late} is {apart:.0} s ahead of the clock of rank {early}"),
            ));
        }
        self.report("clocks", json!({"apart_seconds": apart}), &format!("{:.1} ms apart", apart * 1e3));
        Ok(())
    }

    /// Measures the bandwidth of gathering the largest unit and the latency of the smallest all-reduce.
    fn measure_links(&self, groups: &mut Groups) -> Result<(), Failure> {
        let shard = vec![1.0f32; shared_memory_plan(self.config).largest_shard];
        let mut full = vec![0.0f32; shard.len() * groups.shard.size()];
        let mut rounds = Vec::new();
        for _ in 0..7 {
            groups.world.barrier()?;
            let began = Instant::now();
            groups.shard.begin_gather(&shard, Wire::F32)?;
            groups.shard.end_gather(&mut full, Wire::F32)?;
            rounds.push(most(&gather_from_ranks(groups, began.elapsed().as_secs_f64())?));
        }
        if full.iter().any(|v| *v != 1.0) {
            return Err(Failure::new(Code::Peer, "a gather returned different values than were sent"));
        }
        rounds.sort_by(f64::total_cmp);
        let gigabytes = 4.0 * full.len() as f64 / 1e9;
        let rate = gigabytes / rounds[rounds.len() / 2];
        let mut sums = Vec::new();
        for _ in 0..21 {
            let began = Instant::now();
            groups.world.barrier()?;
            sums.push(began.elapsed().as_secs_f64());
        }
        sums.sort_by(f64::total_cmp);
        let small = sums[sums.len() / 2];
        let topology = shared_memory_plan(self.config).topology;
        let hosts = topology.members(Kind::Shard, Step::Outer, self.rank).len();
        let how = if groups.shard.size() == 1 {
            "one shard: no gather".to_owned()
        } else {
            let steps = if hosts > 1 { format!(", in two steps over {hosts} hosts") } else { String::new() };
            format!("gather of the largest unit at {rate:.2} GB/s{steps}")
        };
        self.report(
            "links",
            json!({"gather_gb_per_s": (groups.shard.size() > 1).then_some(rate), "gather_bytes": 4 * full.len(),
                "hosts_of_a_group": hosts, "sum_seconds": small}),
            &format!("{how}; the smallest sum takes {:.0} us", small * 1e6),
        );
        Ok(())
    }

    fn check_checkpoints(&self, groups: &mut Groups) -> Result<(), Failure> {
        let shared = checkpoint::check_resumable(groups, self.config)?;
        let c = &self.config.checkpoint;
        let directory = Path::new(&c.directory);
        let bytes = MemoryParts::from_config(self.config);
        let mine = bytes.parameters + bytes.optimizer;
        let whole = mine as f64 * groups.shard.size() as f64;
        let took = probe_write_seconds(directory, self.rank, mine.clamp(4096, PROBE));
        let took = took.map_err(|e| {
            Failure::new(Code::Checkpoint, format!("`checkpoint.directory` {}: {e}", directory.display()))
        })?;
        let rate = mine.clamp(4096, PROBE) as f64 / most(&gather_from_ranks(groups, took)?);
        let free =
            rustix::fs::statvfs(directory).map_or(f64::INFINITY, |s| s.f_bavail as f64 * s.f_frsize as f64);
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let kept = checkpoint::list_checkpoints(directory).len().min(c.keep) as f64;
        // A new checkpoint is completed before the oldest is removed.
        let wanted = whole * (c.keep as f64 + 1.0 - kept);
        // Only the first replica writes.
        if free < whole && groups.replica.rank() == 0 {
            return Err(Failure::new(
                Code::Checkpoint,
                format!(
                    "`checkpoint.directory` {}: {:.0} MiB free, but one checkpoint requires {:.0} MiB",
                    directory.display(),
                    mib(free),
                    mib(whole)
                ),
            ));
        }
        let save = mine as f64 / rate;
        self.report(
            "checkpoints",
            json!({"write_bytes_per_s_and_rank": rate, "checkpoint_bytes": whole, "save_seconds": save,
                "free_bytes": free, "shared_by_hosts": shared}),
            &format!(
                "{:.0} MiB per checkpoint, written at {:.0} MiB/s per rank and read back: \
                    {save:.1} s per save; {:.0} MiB free",
                mib(whole),
                mib(rate),
                mib(free)
            ),
        );
        if shared == Some(false) {
            self.warn(
                "hosts do not share `checkpoint.directory`: the first host stores the \
                    checkpoints and distributes them when a run resumes",
            );
        }
        if free < wanted {
            self.warn(&format!(
                "{:.0} MiB free, but keeping {} checkpoints requires {:.0} MiB more",
                mib(free),
                c.keep,
                mib(wanted)
            ));
        }
        if save > c.grace_seconds {
            self.warn(&format!(
                "a save takes {save:.0} s, but `checkpoint.grace_seconds` is {}: a run stopped \
                    by SIGTERM loses the steps since its last checkpoint",
                c.grace_seconds
            ));
        }
        Ok(())
    }

    fn check_outputs(&self, groups: &mut Groups) -> Result<(), Failure> {
        if self.rank == 0 {
            let o = &self.config.output;
            for (name, directory) in [("output.model", &o.model), ("output.data", &o.data)] {
                probe_write_seconds(Path::new(directory), self.rank, 1)
                    .map_err(|e| Failure::new(Code::Config, format!("`{name}` {directory}: {e}")))?;
            }
        }
        // Each host's launcher writes its own file.
        let failure = Path::new(&self.config.output.failure);
        let parent = failure.parent().filter(|parent| !parent.as_os_str().is_empty());
        let tried = if failure.is_dir() {
            Err(std::io::ErrorKind::IsADirectory.into())
        } else {
            probe_write_seconds(parent.unwrap_or(Path::new(".")), self.rank, 1)
        };
        tried.map_err(|e| {
            Failure::new(Code::Config, format!("`output.failure` {}: {e}", failure.display()))
        })?;
        groups.world.barrier()?;
        self.report("outputs", json!({}), "writable");
        Ok(())
    }

    fn tokens(&self, path: &str) -> Result<Tokens, Failure> {
        let m = &self.config.model;
        let documents = Documents::from_config(self.config.data.document_mask);
        Tokens::open(Path::new(path), m.sequence_length, m.vocab_size, documents)
    }

    /// Verifies the checkpoint to resume from, as far as the time limit allows. The ranks that will read it
    /// share its files.
    fn check_resume(&self, groups: &mut Groups) -> Result<(), Failure> {
        let digest = self.tokens(&self.config.data.train)?.digest().to_owned();
        let time = crate::fault_injection::compare_limit().unwrap_or(COMPARE);
        let until = Some(Instant::now() + time);
        let found = checkpoint::find_on_all_ranks(groups, self.config, &digest, until)?;
        let mine = found.as_ref().map(|found| found.compared).unwrap_or_default();
        let mut sums = [mine.files as f64, mine.bytes as f64];
        groups.world.all_reduce_f64(&mut sums)?;
        for warning in found.iter().flat_map(|found| &found.warnings) {
            self.warn(warning);
        }
        let Some(choice) = found.and_then(|found| found.choice) else {
            self.report("resume", json!({"step": null}), "from the start");
            return Ok(());
        };
        let (state, files, bytes) = (&choice.state, sums[0] as usize, sums[1] as u64);
        self.report(
            "resume",
            json!({"step": state.step, "checkpoint": choice.path.to_string_lossy(), "files": state.files.len(),
                "files_compared": files, "bytes_compared": bytes}),
            &format!(
                "from step {}, {}; {files} of {} files checked against their sha256, {:.1} MiB",
                state.step,
                choice.path.display(),
                state.files.len(),
                bytes as f64 / f64::from(1 << 20)
            ),
        );
        if let Some(warning) = checkpoint::describe_changes(self.config, state) {
            self.warn(&warning);
        }
        if files < state.files.len() {
            self.warn(
                "not all files of the checkpoint were checked in the time available; training \
                    checks every file that it reads",
            );
        }
        Ok(())
    }

    /// Checks that the weights exist and fit the model; every rank reads a different part of one block.
    fn check_weights(&self, groups: &mut Groups) -> Result<(), Failure> {
        let Some(weights) = &self.config.model.weights else { return Ok(()) };
        let rate = crate::hf::check_weights(self.config, Path::new(weights), self.rank, groups.world.size())?;
        let rate = least(&gather_from_ranks(groups, rate)?);
        if let Some(warning) = crate::hf::dropout_warning(Path::new(weights))? {
            self.warn(&warning);
        }
        let people = format!("all tensors found, read at {:.0} MiB/s per rank", rate / f64::from(1 << 20));
        self.report("weights", json!({"read_bytes_per_s_and_rank": rate}), &people);
        Ok(())
    }

    /// Measures the data read rate and compares it with the rate that a pass requires.
    fn check_data(
        &self,
        mut groups: Groups,
        create: impl FnOnce(Groups) -> Result<Box<dyn Engine>, Failure>,
    ) -> Result<(), Failure> {
        let (m, b, d) = (&self.config.model, &self.config.batch, &self.config.data);
        let train = self.tokens(&d.train)?;
        let validation = d.validation.as_deref().map(|path| self.tokens(path)).transpose()?;
        for warning in crate::train::length_warnings(self.config, train.sequences()) {
            self.warn(&warning);
        }
        let order = Order { sequences: train.sequences(), seed: d.shuffle.then_some(d.seed) };
        let (began, mut read) = (Instant::now(), 0u64);
        let mut rows = Rows::default();
        let ranks = groups.world.size() as u64;
        while began.elapsed().as_secs_f64() < READ && read < 4096 {
            rows.clear();
            train.read(order.sequence_at(read * ranks + self.rank as u64), &mut rows)?;
            read += 1;
        }
        let rate = read as f64 / began.elapsed().as_secs_f64();
        if let Some(validation) = &validation {
            validation.read(0, &mut rows)?;
        }
        let rate = least(&gather_from_ranks(&mut groups, rate)?);
        let parameters: usize = crate::model::layout::Shape::from_model(m).parameters();
        let heavy = 6.0 * parameters as f64 * (b.micro * m.sequence_length) as f64 > HEAVY;
        let mut needed = None;
        if !heavy {
            let mut engine = create(groups)?;
            let token = |i: usize| (mix(i as u64) % m.vocab_size as u64) as u32;
            let tokens: Vec<u32> = (0..engine.rows()).map(token).collect();
            let mut seconds = 0.0;
            for _ in 0..2 {
                let began = Instant::now();
                engine.micro_step(&tokens, &tokens, 1.0)?;
                engine.reduce()?;
                seconds = began.elapsed().as_secs_f64();
            }
            let seconds = least(&gather_from_ranks(engine.groups(), seconds)?);
            needed = Some(b.micro as f64 / seconds);
        }
        if let Some(needed) = needed.filter(|needed| rate < *needed) {
            return Err(Failure::new(
                Code::Data,
                format!(
                    "`data.train` {}: read at {rate:.1} sequences/s per rank, but training \
                        consumes {needed:.1}",
                    d.train
                ),
            ));
        }
        self.report(
            "data",
            json!({"sequences": train.sequences(), "read_per_s_and_rank": rate, "needed_per_s_and_rank": needed}),
            &format!(
                "{} sequences, read at {rate:.0}/s per rank, required: {}",
                train.sequences(),
                needed.map_or_else(|| "not measured, a pass takes too long".to_owned(), |n| format!("{n:.1}/s"))
            ),
        );
        Ok(())
    }
}

/// Writes a file, syncs it, reads it back and removes it. Returns the seconds of writing.
pub(crate) fn probe_write_seconds(directory: &Path, rank: usize, bytes: usize) -> std::io::Result<f64> {
    fs::create_dir_all(directory)?;
    let path = directory.join(format!("preflight-{rank}.partial"));
    let result = (|| {
        let text: Vec<u8> = (0..bytes).map(|i| mix((i + rank) as u64) as u8).collect();
        let began = Instant::now();
        let mut file = File::create(&path)?;
        file.write_all(&text)?;
        file.sync_all()?;
        let seconds = began.elapsed().as_secs_f64();
        let mut back = Vec::new();
        File::open(&path)?.read_to_end(&mut back)?;
        if back != text {
            return Err(std::io::Error::other("the data read back differs from the data written"));
        }
        Ok(seconds)
    })();
    let removed = fs::remove_file(&path);
    let seconds = result?;
    removed?;
    Ok(seconds)
}
