//! Layout of a row of a table of runs.

use super::meanings;
use super::run_row::RunRow;
use trainc_catalog::accelerators;
use trainc_catalog::models;
use trainc_predict::{
    AdapterKind, Attention, Code, DefaultKernels, Degrees, Dispatcher, ExpertKernel, FlashKernel, Fp8Recipe,
    GpuKind, Hardware, Layout, Lora, Loss, Model, Moments, Offload, Order, Precision, Quantisation,
    Recompute, Sharding, System, TensorOverlap, Work,
};

/// Vocabulary size of a row without one.
const VOCAB: f64 = 51_200.0;

/// Parses litgpt's names of adapters.
fn adapter_kind(engine: &str) -> AdapterKind {
    if engine.contains("lora") {
        AdapterKind::LowRank
    } else if engine.contains("adapter2") || engine.contains("adapter_v2") {
        AdapterKind::Scaled
    } else {
        AdapterKind::Prompt
    }
}

/// Returns a model of the catalogue.
fn named_model(id: &str) -> Result<Model, String> {
    let row =
        models::find(id).ok_or_else(|| format!("`model_id` is `{id}`, which is not in the catalogue"))?;
    Ok(Model::from_architecture(&row.architecture, row.class))
}

/// Returns the parameters of low-rank matrices of a rank on all linear layers of the blocks.
pub(super) fn low_rank_parameters(model: &Model, rank: f64) -> f64 {
    let (query, key) = (model.heads * model.head_dim, model.kv_heads * model.head_dim);
    let attention = 2.0 * (model.hidden + query) + 2.0 * (model.hidden + key);
    rank * model.layers * (attention + model.ffn_matrices * (model.hidden + model.ffn))
}

impl RunRow<'_> {
    /// Returns the row's layout, or what it lacks.
    pub(super) fn layout(&self) -> Result<Layout, String> {
        let hardware = self.hardware()?;
        let (system, sharding) = self.system(hardware.gpus())?;
        let written = Code::parse(self.text("code"));
        let by_columns = || Code::from_columns(self.text("framework"), self.text("engine"));
        let (code, code_is_known) = match (written, self.text("code")) {
            (Some(code), _) => (code, true),
            (None, "") => (by_columns(), true),
            // A name that no table knows: the default of the engine.
            (None, _) if system == System::Megatron => (Code::Megatron, false),
            (None, _) => (Code::HuggingFace, false),
        };
        let kernels = self.default_kernels(code, hardware.gpu);
        let one = |name| self.number(name).filter(|value| *value > 0.0).unwrap_or(1.0);
        let (tensor, mut pipeline, context) = (one("tp"), one("pp"), one("cp"));
        if system == System::DeviceMap {
            pipeline = hardware.gpus();
        }
        let data = hardware.gpus() / (tensor * pipeline * context);
        if data < 1.0 || data.fract().abs() > 1e-6 {
            return Err("the number of GPUs is not divisible by the parallel degrees".to_owned());
        }
        let named = self.number("shard_degree").filter(|shard| *shard > 1.0);
        let shard = match (sharding, named) {
            (Sharding::None, _) => context,
            // Sharded parameters are sharded across the context group too.
            (_, Some(shard)) => (shard * context).min(data * context),
            (_, None) if self.number("shard_degree") == Some(1.0) && sharding == Sharding::Full => context,
            (_, None) => data * context,
        };
        let model = self.model()?;
        let sequence_length = self.positive("seq")?;
        let mut micro_batch = self.micro_batch.map_or_else(|| self.positive("micro_batch"), Ok)?;
        let accumulation = self.number("grad_accum").filter(|k| *k > 0.0);
        let global_sequences = self
            .number("global_batch_sequences")
            .filter(|b| *b > 0.0)
            .unwrap_or_else(|| micro_batch * accumulation.unwrap_or(1.0) * data);
        let mut passes = (global_sequences / (micro_batch * data)).max(1.0);
        if pipeline > 1.0 && system == System::Fsdp && passes <= 1.0 {
            // PyTorch's default: a local batch is split into as many micro-batches as there are stages.
            passes = pipeline;
            micro_batch /= pipeline;
        }
        let recompute = match self.text("recompute") {
            "none" => Recompute::None,
            "selective" => self.selective_recompute(),
            "full" => Recompute::Full,
            _ => return Err("`recompute` is missing".to_owned()),
        };
        let engine = self.text("engine").to_ascii_lowercase();
        let has_rank = self.number("lora_rank").is_some_and(|rank| rank > 0.0);
        let lora = has_rank || engine.contains("lora") || engine.contains("adapter");
        Ok(Layout {
            lora: lora.then_some(Lora {
                trainable: self.number("lora_rank").filter(|rank| *rank > 0.0).map_or(
                    // Rank 8 on two matrices of each layer: the default of the sources that give no rank.
                    4.0 * 8.0 * model.hidden * model.layers,
                    |rank| low_rank_parameters(&model, rank),
                ),
                kind: if has_rank { AdapterKind::LowRank } else { adapter_kind(&engine) },
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
            flash: self.flash_kernel(&engine, kernels),
            loss: Loss::parse(self.text("loss")),
            compiled: self.is_compiled(),
            sequence_parallel: engine.contains("+sp")
                || engine.contains("fsdp2") && tensor > 1.0 && code.splits_sequences(),
            offload: self.offload(),
            quantisation: self.quantisation(),
            moments: if engine.contains("8-bit") {
                Moments::TwoInt8 { wide_embeddings: false }
            } else {
                Moments::Two
            },
            smddp: engine.contains("smddp"),
            optimizer_copies: false,
            frees_frozen: engine.contains("fsdp2") || self.frees_frozen(code),
            one_unit: false,
            input: None,
            gathering: trainc_predict::Gathering::default(),
            worker: trainc_predict::WorkerSettings::default(),
            release: self.release(),
            code,
            code_is_known: code_is_known && !self.has_unknown_word(),
            gradient_bytes: match self.text("grad_dtype") {
                "fp32" => Some(4.0),
                "bf16" | "fp16" => Some(2.0),
                _ => Code::reduces_in_16_bit(self.text("code")).then_some(2.0),
            },
            narrow_weights: self.text("weight_dtype") == "fp8",
            tensor_overlap: match self.text("async_tp") {
                "1" => TensorOverlap::Chunks,
                "0" => TensorOverlap::None,
                _ => kernels.tensor_overlap.unwrap_or(TensorOverlap::None),
            },
            expert_kernel: ExpertKernel::parse(self.text("moe_kernel"))
                .or(kernels.experts)
                .unwrap_or(ExpertKernel::Grouped),
            dispatcher: Dispatcher::parse(self.text("dispatcher"))
                .or(kernels.dispatcher)
                .unwrap_or(Dispatcher::AllToAll),
            splits_experts: kernels.splits_experts,
            // As the notes of all rows with an expert degree say.
            balanced_experts: true,
            ulysses: engine.contains("ulysses") || kernels.context_all_to_all,
        })
    }

    /// Returns the default kernels of the row's code. transformers 5 was released in the winter of 2025.
    fn default_kernels(&self, code: Code, gpu: Option<GpuKind>) -> DefaultKernels {
        let name = self.text("code");
        let name = if Code::parse(name).is_some() { name } else { code.as_str() };
        let is_recent = self.number("year").is_some_and(|year| year >= 2026.0);
        DefaultKernels::new(name, gpu, is_recent.then_some("5.0"))
    }

    /// Returns true if FSDP frees frozen weights, by the version of PyTorch in `framework`, or else by the
    /// year: PyTorch 2.1 was released in October 2023.
    fn frees_frozen(&self, code: Code) -> bool {
        let framework = self.text("framework").to_ascii_lowercase();
        let version = framework.split_once("torch ").map(|(_, rest)| rest.split(' ').next().unwrap_or(rest));
        let is_recent = version.is_some() || self.number("year").is_some_and(|year| year >= 2024.0);
        is_recent && code.frees_frozen(version)
    }

    pub(super) fn release(&self) -> Option<std::sync::Arc<str>> {
        Some(self.text("software")).filter(|release| !release.is_empty()).map(std::sync::Arc::from)
    }

    fn precision(&self) -> Result<Precision, String> {
        let recipe = Fp8Recipe::parse(self.text("fp8_recipe"));
        let narrow = self.text("state_dtype") == "bf16";
        match self.text("precision") {
            "fp8" => Ok(Precision::Fp8(recipe.unwrap_or(Fp8Recipe::Tensorwise))),
            text @ ("mxfp8" | "nvfp4") => {
                Ok(Precision::Fp8(recipe.or(Fp8Recipe::parse(text)).unwrap_or(Fp8Recipe::Mxfp8)))
            }
            text if text.contains("bf16") && narrow => Ok(Precision::Pure16 { bf16: true }),
            "fp32" => Ok(Precision::Fp32),
            text if text.contains("bf16") => Ok(Precision::Mixed { bf16: true }),
            text if text.contains("fp16") => Ok(Precision::Mixed { bf16: false }),
            "" => Err("`precision` is missing".to_owned()),
            other => Err(format!("unknown precision `{other}`")),
        }
    }

    /// Returns true if a column has a word that the cost model does not know: the row is then predicted as if
    /// the cell was empty, with the interval of a setting that was never measured.
    fn has_unknown_word(&self) -> bool {
        const WORDS: [(&str, &[&str]); 10] = [
            ("attention", &["eager", "sdpa", "fa2", "fa3", "cudnn", "flex"]),
            ("loss", &["whole", "chunked", "fused", "parallel"]),
            ("compiled", &["0", "1"]),
            ("gated", &["0", "1"]),
            ("async_tp", &["0", "1"]),
            ("grad_dtype", &["fp32", "bf16", "fp16"]),
            ("state_dtype", &["fp32", "bf16"]),
            ("weight_dtype", &["fp32", "bf16", "fp8"]),
            ("moe_kernel", &["loop", "grouped_mm", "sonicmoe"]),
            ("dispatcher", &["alltoall", "deepep", "hybridep"]),
        ];
        let recipe = self.text("fp8_recipe");
        let is_unknown = |(column, words): &(&str, &[&str])| {
            let cell = self.text(column);
            !cell.is_empty() && !words.contains(&cell)
        };
        WORDS.iter().any(is_unknown) || !recipe.is_empty() && Fp8Recipe::parse(recipe).is_none()
    }

    /// Returns the flash kernel by the column `attention`, or else that of the program, or else by the year:
    /// PyTorch's kernels are those of the second version since 2024.
    fn flash_kernel(&self, engine: &str, kernels: DefaultKernels) -> FlashKernel {
        match FlashKernel::parse(self.text("attention")).or(kernels.attention) {
            Some(kernel) => kernel,
            None if engine.contains("fsdp2") || self.number("year").is_some_and(|year| year >= 2024.0) => {
                FlashKernel::Second
            }
            None => FlashKernel::First,
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
            ..Offload::default()
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
            return Err("`engine` is missing".to_owned());
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
            let states = zero.ok_or("`zero_stage` is missing")?;
            return Ok((System::DeepSpeed, states));
        }
        // Nothing is sharded on one GPU, under any engine.
        if gpus <= 1.0 {
            return Ok((System::Ddp, Sharding::None));
        }
        Err(format!("unknown engine `{engine}`"))
    }

    fn hardware(&self) -> Result<Hardware, String> {
        let name = self.text("gpu");
        if name.is_empty() {
            return Err("`gpu` is missing".to_owned());
        }
        let gib = self.number("gpu_mem_gib").filter(|gib| *gib > 0.0);
        // `A100-80GB` has a longer name in the catalogue; of several cards, the one with the closest memory
        // size.
        let kind = GpuKind::from_name(name);
        let has_name =
            |row: &trainc_ir::hardware::Accelerator| kind.is_some() && GpuKind::from_name(&row.name) == kind;
        let distance = |row: &trainc_ir::hardware::Accelerator| {
            // A name without a memory size means the larger card.
            let bytes = gib.map_or(1e15, |gib| gib * f64::from(1 << 30));
            (row.memory_bytes.unwrap_or(0) as f64 - bytes).abs()
        };
        let mut best: Option<trainc_ir::hardware::Accelerator> = None;
        for row in accelerators::all().filter(|row| has_name(row)) {
            if best.as_ref().is_none_or(|best| distance(&row) < distance(best)) {
                best = Some(row);
            }
        }
        let row = best.ok_or_else(|| format!("the GPU `{name}` is not in the catalogue"))?;
        let card = meanings::card(name);
        let bandwidth = card
            .and_then(|card| card.memory_bytes_per_second)
            .or(row.memory_bandwidth_gb_s.map(|gb| gb * 1e9));
        let peak = row.peak_fp16_tflops.or(row.peak_bf16_tflops).map(|tflops| tflops * 1e12);
        let gbps = |column| self.number(column).filter(|gbps| *gbps > 0.0).map(|gbps| gbps * 1e9 / 8.0);
        let nvlink = row.nvlink_gb_s.map(|gb| gb * 1e9);
        let nodes = self.positive("nodes")?;
        Ok(Hardware {
            gpu: kind,
            memory_bytes: match (gib.map(|gib| gib * f64::from(1 << 30)), row.memory_bytes) {
                // A card sold as 24 GB has 22.35 GiB: the catalogue has the size that the instance reports.
                (Some(nominal), Some(bytes)) if (bytes as f64 / nominal - 1.0).abs() < 0.08 => {
                    Some(bytes as f64)
                }
                (nominal, bytes) => nominal.or(bytes.map(|bytes| bytes as f64)),
            },
            usable_share: row.usable_share(),
            peak_flops: card.and_then(|card| card.peak_flops).or(peak),
            memory_bytes_per_second: bandwidth,
            gpus_per_node: self.positive("gpus_per_node")?,
            nodes,
            intra_bytes_per_second: gbps("intra_bw_gbps").or(nvlink),
            // The usual fabric of such GPUs if the source names none: one port per GPU.
            inter_bytes_per_second: gbps("inter_bw_gbps").or_else(|| {
                match kind.map(GpuKind::kind_of_constants) {
                    Some(GpuKind::H100) => Some(400e9),
                    Some(GpuKind::A100) => Some(200e9),
                    _ => None,
                }
            }),
            host_memory_bytes: None,
            efa: self.has_efa(),
            nvlink_gpus: card.and_then(|card| card.nvlink_gpus),
        })
    }

    fn model(&self) -> Result<Model, String> {
        let id = self.text("model_id");
        // An id that the catalogue lacks is described by the columns, if they do.
        if !id.is_empty() && (models::find(id).is_some() || self.text("layers").is_empty()) {
            return named_model(id);
        }
        let (layers, hidden, heads) =
            (self.positive("layers")?, self.positive("hidden")?, self.positive("heads")?);
        let kv_heads = self.number("kv_heads").filter(|k| *k > 0.0).unwrap_or(heads);
        let mut ffn = self.number("ffn").filter(|f| *f > 0.0).unwrap_or(4.0 * hidden);
        // The form without `gated` writes a gated width of four times the hidden size one higher.
        let is_marked = (ffn - 4.0 * hidden - 1.0).abs() < 0.5;
        if is_marked {
            ffn = 4.0 * hidden;
        }
        let experts = self.number("experts").filter(|n| *n > 0.0).unwrap_or(0.0);
        let active = self.number("experts_per_token").filter(|n| *n > 0.0).unwrap_or(1.0).min(experts);
        let vocab = self.number("vocab").filter(|v| *v > 0.0).unwrap_or(VOCAB);
        let given = self.number("params").filter(|n| *n > 0.0);
        let head_dim = hidden / heads;
        let attention = 2.0 * hidden * head_dim * (heads + kv_heads);
        let linear = |matrices: f64| layers * (attention + matrices * hidden * ffn);
        // A feed-forward width of four times the hidden size means two matrices; otherwise the parameter
        // count decides.
        let residual = |matrices: f64| {
            [1.0, 2.0]
                .into_iter()
                .map(|tables| (given.unwrap_or(0.0) - linear(matrices) - tables * vocab * hidden).abs())
                .fold(f64::MAX, f64::min)
        };
        let gated = match self.text("gated") {
            "1" => true,
            "0" => false,
            _ if is_marked || experts > 0.0 => true,
            _ => {
                (ffn - 4.0 * hidden).abs() > 0.5
                    && (given.is_none() && ffn < 3.9 * hidden
                        || given.is_some() && residual(3.0) < residual(2.0))
            }
        };
        let matrices = if gated { 3.0 } else { 2.0 };
        let expert_parameters = layers * experts * matrices * hidden * ffn;
        let linear = if experts > 0.0 {
            layers * (attention + hidden * experts) + expert_parameters
        } else {
            linear(matrices)
        };
        let parameters = given.unwrap_or(linear + vocab * hidden);
        let tied = parameters < linear + 1.5 * vocab * hidden;
        let outer = (parameters - linear).min(2.2 * vocab * hidden).max(0.0);
        Ok(Model {
            parameters,
            layer_parameters: (parameters - outer) / layers,
            outer_parameters: outer,
            expert_parameters,
            active_parameters: if experts > 0.0 {
                parameters - expert_parameters * (1.0 - active / experts)
            } else {
                parameters
            },
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
            experts,
            active_experts: active,
            causal: !self.text("model").to_ascii_lowercase().contains("bert"),
            dropout: !gated,
            parallel_blocks: ["falcon", "neox", "pythia", "phi", "gpt-j", "stablelm"]
                .iter()
                .any(|name| self.text("model").to_ascii_lowercase().contains(name)),
            tied,
            rms_norm: gated,
            composite_gelu: false,
            activations: None,
        })
    }
}
