//! The constants of the cost model: few, physical, one value per GPU type or link type; none per model or per
//! run.
//!
//! The values are in `constants.toml`, which `trainc calibrate RUNS.csv --write FILE` generates; the same
//! function reads a user's file.

use super::evidence::{Evidence, FinishedRun, MeasuredRun};
use super::figures::{flatten_toml, format_four_digits, format_three_digits, gpu_runs_in_table};
use super::layout::{GpuKind, System};
pub use super::position::Position;
use super::probed::Probed;
pub use super::ranges::Range;
use super::ranges::{RANGES, range_name};
use super::settings::{FEWEST_OWN, MemorySetting, PeakEnds, Setting};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const SHIPPED: &str = include_str!("constants.toml");

/// Constants of a GPU type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Share of the dense 16-bit peak that large matrix products reach.
    pub gemm: f64,
    /// Share of the peak that FlashAttention reaches, counted over the causal half with an endlessly wide
    /// head.
    pub flash: f64,
    /// FlashAttention 2 over 1, a ratio of speeds.
    pub flash2: f64,
    /// Kernels for Hopper and later (FlashAttention 3, cuDNN) over FlashAttention 1, a ratio of speeds.
    pub flash3: f64,
    /// Seconds that a host takes to launch one layer's kernels, forward and backward.
    pub launch: f64,
    /// Number of measured runs behind the values; 0 if the values are taken from similar GPU types.
    pub rows: f64,
    /// Half-width of the step-time interval on this GPU type, a natural logarithm, if a user's own runs
    /// determine it.
    pub interval: Option<f64>,
}

/// All constants, in SI units.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// ISO date on which they were fitted.
    pub fitted: String,
    /// The command that fitted them.
    pub command: String,
    /// The file that they were read from, as the user named it; `None` for the constants that ship with
    /// trainc.
    pub file: Option<String>,
    /// Table of the user's own runs that the file carries: too few to fit constants to.
    pub runs: Option<String>,
    /// Keys that the file lacks; their values are the shipped ones.
    pub borrowed: Vec<&'static str>,
    /// Values by their names in the file; see [`Name`].
    values: [f64; Name::COUNT],
    gpus: BTreeMap<GpuKind, Gpu>,
    /// Ranges by the words of [`RANGES`]; a file without any uses those of the shipped one.
    ranges: BTreeMap<&'static str, Range>,
    /// Settings with the number of runs behind each; a file without any uses those of the shipped one.
    settings: Vec<(Setting, MeasuredRuns)>,
    /// Ends of the intervals of peaks by setting.
    peak_ends: Vec<PeakEnds>,
    /// Measured runs of the user, which condition predictions of similar layouts.
    evidence: Option<Arc<Evidence>>,
    /// What a probe measured, which other devices do not share.
    probed: Option<Probed>,
}

/// Declares the constants that are independent of the GPU type.
macro_rules! names {
    ($($(#[$doc:meta])+ $name:ident = $key:literal;)+) => {
        /// A constant that is independent of the GPU type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Name {
            $($(#[$doc])+ $name,)+
        }

        impl Name {
            /// All of them with their keys in the file.
            pub const ALL: &'static [(&'static str, Self)] = &[$(($key, Self::$name),)+];
            const COUNT: usize = Self::ALL.len();

            /// Returns its key in the file.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$name => $key,)+
                }
            }
        }
    };
}

names! {
    /// Unhidden part of the roofline's ridge, in elements per FLOP: an m × k × n product is slower by
    /// `1 + roofline · peak / bandwidth · (1/m + 1/k + 1/n)`.
    Roofline = "kernels.roofline";
    /// Bytes of elementwise traffic per 16-bit element of a layer, eager PyTorch, over twice the element's
    /// own.
    Eager = "kernels.eager";
    /// The same of transformers, whose norms and rotations are separate operations, some of them in 32 bit.
    EagerTransformers = "kernels.eager_transformers";
    /// The same with hand-fused kernels (Megatron).
    Fused = "kernels.fused";
    /// The same under a compiler.
    Compiled = "kernels.compiled";
    /// Share of that traffic that belongs to the forward pass, and is thus repeated by recomputation.
    ForwardTraffic = "kernels.forward_traffic";
    /// Memory traffic of a pass outside of matrix products, bytes per parameter that a GPU computes with:
    /// weights are gathered and flattened, gradients are copied, divided, accumulated and reduced. Megatron's
    /// products accumulate directly into the buffer that is reduced.
    Weights = "kernels.weights";
    /// The same of Megatron-like code that adds 16-bit gradients to 32-bit ones outside of the products
    /// (nanotron).
    Accumulation = "kernels.accumulation";
    /// Traffic of eager attention, in 16-bit elements per score, forward and backward.
    Scores = "kernels.scores";
    /// Traffic of logits and loss, bytes per logit.
    Logits = "kernels.logits";
    /// The same of nanotron, whose cross entropy over tensor ranks is made of separate 32-bit operations.
    NanotronLogits = "kernels.nanotron_logits";
    /// Slowdown of eager attention if the head width is not a multiple of 8.
    OddHeads = "kernels.odd_heads";
    /// FlashAttention is slower by `1 + narrow_heads / d` for heads of width d.
    NarrowHeads = "kernels.narrow_heads";
    /// FlashAttention's backward pass, in forward passes; by FLOP alone the ratio is 2.5.
    FlashBackward = "kernels.flash_backward";
    /// Tokens of a sequence at which FlashAttention reaches half of its speed.
    FlashLength = "kernels.flash_length";
    /// Matrix products in 8 bit with a scale per tensor over those in 16, a ratio of speeds.
    Fp8 = "kernels.fp8";
    /// The same with a scale per row.
    Fp8Rowwise = "kernels.fp8_rowwise";
    /// The same with a scale per block of 128.
    Fp8Blockwise = "kernels.fp8_blockwise";
    /// The same with a scale per 32 elements in hardware.
    Mxfp8 = "kernels.mxfp8";
    /// The same in 4 bit.
    Nvfp4 = "kernels.nvfp4";
    /// Launches that each expert of a GPU adds to a layer, a share of a layer's.
    ExpertLaunches = "kernels.expert_launches";
    /// Launches of a layer with experts that are not hidden, a share of its launches: with an all-to-all
    /// the host waits for the numbers of tokens.
    ExpertWait = "kernels.expert_wait";
    /// The same as expert launches of an expert in a loop in Python.
    LoopLaunches = "kernels.loop_launches";
    /// Time to unpack quantised weights, over their bytes at memory bandwidth.
    Dequantise = "kernels.dequantise";
    /// Time of an adapter's small matrices, over their FLOP at the rate of large ones.
    Adapter = "kernels.adapter";
    /// Launches that an adapter adds, a share of a layer's.
    AdapterLaunches = "kernels.adapter_launches";
    /// Launches of a layer of nanotron under tensor parallelism, over those of one GPU.
    NanotronLaunches = "kernels.nanotron_launches";
    /// Launches that each tensor rank adds to a layer of nanotron in a pipeline over nodes, over those of one
    /// GPU.
    NanotronPipeline = "kernels.nanotron_pipeline_launches";
    /// Launches that each step of a context ring adds to a layer outside of Megatron, a share of a layer's.
    RingLaunches = "kernels.ring_launches";
    /// Exponent of the overlap of launching and computing: `(gpu^n + host^n)^(1/n)`.
    Hiding = "kernels.hiding";
    /// Launches that a tensor-parallel collective adds, a share of a layer's.
    TensorLaunches = "kernels.tensor_launches";
    /// Traffic of the optimizer's step, over 16 bytes per parameter.
    Optimizer = "kernels.optimizer";
    /// Share of NVLink's one-way bandwidth that collectives reach.
    Nvlink = "links.nvlink";
    /// Bytes per second between GPUs of a node without NVLink.
    Pcie = "links.pcie_bytes_per_second";
    /// Share of the line rate between nodes that gathers of parameters reach in a small group.
    Fabric = "links.fabric";
    /// Nodes of a flat group at which its gathers run at half that share.
    FabricNodes = "links.fabric_nodes";
    /// Share of it that DeepSpeed's parameter-wise gathers reach.
    ZeroGather = "links.zero_gather";
    /// Seconds of each gather of one expert's weights that DeepSpeed issues when a loop in Python reaches it.
    ZeroFetch = "links.zero_fetch_seconds";
    /// Seconds that each further rank adds to a tensor-parallel all-reduce: ring latency, and waiting for the
    /// slowest rank.
    RankSkew = "links.rank_skew_seconds";
    /// Share of the line rate of tensor-parallel all-reduces across nodes.
    TensorFabric = "links.tensor_fabric";
    /// Share of the line rate of gradient all-reduces under Megatron.
    Gradients = "links.gradients";
    /// Nodes at which gradient all-reduces run at half that share.
    GradientNodes = "links.gradient_nodes";
    /// Share of the line rate of gradient all-reduces under Megatron over EFA.
    GradientsEfa = "links.gradients_efa";
    /// Nodes at which gradient all-reduces over EFA run at half that share.
    GradientNodesEfa = "links.gradient_nodes_efa";
    /// Seconds that each data-parallel rank adds to a collective over a layer's gradients or weights that is
    /// not bucketed (nanotron).
    ShardLatency = "links.shard_latency_seconds";
    /// Seconds that a stage of nanotron waits for each tensor that it sends or receives, in a large cluster.
    SendWait = "links.nanotron_send_wait_seconds";
    /// Seconds that nanotron's tensor-parallel collectives wait for each node of their group, in a large
    /// cluster.
    TensorWait = "links.nanotron_tensor_wait_seconds";
    /// Nodes at which these waits reach half of that.
    WaitNodes = "links.nanotron_wait_nodes";
    /// Share of the line rate of experts' all-to-alls.
    Experts = "links.experts";
    /// The same with DeepSpeed's ZeRO-1 and a pipeline (BLOOM's runs, over Omni-Path); not used for other
    /// optimizers.
    Zero1 = "links.zero1";
    /// Share of the line rate that sends between stages reach.
    Pipeline = "links.pipeline";
    /// SMDDP's collectives over EFA against NCCL's, a ratio of speeds.
    Smddp = "links.smddp";
    /// Bytes per second that the optimizer's step of one process moves on a host.
    Host = "links.host_bytes_per_second_and_process";
    /// Bytes per second of parameters between the host and the GPUs of a node.
    HostParameters = "links.host_parameter_bytes_per_second";
    /// Bytes per second and GPU between GPU and host memory.
    HostCopy = "links.host_copy_bytes_per_second";
    /// Share of the shorter of computing and communicating that FSDP and DDP do not hide.
    OverlapFsdp = "overlap.fsdp";
    /// The same for DeepSpeed's ZeRO-3.
    OverlapDeepSpeed = "overlap.deepspeed";
    /// Share of tensor-parallel collectives that overlapping them with products leaves exposed.
    OverlapTensor = "overlap.tensor";
    /// Share that user buffers leave exposed.
    OverlapBuffers = "overlap.tensor_buffers";
    /// Share of experts' all-to-alls that computing leaves exposed if a token is sent once to each node.
    OverlapExperts = "overlap.experts";
    /// The same if it is sent to each of its experts.
    OverlapAllToAll = "overlap.all_to_all";
    /// Seconds from the start of billing to the first step: image, start of the processes, model. SageMaker
    /// takes three to ten minutes for it.
    Startup = "run.startup_seconds";
    /// Compilation in the first step (`torch.compile`), seconds.
    Compile = "run.compile_seconds";
    /// Mean seconds between failures of one node (Llama 3: 419 interruptions in 54 days on 2,048 nodes).
    NodeFailures = "run.node_failure_seconds";
    /// Bytes per second at which a node writes checkpoints if no file system determines it.
    Checkpoint = "run.checkpoint_bytes_per_second";
    /// Seconds that all ranks take to synchronise around a checkpoint.
    Barrier = "run.checkpoint_barrier_seconds";
    /// Bytes per second at which a node downloads its share of the data from S3.
    Download = "run.download_bytes_per_second";
    /// Half-width of the step-time interval beside a measured run, a natural logarithm: its lower end.
    Near = "interval.near";
    /// Widening for exposed communication, bubble and offload, multiplied by their share of the step.
    Waiting = "interval.waiting";
    /// Factor on both for layers with experts.
    WidthOfExperts = "interval.experts";
    /// Exponent on the context degree, a factor on both.
    WidthOfContext = "interval.context";
    /// Factor on both for DeepSpeed.
    WidthOfZero = "interval.deepspeed";
    /// Factor on both for transformers, whose scripts differ.
    WidthOfScripts = "interval.transformers";
    /// Factor on both for states on the host.
    WidthOfOffload = "interval.offload";
    /// Exponent of a factor on both, for each unit of distance from the nearest measured run.
    WidthOfDistance = "interval.distance";
    /// Half-width above the prediction over that below: disturbed runs are slow.
    Above = "interval.above";
    /// Half-width for a GPU type that was never measured.
    Unknown = "interval.unknown";
    /// Lower bound of startup, download and checkpoints, a share of their prediction.
    AroundLow = "interval.around_low";
    /// The upper bound.
    AroundHigh = "interval.around_high";
    /// Memory that the caching allocator reserves above allocations, a fraction of them, while the GPU has
    /// room.
    MemorySlack = "memory.slack";
    /// The part of it that cannot be released when the card is full: split blocks.
    MemoryFragments = "memory.fragments";
    /// CUDA context and kernels, bytes.
    MemoryContext = "memory.context_bytes";
    /// NCCL's buffers and communicators if there are collectives, bytes.
    MemoryNccl = "memory.nccl_bytes";
    /// Freed blocks that the allocator holds for the streams on which ZeRO-3 gathers and reduces, bytes.
    MemoryZeroPools = "memory.zero_pool_bytes";
    /// Lower end of the interval of a peak: the fraction below the prediction that contains nine in ten
    /// measurements.
    MemoryBelow = "memory.below";
    /// Upper end, a fraction above the prediction.
    MemoryAbove = "memory.above";
    /// Host memory of one Python process with torch and CUDA loaded, bytes.
    HostProcess = "host.process_bytes";
    /// The lowest observed value of it.
    HostProcessLow = "host.process_low_bytes";
    /// The highest observed value of it.
    HostProcessHigh = "host.process_high_bytes";
}

/// Measured runs of a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredRuns {
    /// Number of runs.
    pub rows: f64,
    /// Positions of some of them, of which every run is near one.
    pub positions: Vec<Position>,
}

/// The measured run nearest to a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearestRun {
    /// Its setting.
    pub setting: Setting,
    /// Its position.
    pub position: Position,
    /// Its distance.
    pub distance: f64,
}

/// Constants added after the first release: a file without them uses the shipped value.
const YOUNGER: &[Name] = &[
    Name::Compile,
    Name::FlashLength,
    Name::EagerTransformers,
    Name::ExpertLaunches,
    Name::ExpertWait,
    Name::LoopLaunches,
    Name::RingLaunches,
    Name::GradientsEfa,
    Name::GradientNodesEfa,
    Name::ZeroFetch,
    Name::Host,
    Name::HostParameters,
    Name::OverlapBuffers,
    Name::OverlapAllToAll,
    Name::Fp8Rowwise,
    Name::Fp8Blockwise,
    Name::Mxfp8,
    Name::Nvfp4,
    Name::Dequantise,
    Name::Adapter,
    Name::AdapterLaunches,
    Name::NanotronLaunches,
    Name::NanotronPipeline,
    Name::NanotronLogits,
    Name::Accumulation,
    Name::GradientNodes,
    Name::ShardLatency,
    Name::SendWait,
    Name::TensorWait,
    Name::WaitNodes,
    Name::Experts,
    Name::OverlapTensor,
    Name::OverlapExperts,
    Name::Near,
    Name::WidthOfExperts,
    Name::WidthOfContext,
    Name::WidthOfZero,
    Name::WidthOfScripts,
    Name::WidthOfOffload,
    Name::WidthOfDistance,
    Name::Above,
    Name::AroundLow,
    Name::AroundHigh,
    Name::MemoryZeroPools,
    Name::HostProcess,
    Name::HostProcessLow,
    Name::HostProcessHigh,
];

/// Shares of a link's rate that collectives reach.
const SHARES_OF_LINKS: [&str; 9] = [
    "links.nvlink",
    "links.fabric",
    "links.zero_gather",
    "links.tensor_fabric",
    "links.gradients",
    "links.gradients_efa",
    "links.experts",
    "links.zero1",
    "links.pipeline",
];

/// Reason why a file of constants cannot be used: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// Returns the positions of the runs of a setting in a file.
fn positions_in_table(table: &toml::Table, key: &str) -> Result<Vec<Position>, Unreadable> {
    let setting = table.get("setting").and_then(|settings| settings.get(key));
    // Lines of a text instead of arrays: those of seven hundred runs took as long as the rest of a plan.
    let runs = setting.and_then(|setting| setting.get("runs")).and_then(toml::Value::as_str);
    let position = |line: &str| {
        let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        Position::from_numbers(numbers.ok()?.try_into().ok()?)
    };
    runs.into_iter()
        .flat_map(str::lines)
        .map(|line| {
            position(line).ok_or_else(|| {
                Unreadable(format!(
                    "`setting.{key}.runs` has `{line}`: expected tokens, length, width, nodes, parameters and context \
                     degree, all above 0, and a share of waiting from 0 to 1"
                ))
            })
        })
        .collect()
}

/// Returns a ratio of the shipped constants of a GPU type.
fn shipped_ratio(kind: GpuKind, of: &str) -> f64 {
    Constants::shipped().value(&format!("gpu.{}.{of}", kind.as_str())).unwrap_or(f64::NAN)
}

impl Constants {
    /// Returns the constants that ship with trainc.
    pub fn shipped() -> &'static Self {
        static ONCE: LazyLock<Constants> =
            LazyLock::new(|| Constants::parse(SHIPPED).unwrap_or_else(|_| Constants::empty()));
        &ONCE
    }

    /// Returns an empty set of constants, which predicts nothing.
    fn empty() -> Self {
        Self {
            fitted: String::new(),
            command: String::new(),
            file: None,
            runs: None,
            borrowed: Vec::new(),
            values: [f64::NAN; Name::COUNT],
            gpus: BTreeMap::new(),
            ranges: BTreeMap::new(),
            settings: Vec::new(),
            peak_ends: Vec::new(),
            evidence: None,
            probed: None,
        }
    }

    /// Parses a file. Every constant must be present, finite and positive; missing ones of [`YOUNGER`]
    /// default to the shipped values.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let table: toml::Table =
            toml::from_str(text).map_err(|error| Unreadable(error.message().to_owned()))?;
        let word = |key: &str| table.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let mut out = Self { fitted: word("fitted"), command: word("command"), ..Self::empty() };
        out.runs = table.get("runs").and_then(toml::Value::as_str).map(str::to_owned);
        let mut flat = BTreeMap::new();
        flatten_toml("", &table, &mut flat);
        let written: std::collections::BTreeSet<String> = flat.keys().cloned().collect();
        for key in SHARES_OF_LINKS {
            if let Some(share) = flat.get(key).copied().filter(|share| *share > 1.0) {
                let why = format!("`{key}` is {share}: a share of the line rate must be at most 1");
                return Err(Unreadable(why));
            }
        }
        let mut take = |key: &str| {
            flat.remove(key)
                .filter(|value: &f64| value.is_finite() && *value > 0.0)
                .ok_or_else(|| Unreadable(format!("`{key}` is missing or not a positive number")))
        };
        let has = |key: &str| written.contains(key);
        let written_ratios: BTreeMap<&str, f64> = ["flash2", "flash3"]
            .into_iter()
            .filter_map(|of| Some((of, take(&format!("kernels.{of}")).ok()?)))
            .collect();
        for ((key, name), value) in Name::ALL.iter().zip(&mut out.values) {
            *value = match take(key) {
                Err(_) if YOUNGER.contains(name) && !has(key) => {
                    out.borrowed.push(*key);
                    Self::shipped().get(*name)
                }
                found => found?,
            };
        }
        for kind in GpuKind::with_own_constants() {
            let word = kind.as_str();
            let gemm = take(&format!("gpu.{word}.gemm"))?;
            let flash = take(&format!("gpu.{word}.flash"))?;
            let launch = take(&format!("gpu.{word}.launch"))?;
            let mut ratio = |of: &str| {
                let own = take(&format!("gpu.{word}.{of}")).ok();
                // Files of earlier releases have one ratio for all types, or none.
                own.or_else(|| written_ratios.get(of).copied()).unwrap_or_else(|| shipped_ratio(kind, of))
            };
            let (flash2, flash3) = (ratio("flash2"), ratio("flash3"));
            if let Some((part, share)) =
                [("gemm", gemm), ("flash", flash)].iter().find(|(_, share)| *share > 1.0)
            {
                let why = format!("`gpu.{word}.{part}` is {share}: a share of the peak must be at most 1");
                return Err(Unreadable(why));
            }
            let rows = gpu_runs_in_table(&table, word);
            let interval = take(&format!("gpu.{word}.interval")).ok();
            out.gpus.insert(kind, Gpu { gemm, flash, flash2, flash3, launch, rows, interval });
        }
        for word in RANGES {
            let mut most = |what: &str| take(&format!("range.{word}.{what}")).ok();
            if let (Some(gpus), Some(parameters)) = (most("gpus"), most("parameters")) {
                out.ranges.insert(word, Range { gpus, parameters });
            }
        }
        let mut settings = Vec::new();
        for (key, rows) in flat.iter().filter_map(|(key, rows)| Some((key.strip_prefix("setting.")?, *rows)))
        {
            let Some(key) = key.strip_suffix(".rows") else { continue };
            let setting = Setting::parse_key(key).ok_or_else(|| {
                Unreadable(format!(
                    "`setting.{key}` is not a setting of GPU type, links, system, code and kind of work"
                ))
            })?;
            settings.push((setting, MeasuredRuns { rows, positions: positions_in_table(&table, key)? }));
        }
        out.set_fitted_settings(settings);
        for (key, below) in flat.iter().filter_map(|(key, value)| Some((key.strip_prefix("peak.")?, *value)))
        {
            let Some(key) = key.strip_suffix(".below") else { continue };
            let setting = MemorySetting::parse_key(key).ok_or_else(|| {
                Unreadable(format!("`peak.{key}` is not a setting of system, code and kind of work"))
            })?;
            let above = flat.get(&format!("peak.{key}.above")).copied().unwrap_or(f64::NAN);
            out.peak_ends.push(PeakEnds { setting, below, above });
        }
        match table.get("probed").and_then(toml::Value::as_table) {
            Some(probed) => out.with_replaced(probed),
            None => Ok(out),
        }
    }

    /// Returns the constants of a file that a probe wrote: `device`, and the values `before` it.
    fn with_replaced(self, probed: &toml::Table) -> Result<Self, Unreadable> {
        let device = probed.get("device").and_then(toml::Value::as_str).unwrap_or_default();
        let before = probed.get("before").and_then(toml::Value::as_table).into_iter().flatten();
        let mut base = self.clone();
        let mut measured = Vec::new();
        for (key, value) in before {
            let value = value.as_float().filter(|value| value.is_finite() && *value > 0.0);
            let pair = base.value_mut(key).zip(self.value(key)).zip(value);
            let Some(((slot, now), value)) = pair else {
                return Err(Unreadable(format!("`probed.before.\"{key}\"` is not a constant above 0")));
            };
            *slot = value;
            measured.push((key.as_str(), now));
        }
        base.with_probed(device, measured.into_iter()).ok_or_else(|| {
            Unreadable(format!(
                "`probed.device` is `{device}`, not the GPU of the constants in `probed.before`"
            ))
        })
    }

    /// Formats the constants as a file.
    pub fn to_toml(&self) -> String {
        let mut out = String::from(
            "# Constants of the cost model. `crates/trainc-predict/src/constants.rs` describes \
                each of them,\n# `crates/trainc-calibrate/src/priors.toml` gives bounds and sources.\n",
        );
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        out.push_str(&format!("fitted = {}\n", quoted(&self.fitted)));
        out.push_str(&format!("command = {}\n", quoted(&self.command)));
        if let Some(runs) = &self.runs {
            out.push_str(&format!("runs = {}\n", quoted(runs)));
        }
        let mut section = "";
        for (key, name) in Name::ALL {
            let (head, last) = key.split_once('.').unwrap_or(("", key));
            if head != section {
                out.push_str(&format!("\n[{head}]\n"));
                section = head;
            }
            out.push_str(&format!("{last} = {}\n", format_four_digits(self.get(*name))));
        }
        for (kind, gpu) in &self.gpus {
            out.push_str(&format!(
                "\n[gpu.{}]\ngemm = {}\nflash = {}\nflash2 = {}\nflash3 = {}\nlaunch = {}\nrows = {}\n",
                kind.as_str(),
                format_four_digits(gpu.gemm),
                format_four_digits(gpu.flash),
                format_four_digits(gpu.flash2),
                format_four_digits(gpu.flash3),
                format_four_digits(gpu.launch),
                gpu.rows
            ));
            if let Some(width) = gpu.interval {
                out.push_str(&format!("interval = {}\n", format_four_digits(width)));
            }
        }
        for (word, range) in &self.ranges {
            let (gpus, parameters) = (format_four_digits(range.gpus), format_four_digits(range.parameters));
            out.push_str(&format!("\n[range.{word}]\ngpus = {gpus}\nparameters = {parameters}\n"));
        }
        for PeakEnds { setting, below, above } in &self.peak_ends {
            let ends = [below, above].map(|end| format_four_digits(*end));
            out.push_str(&format!(
                "\n[peak.\"{}\"]\nbelow = {}\nabove = {}\n",
                setting.key(),
                ends[0],
                ends[1]
            ));
        }
        for (setting, rows) in &self.settings {
            out.push_str(&format!(
                "\n[setting.\"{}\"]\nrows = {}\nruns = \"\"\"\n",
                setting.key(),
                rows.rows
            ));
            for position in &rows.positions {
                let numbers = position.numbers().map(format_three_digits);
                out.push_str(&format!("{}\n", numbers.join(" ")));
            }
            out.push_str("\"\"\"\n");
        }
        if let Some(probed) = &self.probed {
            out.push_str(&format!("\n[probed]\ndevice = {}\n\n[probed.before]\n", quoted(&probed.device)));
            for (key, value) in probed.replaced() {
                out.push_str(&format!("{} = {}\n", quoted(key), format_four_digits(value)));
            }
        }
        out
    }

    /// Returns the constants with measured runs of the user, read from a file of that name.
    #[must_use]
    pub fn with_runs(&self, file: String, runs: Vec<MeasuredRun>) -> Self {
        self.with_evidence(file, runs, Vec::new())
    }

    /// Returns the constants with measured and finished runs of the user, read from a file of that name.
    #[must_use]
    pub fn with_evidence(&self, file: String, runs: Vec<MeasuredRun>, finished: Vec<FinishedRun>) -> Self {
        let evidence = Evidence::new(file, runs, finished, self);
        Self { evidence: Some(Arc::new(evidence)), ..self.clone() }
    }

    /// Returns the constants without measured runs of the user.
    #[must_use]
    pub fn without_runs(&self) -> Self {
        Self { evidence: None, runs: None, ..self.clone() }
    }

    /// Returns the measured runs of the user.
    pub fn evidence(&self) -> Option<&Evidence> {
        self.evidence.as_deref()
    }

    /// Returns the largest runs behind the constants of a system; `None` if neither the file nor the shipped
    /// one has them.
    pub fn measured_limits(&self, system: System) -> Option<Range> {
        let word = range_name(system);
        self.ranges.get(word).or_else(|| Self::shipped().ranges.get(word)).copied()
    }

    /// Returns true if two systems share a range.
    pub fn share_measured_range(a: System, b: System) -> bool {
        range_name(a) == range_name(b)
    }

    /// Sets the range of runs that a system's constants were fitted to.
    pub fn set_measured_limits(&mut self, system: System, range: Range) {
        self.ranges.insert(range_name(system), range);
    }

    /// Returns the settings behind the constants (system, GPU type and links), with the number of runs of
    /// each.
    pub fn settings(&self) -> &[(Setting, MeasuredRuns)] {
        if self.settings.is_empty() { &Self::shipped().settings } else { &self.settings }
    }

    /// Sets the settings of the runs that the constants were fitted to.
    pub fn set_fitted_settings(&mut self, mut settings: Vec<(Setting, MeasuredRuns)>) {
        settings.sort_by(|(a, _), (b, _)| {
            let (a, b) = (a.sort_key(), b.sort_key());
            (a.0, a.1, a.2, a.3, a.4).cmp(&(b.0, b.1, b.2, b.3, b.4)).then(a.5.total_cmp(&b.5))
        });
        self.settings = settings;
    }

    /// Returns the ends of the intervals of peaks by setting; those of the shipped file if this one has none.
    pub fn peak_ends(&self) -> &[PeakEnds] {
        if self.peak_ends.is_empty() { &Self::shipped().peak_ends } else { &self.peak_ends }
    }

    /// Sets the ends of the intervals of peaks by setting.
    pub fn set_peak_ends(&mut self, ends: Vec<PeakEnds>) {
        self.peak_ends = ends;
    }

    /// Returns the half-width of the step-time interval on a GPU type, a natural logarithm, if no own runs
    /// determine it.
    pub fn default_half_width(&self, gpu: &Gpu) -> f64 {
        self.get(if gpu.rows >= FEWEST_OWN { Name::Near } else { Name::Unknown })
    }

    /// Returns the number of runs of a setting behind the constants.
    pub fn runs_of(&self, setting: &Setting) -> f64 {
        let own = self.settings().iter().find(|(known, _)| known.is_like(setting));
        own.map_or(0.0, |(_, runs)| runs.rows)
    }

    /// Returns the run behind the constants that is nearest to a setting and a position.
    pub fn nearest_run(&self, setting: &Setting, position: &Position) -> Option<NearestRun> {
        let mut best: Option<NearestRun> = None;
        let mut least = f64::INFINITY;
        // The runs of the same setting first: mostly none of another one is nearer.
        let own = self.settings().iter().filter(|(other, _)| other == setting);
        let others = self.settings().iter().filter(|(other, _)| other != setting);
        for (other, runs) in own.chain(others) {
            let apart = setting.squared_distance(other);
            if apart >= least {
                continue;
            }
            for known in &runs.positions {
                if let Some(square) = position.square_below(known, apart, least) {
                    least = square;
                    best = Some(NearestRun { setting: *other, position: *known, distance: square.sqrt() });
                }
            }
        }
        best
    }

    /// Formats a value as in a file of constants.
    pub fn figure(value: f64) -> String {
        format_four_digits(value)
    }

    /// Returns one constant.
    pub fn get(&self, name: Name) -> f64 {
        self.values.get(name as usize).copied().unwrap_or(f64::NAN)
    }

    /// Returns the constants of a GPU type.
    pub fn gpu(&self, kind: GpuKind) -> Option<&Gpu> {
        self.gpus.get(&kind.kind_of_constants())
    }

    /// Sets the number of runs on a GPU type behind the values.
    pub fn set_rows(&mut self, kind: GpuKind, rows: f64) {
        if let Some(gpu) = self.gpus.get_mut(&kind) {
            gpu.rows = rows;
        }
    }

    /// Sets the half-width that runs on a GPU type have shown.
    pub fn set_interval(&mut self, kind: GpuKind, width: f64) {
        if let Some(gpu) = self.gpus.get_mut(&kind.kind_of_constants()) {
            gpu.interval = Some(width);
        }
    }

    /// Returns what a probe measured.
    pub fn probed(&self) -> Option<&Probed> {
        self.probed.as_ref()
    }

    /// Sets what a probe measured.
    pub(super) fn set_probed(&mut self, probed: Option<Probed>) {
        self.probed = probed;
    }

    /// Returns a constant, by its key in the file.
    pub fn value(&self, key: &str) -> Option<f64> {
        if let Some(rest) = key.strip_prefix("gpu.") {
            let (word, field) = rest.split_once('.')?;
            let gpu = self.gpus.iter().find(|(kind, _)| kind.as_str() == word)?.1;
            return match field {
                "gemm" => Some(gpu.gemm),
                "flash" => Some(gpu.flash),
                "flash2" => Some(gpu.flash2),
                "flash3" => Some(gpu.flash3),
                "launch" => Some(gpu.launch),
                "interval" => gpu.interval,
                _ => None,
            };
        }
        let name = Name::ALL.iter().find(|(name, _)| *name == key)?.1;
        Some(self.get(name))
    }

    /// Returns true if a constant is a share of a peak or of a line rate, at most 1.
    pub fn is_share(key: &str) -> bool {
        key.starts_with("gpu.") && (key.ends_with(".gemm") || key.ends_with(".flash"))
            || SHARES_OF_LINKS.contains(&key)
    }

    /// Returns a mutable reference to a constant, by its key in the file.
    pub fn value_mut(&mut self, key: &str) -> Option<&mut f64> {
        if let Some(rest) = key.strip_prefix("gpu.") {
            let (word, field) = rest.split_once('.')?;
            let gpu = self.gpus.iter_mut().find(|(kind, _)| kind.as_str() == word)?.1;
            return match field {
                "gemm" => Some(&mut gpu.gemm),
                "flash" => Some(&mut gpu.flash),
                "flash2" => Some(&mut gpu.flash2),
                "flash3" => Some(&mut gpu.flash3),
                "launch" => Some(&mut gpu.launch),
                "interval" => gpu.interval.as_mut(),
                _ => None,
            };
        }
        let at = Name::ALL.iter().position(|(name, _)| *name == key)?;
        self.values.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_constants_read_and_write_back() {
        let shipped = Constants::parse(SHIPPED).unwrap();
        let again = Constants::parse(&shipped.to_toml()).unwrap();
        for (key, name) in Name::ALL {
            let (a, b) = (shipped.get(*name), again.get(*name));
            assert!((a - b).abs() <= 1e-3 * a, "{key}: {a} {b}");
        }
        assert!(shipped.gpu(GpuKind::A100).unwrap().rows > 100.0);
    }

    /// A file that predates this constant uses the shipped value, and reports it.
    #[test]
    fn a_file_that_is_older_than_a_constant_takes_the_shipped_value() {
        let line = SHIPPED.lines().find(|line| line.starts_with("near = ")).unwrap();
        let without = SHIPPED.replace(&format!("{line}\n"), "");
        assert_ne!(without, SHIPPED);
        let old = Constants::parse(&without).unwrap();
        assert_eq!(old.get(Name::Near), Constants::shipped().get(Name::Near));
        assert_eq!(old.borrowed, ["interval.near"]);
        assert!(Constants::shipped().borrowed.is_empty());
        // An invalid width is still rejected.
        let wrong = SHIPPED.replace(line, "near = -1.0");
        assert!(Constants::parse(&wrong).unwrap_err().to_string().contains("interval.near"));
    }

    #[test]
    fn a_file_without_a_constant_is_refused() {
        let text = SHIPPED.replace("roofline", "rofline");
        assert!(Constants::parse(&text).unwrap_err().to_string().contains("kernels.roofline"));
        assert!(Constants::parse("x = [").is_err());
        let line = SHIPPED.lines().find(|line| line.starts_with("fabric = ")).unwrap();
        let why = Constants::parse(&SHIPPED.replace(line, "fabric = 50")).unwrap_err().to_string();
        assert!(why.contains("`links.fabric` is 50: a share of the line rate must be at most 1"), "{why}");
        let gemm = SHIPPED.lines().skip_while(|line| *line != "[gpu.A100]").nth(1).unwrap();
        let more = SHIPPED.replace(gemm, "gemm = 75");
        let why = Constants::parse(&more).unwrap_err().to_string();
        assert!(why.contains("`gpu.A100.gemm` is 75: a share of the peak must be at most 1"), "{why}");
    }
}
