//! One row of a table of runs as a layout. What is read of its notes stands in `meanings.rs`.

use super::impossible::Impossible;
use super::runs::{MemoryKind, Run};
use std::collections::BTreeMap;
use trainc_catalog::accelerators;
use trainc_predict::{
    Attention, Code, Degrees, GpuKind, Hardware, Layout, Lora, Model, Moments, Offload, Order, Precision,
    Quantisation, Recompute, Sharding, System, Work,
};

/// The vocabulary where a row has none.
const VOCAB: f64 = 51_200.0;

/// Columns that name a row or say what was measured: in these two measurements of one thing may differ.
const MEASURED: [&str; 10] = [
    "id",
    "tokens_per_s",
    "samples_per_s",
    "step_s",
    "tflops_per_gpu",
    "mfu",
    "tflops_convention",
    "peak_mem_gib",
    "mem_kind",
    "oom",
];

/// Why a row gives no layout.
enum Refused {
    /// It says too little.
    Lacks(String),
    /// What it says cannot be.
    Cannot(Impossible),
}

impl From<Impossible> for Refused {
    fn from(one: Impossible) -> Self {
        Self::Cannot(one)
    }
}

/// A row's cells by column; empty ones are left out.
pub(super) struct Row<'a> {
    pub(super) cells: BTreeMap<&'a str, &'a str>,
    /// A micro-batch that is tried where the row gives none.
    pub(super) micro: Option<f64>,
}

impl<'a> Row<'a> {
    pub(super) fn new(cells: BTreeMap<&'a str, &'a str>) -> Self {
        Self { cells, micro: None }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.cells.get(name).copied().unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.text(name).parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
    }

    fn needed(&self, name: &str) -> Result<f64, String> {
        self.number(name)
            .filter(|value| *value > 0.0)
            .ok_or_else(|| self.fault(name).unwrap_or_else(|| format!("`{name}` is not given")))
    }

    /// The run, and why it cannot have been: then nothing of it is taken.
    pub(super) fn run(self) -> (Run, Option<Impossible>) {
        let layout =
            self.wrong_cell().map_or_else(|| self.layout().map_err(Refused::Lacks), |one| Err(one.into()));
        let layout = layout.and_then(|it| self.beyond(&it).map_or(Ok(it), |one| Err(one.into())));
        let open = if matches!(layout, Err(Refused::Lacks(_))) { self.open() } else { Vec::new() };
        let (layout, impossible) = match layout {
            Ok(layout) => (Ok(layout), None),
            Err(Refused::Lacks(why)) => (Err(why), None),
            Err(Refused::Cannot(one)) => (Err(one.message.clone()), Some(one)),
        };
        let run = Run {
            id: self.text("id").to_owned(),
            family: self.text("family").to_owned(),
            said: self.said(),
            oom: self.text("oom") == "1",
            has_links: {
                let joined = |gpus: &str, link: &str| {
                    self.number(gpus).is_some_and(|n| n <= 1.0) || self.number(link).is_some_and(|n| n > 0.0)
                };
                joined("gpus_per_node", "intra_bw_gbps") && joined("nodes", "inter_bw_gbps")
            },
            step_seconds: match &layout {
                Ok(layout) => self.step_seconds(layout),
                Err(why) => Err(why.clone()),
            },
            peak_memory: self
                .number("peak_mem_gib")
                .and_then(|gib| Some((gib * f64::from(1 << 30), MemoryKind::of(self.text("mem_kind"))?))),
            step_seconds_open: open.first().and_then(|layout| self.step_seconds(layout).ok()),
            open,
            memory_layout: layout.clone().and_then(|layout| self.memory_layout(layout)),
            layout,
        };
        (run, impossible)
    }

    /// The cells that say what was run, notes among them: they hold features for which no column has a place.
    fn said(&self) -> String {
        let said = self.cells.iter().filter(|(name, _)| !MEASURED.contains(name));
        said.map(|(name, cell)| format!("{name}={cell}")).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn layout(&self) -> Result<Layout, String> {
        let hardware = self.hardware()?;
        let (system, sharding) = self.system(hardware.gpus())?;
        let code = Code::from_names(self.text("framework"), self.text("engine"));
        let one = |name| self.number(name).filter(|value| *value > 0.0).unwrap_or(1.0);
        let (tensor, mut pipeline, context) = (one("tp"), one("pp"), one("cp"));
        if system == System::DeviceMap {
            pipeline = hardware.gpus();
        }
        let data = hardware.gpus() / (tensor * pipeline * context);
        if data < 1.0 || data.fract().abs() > 1e-6 {
            return Err("the degrees do not divide the GPUs".to_owned());
        }
        let named = self.number("shard_degree").filter(|shard| *shard > 1.0);
        let shard = match (sharding, named) {
            (Sharding::None, _) => context,
            // Where parameters are sharded, the ranks of a context group hold parts as well.
            (_, Some(shard)) => (shard * context).min(data * context),
            (_, None) if self.number("shard_degree") == Some(1.0) && sharding == Sharding::Full => context,
            (_, None) => data * context,
        };
        let model = self.model()?;
        let sequence_length = self.needed("seq")?;
        let mut micro_batch = self.micro.map_or_else(|| self.needed("micro_batch"), Ok)?;
        let accumulation = self.number("grad_accum").filter(|k| *k > 0.0);
        let global_sequences = self
            .number("global_batch_sequences")
            .filter(|b| *b > 0.0)
            .unwrap_or_else(|| micro_batch * accumulation.unwrap_or(1.0) * data);
        let mut passes = (global_sequences / (micro_batch * data)).max(1.0);
        if pipeline > 1.0 && system == System::Fsdp && passes <= 1.0 {
            // A local batch is cut into as many micro-batches as there are stages, PyTorch's own default.
            passes = pipeline;
            micro_batch /= pipeline;
        }
        let recompute = match self.text("recompute") {
            "none" => Recompute::None,
            "selective" => self.selective(),
            "full" => Recompute::Full,
            _ => return Err("`recompute` is not given".to_owned()),
        };
        let engine = self.text("engine").to_ascii_lowercase();
        let lora = engine.contains("lora") || engine.contains("adapter");
        Ok(Layout {
            lora: lora.then_some(Lora {
                // Rank 8 on two matrices of each layer, the default of the sources that do not say.
                trainable: 4.0 * 8.0 * model.hidden * model.layers,
                kind: super::keeps::adapter_kind(&engine),
            }),
            model,
            hardware,
            system,
            degrees: Degrees {
                replicas: data * context / shard,
                shard,
                tensor,
                pipeline,
                virtual_stages: if pipeline > 1.0 { self.virtual_stages() } else { 1.0 },
                context,
                expert: one("ep"),
            },
            order: if system == System::SmpV1 { Order::CLUSTER } else { Order::MEGATRON },
            sharding,
            work: Work {
                sequence_length,
                micro_batch_size: micro_batch,
                tensor_readers: 1.0,
                passes,
                num_micro_batches: if pipeline > 1.0 { passes } else { 1.0 },
                num_active_micro_batches: None,
                global_sequences,
            },
            precision: self.precision()?,
            recompute,
            attention: if self.text("flash") == "1" { Attention::Flash } else { Attention::Eager },
            flash2: engine.contains("fsdp2") || self.number("year").is_some_and(|year| year >= 2024.0),
            compiled: self.compiled(),
            sequence_parallel: engine.contains("+sp") || engine.contains("fsdp2") && tensor > 1.0,
            offload: self.offload(),
            quantisation: self.quantisation(),
            moments: if engine.contains("8-bit") {
                Moments::TwoInt8 { wide_embeddings: false }
            } else {
                Moments::Two
            },
            smddp: engine.contains("smddp"),
            optimizer_copies: false,
            frees_frozen: engine.contains("fsdp2"),
            one_unit: false,
            input: None,
            gathering: trainc_predict::Gathering::default(),
            worker: trainc_predict::WorkerSettings::default(),
            code,
        })
    }

    fn precision(&self) -> Result<Precision, String> {
        match self.text("precision") {
            "fp8" => Ok(Precision::Fp8),
            "fp32" => Ok(Precision::Fp32),
            text if text.contains("bf16") => Ok(Precision::Mixed { bf16: true }),
            text if text.contains("fp16") => Ok(Precision::Mixed { bf16: false }),
            "" => Err("`precision` is not given".to_owned()),
            other => Err(format!("the precision `{other}` is not known")),
        }
    }

    fn quantisation(&self) -> Option<Quantisation> {
        let text = self.text("precision");
        if text.contains("nf4") {
            return Some(Quantisation::Nf4 { double: text.contains("dq") });
        }
        text.contains("int8").then_some(Quantisation::Int8)
    }

    fn offload(&self) -> Offload {
        let text = self.text("offload");
        let optimizer = text.contains("optimizer") && !text.contains("paged") || text == "cpu";
        Offload {
            activations: text.contains("activation"),
            horizon: None,
            parameters: text.contains("param") || text == "cpu",
            optimizer,
            paged: text.contains("paged"),
        }
    }

    fn system(&self, gpus: f64) -> Result<(System, Sharding), String> {
        let engine = self.text("engine");
        let lower = engine.to_ascii_lowercase();
        let has = |word: &str| lower.contains(word);
        let stage = match self.text("zero_stage") {
            "0" => Some(Sharding::None),
            "1" => Some(Sharding::Optimizer),
            "2" => Some(Sharding::Gradients),
            "3" => Some(Sharding::Full),
            _ => None,
        };
        let written = if has("zero-3") || has("zero3") {
            Some(Sharding::Full)
        } else if has("zero-2") || has("zero2") {
            Some(Sharding::Gradients)
        } else if has("zero-1") || has("zero1") {
            Some(Sharding::Optimizer)
        } else {
            None
        };
        let zero = written.or(stage);
        if engine.is_empty() {
            return Err("`engine` is not given".to_owned());
        }
        if has("device_map") || has("device-map") {
            return Ok((System::DeviceMap, Sharding::None));
        }
        if has("smddp") || has("ddp") && !has("fsdp") {
            return Ok((System::Ddp, Sharding::None));
        }
        if has("smp") && (has("sharded") || has("sdp")) {
            return Ok((System::SmpV1, Sharding::Full));
        }
        if has("smp") {
            let states = if has("optimizer") { Sharding::Optimizer } else { Sharding::None };
            return Ok((System::SmpV1, states));
        }
        if has("fsdp") || has("hsdp") {
            let strategy = if has("grad_op") { Sharding::Gradients } else { Sharding::Full };
            return Ok((System::Fsdp, if gpus <= 1.0 { Sharding::None } else { strategy }));
        }
        if has("megatron") || has("tp+dp") {
            return Ok((System::Megatron, zero.unwrap_or(Sharding::None)));
        }
        if has("zero") || has("deepspeed") || has("colossal") || has("gemini") {
            let states = zero.ok_or("the ZeRO stage is not given")?;
            return Ok((System::DeepSpeed, states));
        }
        // One GPU divides nothing, whatever runs on it.
        if gpus <= 1.0 {
            return Ok((System::Ddp, Sharding::None));
        }
        Err(format!("the engine `{engine}` is not known"))
    }

    fn hardware(&self) -> Result<Hardware, String> {
        let name = self.text("gpu");
        if name.is_empty() {
            return Err("`gpu` is not given".to_owned());
        }
        let gib = self.number("gpu_mem_gib").filter(|gib| *gib > 0.0);
        // `A100-80GB` is a row of the catalogue under a longer name; of several the one with that memory.
        let kind = GpuKind::from_name(name);
        let fits =
            |row: &trainc_ir::hardware::Accelerator| kind.is_some() && GpuKind::from_name(&row.name) == kind;
        let apart = |row: &trainc_ir::hardware::Accelerator| {
            // A name without a memory is taken for the larger card.
            let bytes = gib.map_or(1e15, |gib| gib * f64::from(1 << 30));
            (row.memory_bytes.unwrap_or(0) as f64 - bytes).abs()
        };
        let mut best: Option<trainc_ir::hardware::Accelerator> = None;
        for row in accelerators::all().filter(|row| fits(row)) {
            if best.as_ref().is_none_or(|best| apart(&row) < apart(best)) {
                best = Some(row);
            }
        }
        let row = best.ok_or_else(|| format!("the catalogue does not know the GPU `{name}`"))?;
        let card = super::meanings::card(name);
        let bandwidth =
            card.map(|card| card.memory_bytes_per_second).or(row.memory_bandwidth_gb_s.map(|gb| gb * 1e9));
        let peak = row.peak_fp16_tflops.or(row.peak_bf16_tflops).map(|tflops| tflops * 1e12);
        let gbps = |column| self.number(column).filter(|gbps| *gbps > 0.0).map(|gbps| gbps * 1e9 / 8.0);
        let nvlink = row.nvlink_gb_s.map(|gb| gb * 1e9);
        let nodes = self.needed("nodes")?;
        Ok(Hardware {
            gpu: kind,
            memory_bytes: match (gib.map(|gib| gib * f64::from(1 << 30)), row.memory_bytes) {
                // A card that is sold with 24 GB has 22.35 GiB: the catalogue says what the instance reports.
                (Some(nominal), Some(bytes)) if (bytes as f64 / nominal - 1.0).abs() < 0.08 => {
                    Some(bytes as f64)
                }
                (nominal, bytes) => nominal.or(bytes.map(|bytes| bytes as f64)),
            },
            usable_share: row.usable_share(),
            peak_flops: card.and_then(|card| card.peak_flops).or(peak),
            memory_bytes_per_second: bandwidth,
            gpus_per_node: self.needed("gpus_per_node")?,
            nodes,
            intra_bytes_per_second: gbps("intra_bw_gbps").or(nvlink),
            // The fabric that such GPUs are commonly sold with, where the source names none: a port for each GPU.
            inter_bytes_per_second: gbps("inter_bw_gbps").or_else(|| match kind.map(GpuKind::chip) {
                Some(GpuKind::H100) => Some(400e9),
                Some(GpuKind::A100) => Some(200e9),
                _ => None,
            }),
            host_memory_bytes: None,
            efa: self.over_efa(),
        })
    }

    fn model(&self) -> Result<Model, String> {
        let (layers, hidden, heads) = (self.needed("layers")?, self.needed("hidden")?, self.needed("heads")?);
        let kv_heads = self.number("kv_heads").filter(|k| *k > 0.0).unwrap_or(heads);
        let ffn = self.number("ffn").filter(|f| *f > 0.0).unwrap_or(4.0 * hidden);
        let vocab = self.number("vocab").filter(|v| *v > 0.0).unwrap_or(VOCAB);
        let given = self.number("params").filter(|n| *n > 0.0);
        let head_dim = hidden / heads;
        let attention = 2.0 * hidden * head_dim * (heads + kv_heads);
        let linear = |matrices: f64| layers * (attention + matrices * hidden * ffn);
        // A feed-forward part of four times the width has two matrices; else the parameters tell.
        let apart = |matrices: f64| {
            [1.0, 2.0]
                .into_iter()
                .map(|tables| (given.unwrap_or(0.0) - linear(matrices) - tables * vocab * hidden).abs())
                .fold(f64::MAX, f64::min)
        };
        let gated = (ffn - 4.0 * hidden).abs() > 0.5
            && (given.is_none() && ffn < 3.9 * hidden || given.is_some() && apart(3.0) < apart(2.0));
        let matrices = if gated { 3.0 } else { 2.0 };
        let linear = linear(matrices);
        let parameters = given.unwrap_or(linear + vocab * hidden);
        let tied = parameters < linear + 1.5 * vocab * hidden;
        let outer = (parameters - linear).min(2.2 * vocab * hidden).max(0.0);
        Ok(Model {
            parameters,
            layer_parameters: (parameters - outer) / layers,
            outer_parameters: outer,
            expert_parameters: 0.0,
            active_parameters: parameters,
            linear_parameters: linear,
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            ffn,
            ffn_matrices: matrices,
            head_vocab: vocab,
            vocab,
            experts: 0.0,
            active_experts: 0.0,
            causal: !self.text("model").to_ascii_lowercase().contains("bert"),
            dropout: !gated,
            parallel_blocks: ["falcon", "neox", "pythia", "phi", "gpt-j", "stablelm"]
                .iter()
                .any(|name| self.text("model").to_ascii_lowercase().contains(name)),
            tied,
            rms_norm: gated,
            composite_gelu: false,
        })
    }
}
