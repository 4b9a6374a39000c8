//! Conversion of a plan to a layout.

use super::LayerActivations;
use super::file_settings::{FileSize, is_on_disk};
use super::kernels::DefaultKernels;
use super::layout::{
    AdapterKind, Attention, Code, Degrees, Dispatcher, ExpertKernel, FlashKernel, Fp8Recipe, Gathering,
    GpuKind, Hardware, Layout, Lora, Loss, Model, Moments, Offload, Precision, Quantisation, Recompute,
    System, TensorOverlap, Work, WorkerSettings,
};
use super::wrapping::wraps_layers;
use trainc_catalog::accelerators;
use trainc_ir::architecture::{Activation, Architecture, Class, ModuleRole, Norm};
use trainc_ir::hardware::{Accelerator, Instance};
use trainc_ir::{Cluster, Parallel, Plan, Scalar, Train};

/// Reason why nothing can be predicted: a lowercase fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(pub &'static str);

/// Reason of a plan with an error that decides which layout or container runs.
pub const UNDECIDED_LAYOUT: Unknown = Unknown("an error decides which layout or container runs");

impl Layout {
    /// Returns the layout of a plan, or what is missing for it.
    pub fn from_plan(plan: &Plan) -> Result<Self, Unknown> {
        let facts = plan.model.as_ref().ok_or(Unknown("the model is unknown"))?;
        let architecture =
            facts.architecture.as_ref().ok_or(Unknown("the dimensions of the model are unknown"))?;
        let mesh = plan.mesh.as_ref().ok_or(Unknown("the mesh is unknown"))?;
        let batch = plan.batch.as_ref().ok_or(Unknown("the batch is unknown"))?;
        let train = &plan.job.train;
        if train.activation_checkpointing.is_bad() || train.flash_attention.is_bad() {
            return Err(Unknown("the recomputation is unknown"));
        }
        let sequence_length = train.sequence_length.get().ok_or(Unknown("the sequence length is unknown"))?;
        let parallel = plan.job.parallel.as_ref();
        let lora = match (&plan.job.adapter, &facts.trainable) {
            (None, _) => None,
            (Some(_), Some(trainable)) => {
                Some(Lora { trainable: trainable.value as f64, kind: AdapterKind::LowRank })
            }
            (Some(_), None) => return Err(Unknown("the size of the adapter is unknown")),
        };
        let law = mesh.law;
        // One process per host: the use of the other GPUs is up to the script.
        if law.is_script() && (mesh.nodes, mesh.gpus_per_node) != (1, 1) {
            return Err(Unknown("a plain script distributes the work itself"));
        }
        let system = law.system;
        let (code, code_is_known) = code(plan, system);
        let kernels = default_kernels(plan, code);
        let num_micro_batches = batch.num_micro_batches as f64;
        let mut hardware = hardware(plan, mesh.nodes, mesh.gpus_per_node)?;
        // MPI can be configured to start fewer processes than there are GPUs, and torchrun starts one for
        // each NeuronCore.
        if !law.is_device_map() && !law.is_script() {
            hardware.gpus_per_node = mesh.ranks_per_node() as f64;
        }
        Ok(Self {
            model: Model::from_architecture(
                architecture,
                facts.class.unwrap_or(architecture.default_class()),
            ),
            hardware,
            system,
            degrees: Degrees {
                replicas: mesh.replicas.value as f64,
                shard: mesh.states_degree() as f64,
                tensor: mesh.tensor_degree.value as f64,
                pipeline: mesh.pipeline_degree.value as f64,
                virtual_stages: 1.0,
                context: (mesh.context_degree.value * mesh.ulysses_degree.value) as f64,
                expert: mesh.expert_degree.value as f64,
            },
            order: super::Order::from_mesh(mesh),
            sharding: law.sharding(parallel, mesh.states_degree()),
            work: Work {
                sequence_length: sequence_length as f64,
                micro_batch_size: batch.micro_batch_size.value as f64,
                tensor_readers: if law.reads_by_tensor(parallel) {
                    mesh.tensor_degree.value as f64
                } else {
                    1.0
                },
                passes: num_micro_batches * batch.accumulation.value as f64,
                num_micro_batches,
                num_active_micro_batches: parallel
                    .and_then(|parallel| parallel.num_active_micro_batches.get())
                    .map(|n| n as f64),
                global_sequences: batch.global_sequences.value as f64,
            },
            precision: precision(train)?,
            recompute: match train.activation_checkpointing.get() {
                None | Some(trainc_ir::Recompute::None) => Recompute::None,
                // torchtitan calls recomputation by operation selective.
                Some(trainc_ir::Recompute::Selective) if code == Code::Torchtitan => Recompute::Operations,
                Some(trainc_ir::Recompute::Selective) => Recompute::Selective,
                Some(trainc_ir::Recompute::Full) => Recompute::Full,
            },
            attention: attention(plan, architecture),
            flash: flash_kernel(plan, kernels),
            loss: train.loss.value().and_then(|word| Loss::parse(word)),
            compiled: train.compile.get() == Some(true),
            sequence_parallel: system == System::Fsdp
                && mesh.tensor_degree.value > 1
                && code.splits_sequences(),
            offload: offload(plan),
            lora,
            quantisation: plan.job.quantize.as_ref().and_then(|quantize| {
                match quantize.kind.value().map(String::as_str) {
                    Some("nf4") => Some(Quantisation::Nf4 { double: quantize.double.get().unwrap_or(false) }),
                    Some("int8") => Some(Quantisation::Int8),
                    _ => None,
                }
            }),
            moments: moments(plan),
            smddp: law.smddp,
            code,
            code_is_known,
            gradient_bytes: train.gradients.value().map(|word| if word == "fp32" { 4.0 } else { 2.0 }),
            narrow_weights: false,
            tensor_overlap: kernels.tensor_overlap.unwrap_or(TensorOverlap::None),
            expert_kernel: kernels.experts.unwrap_or(ExpertKernel::Grouped),
            dispatcher: kernels.dispatcher.unwrap_or(Dispatcher::AllToAll),
            splits_experts: kernels.splits_experts,
            balanced_experts: false,
            ulysses: mesh.ulysses_degree.value > 1 || kernels.context_all_to_all,
            // transformers used torch's foreach AdamW under this name until 4.46; other scripts use it by
            // default.
            optimizer_copies: system != System::Worker && optimizer(train) == "adamw",
            frees_frozen: matches!(system, System::SmpV2 | System::Worker)
                || code.frees_frozen(plan.image.as_ref().and_then(|image| image.pytorch.as_deref())),
            one_unit: is_one_fsdp_unit(plan),
            input: super::Input::from_plan(plan).ok(),
            gathering: Gathering::from_plan(plan),
            worker: worker(plan),
            release: super::evidence::release(plan),
        })
    }
}

impl Model {
    /// Returns the dimensions of an architecture with a head.
    pub fn from_architecture(architecture: &Architecture, class: Class) -> Self {
        let a = architecture;
        let count = a.parameters_for_class(class).unwrap_or_else(|| a.parameters());
        let layers = (a.layers + a.decoder_layers) as f64;
        let total = count.total as f64;
        let in_layers = count.layers_total as f64;
        let generates = matches!(class, Class::CausalLm | Class::MaskedLm | Class::ConditionalGeneration);
        Self {
            parameters: total,
            layer_parameters: in_layers / layers.max(1.0),
            outer_parameters: total - in_layers,
            expert_parameters: count.expert as f64,
            active_parameters: count.active as f64,
            linear_parameters: count.linear as f64,
            layers,
            hidden: a.hidden as f64,
            heads: a.heads as f64,
            kv_heads: a.kv_heads as f64,
            head_dim: a.head_dim as f64,
            ffn: mean_ffn(a),
            ffn_matrices: if a.gated { 3.0 } else { 2.0 },
            head_vocab: if generates { a.vocab as f64 } else { 0.0 },
            vocab: a.vocab as f64,
            experts: a.experts as f64,
            active_experts: a.active_experts as f64,
            causal: a.family.is_causal(),
            dropout: a.family.has_dropout(),
            parallel_blocks: a.parallel,
            tied: a.tied,
            rms_norm: a.norm == Norm::RmsNorm,
            // Gemma, the other model with tanh GELU, calls torch's fused kernel.
            composite_gelu: a.activation == Activation::GeluTanh && !a.gated,
            activations: LayerActivations::from_architecture(a, mean_ffn(a) * a.active_experts.max(1) as f64),
        }
    }
}

/// Returns the intermediate width of a feed-forward layer or of one expert: where layers differ or have
/// shared experts, the width with which `active_experts` of them compute as much as all feed-forward matrices
/// of the model do.
fn mean_ffn(a: &Architecture) -> f64 {
    if a.experts == 0 {
        return a.ffn as f64;
    }
    let active = a.active_experts.max(1) as f64;
    let modules = a.layer_kinds.iter().flat_map(|kind| &kind.modules);
    let weights: f64 = modules
        .map(|module| {
            let copies = match module.role {
                ModuleRole::Expert => (module.copies / module.per_layer.max(1)) as f64 * active,
                ModuleRole::Mlp => module.copies as f64,
                _ => 0.0,
            };
            module.inputs as f64 * module.outputs as f64 * copies
        })
        .sum();
    let matrices = if a.gated { 3.0 } else { 2.0 };
    weights / (matrices * a.hidden as f64 * (a.layers + a.decoder_layers).max(1) as f64 * active)
}

/// Returns true if FSDP shards and neither `wrap`, a minimum size nor the program itself defines a unit. For
/// a manifest that is part of another this is unknown, and the result is false.
pub fn is_one_fsdp_unit(plan: &Plan) -> bool {
    let wraps = plan.engine.is_some_and(|engine| engine.law.wraps && !engine.law.wraps_itself);
    let Some(parallel) = plan.job.parallel.as_ref().filter(|_| wraps) else { return false };
    let sharded = !parallel.strategy.is_bad() && plan.engine.is_some_and(|it| it.law.is_sharded(parallel));
    let by_size = parallel.options.iter().any(|option| option.name == "min-parameters");
    sharded && plan.job.is_whole && parallel.wrap.is_absent() && !by_size && !wraps_layers(plan)
}

/// Returns the written value of an engine parameter.
pub(super) fn option<'a>(parallel: Option<&'a Parallel>, name: &str) -> Option<&'a Scalar> {
    parallel?.options.iter().find(|option| option.name == name)?.value.value()
}

fn worker(plan: &Plan) -> WorkerSettings {
    let settings = plan.worker.as_ref();
    let otherwise = WorkerSettings::default();
    WorkerSettings {
        cpu: plan.machine.as_ref().is_some_and(|machine| machine.gpu.is_none()),
        prefetch: settings.map_or(otherwise.prefetch, |worker| worker.prefetch.value as f64),
        reshard: settings.map_or(otherwise.reshard, |worker| worker.reshard_after_forward.value),
        adapter_rank: plan.job.adapter.as_ref().and_then(|adapter| adapter.rank.get()).unwrap_or(0) as f64,
        wide_reduction: settings.map_or(otherwise.wide_reduction, |worker| !worker.reduce_bf16.value),
    }
}

impl Hardware {
    /// Returns the hardware of `nodes` instances of a type.
    pub fn from_instance(row: &Instance, nodes: u64) -> Self {
        let accelerator = &row.accelerator;
        let ranks = accelerator.ranks.max(1) as f64;
        Self {
            memory_bytes: accelerator.memory_bytes.map(|bytes| bytes as f64 / ranks),
            gpus_per_node: f64::from(row.accelerators) * ranks,
            nodes: nodes as f64,
            inter_bytes_per_second: row.network_gbps.map(|gbps| gbps * 1e9 / 8.0),
            host_memory_bytes: row.host_memory_bytes.map(|bytes| bytes as f64),
            efa: row.efa == Some(true),
            ..Self::from_accelerator(&accelerator.product, Some(accelerator))
        }
    }

    /// Returns the share of one rank in an accelerator, by its product name and catalogue row.
    fn from_accelerator(name: &str, row: Option<&Accelerator>) -> Self {
        let share = 1.0 / row.map_or(1, |row| row.ranks.max(1)) as f64;
        Self {
            gpu: GpuKind::from_name(name),
            memory_bytes: None,
            usable_share: row.and_then(Accelerator::usable_share),
            peak_flops: row
                .and_then(|row| row.peak_fp16_tflops.or(row.peak_bf16_tflops))
                .map(|tflops| tflops * 1e12 * share),
            memory_bytes_per_second: row.and_then(|row| row.memory_bandwidth_gb_s).map(|gb| gb * 1e9 * share),
            gpus_per_node: 1.0,
            nodes: 1.0,
            intra_bytes_per_second: row.and_then(|row| row.nvlink_gb_s).map(|gb| gb * 1e9),
            inter_bytes_per_second: None,
            host_memory_bytes: None,
            efa: false,
            nvlink_gpus: None,
        }
    }
}

fn hardware(plan: &Plan, nodes: u64, gpus_per_node: u64) -> Result<Hardware, Unknown> {
    let machine = plan.machine.as_ref().ok_or(Unknown("the machine is unknown"))?;
    if machine.gpu.is_none() && plan.is_worker() {
        // Processes run on CPU cores, whose speed is unknown.
        return Ok(Hardware {
            gpu: None,
            memory_bytes: None,
            usable_share: None,
            peak_flops: None,
            memory_bytes_per_second: None,
            gpus_per_node: gpus_per_node as f64,
            nodes: nodes as f64,
            intra_bytes_per_second: None,
            inter_bytes_per_second: None,
            host_memory_bytes: None,
            efa: false,
            nvlink_gpus: None,
        });
    }
    let name = machine.gpu.as_deref().ok_or(Unknown("the machine has no known accelerator"))?;
    let row = match &plan.instance {
        Some(instance) => return Ok(Hardware::from_instance(instance, nodes)),
        None => accelerators::all().find(|row| row.product == name),
    };
    let cluster = plan.job.cluster.as_ref();
    let accelerator = Hardware::from_accelerator(name, row.as_ref());
    let written = |field: fn(&Cluster) -> Option<u64>| cluster.and_then(field).map(|bytes| bytes as f64);
    Ok(Hardware {
        memory_bytes: machine.gpu_memory_bytes.map(|bytes| bytes as f64),
        gpus_per_node: gpus_per_node as f64,
        nodes: nodes as f64,
        intra_bytes_per_second: written(|cluster| cluster.intra_bytes_per_second.get())
            .or(accelerator.intra_bytes_per_second),
        inter_bytes_per_second: written(|cluster| cluster.inter_bytes_per_second.get()),
        efa: machine.efa == Some(true),
        ..accelerator
    })
}

/// Returns the attention as written, or else as the model's code runs it: torch's own kernels do not keep a
/// score matrix; transformers uses them since 4.36 ("SDPA" in its documentation), scripts for PyTorch 2.2 and
/// later usually do, Falcon's code always did.
fn attention(plan: &Plan, architecture: &Architecture) -> Attention {
    let written = plan.job.train.flash_attention.get();
    let image = plan.image.as_ref();
    let transformers = image.and_then(|image| image.transformers.as_deref());
    if plan.is_worker() {
        // On GPUs the worker calls torch's flash kernels and nothing else; its own kernel for CPUs is another
        // one.
        let gpu = plan.machine.as_ref().is_some_and(|machine| machine.gpu.is_some());
        return if gpu || written == Some(true) { Attention::Flash } else { Attention::Eager };
    }
    let own = architecture.family.has_own_attention()
        || match transformers {
            Some(version) => version_at_least(version, (4, 36)),
            None => image.is_none_or(|image| has_flash2_attention(image.pytorch.as_deref())),
        };
    let kernel = plan.job.train.attention.value().is_some();
    if kernel || written.unwrap_or(own) { Attention::Flash } else { Attention::Eager }
}

pub(crate) fn version_at_least(version: &str, least: (u64, u64)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= least
}

/// Returns the version of the flash kernels, as written, or else those of the program, or else by the image.
fn flash_kernel(plan: &Plan, kernels: DefaultKernels) -> FlashKernel {
    let written = plan.job.train.attention.value().and_then(|word| FlashKernel::parse(word));
    if let Some(kernel) = written.or(kernels.attention) {
        return kernel;
    }
    let has_second = plan.image.as_ref().is_none_or(|image| has_flash2_attention(image.pytorch.as_deref()));
    if has_second { FlashKernel::Second } else { FlashKernel::First }
}

/// Returns the implementation of the model, and true if a table knows its name: the worker's own, or the one
/// written in `program`, by default transformers.
fn code(plan: &Plan, system: System) -> (Code, bool) {
    if system == System::Worker {
        return (Code::Worker, true);
    }
    match plan.job.program.as_ref().and_then(|program| program.code.value()) {
        None => (Code::HuggingFace, true),
        Some(name) => Code::parse(name).map_or((Code::HuggingFace, false), |code| (code, true)),
    }
}

/// Returns the default kernels of the program, by the name that the manifest gives its code.
fn default_kernels(plan: &Plan, code: Code) -> DefaultKernels {
    let name = plan.job.program.as_ref().and_then(|program| program.code.value());
    let gpu = plan.machine.as_ref().and_then(|machine| machine.gpu.as_deref()).and_then(GpuKind::from_name);
    let transformers = plan.image.as_ref().and_then(|image| image.transformers.as_deref());
    DefaultKernels::new(name.map_or(code.as_str(), String::as_str), gpu, transformers)
}

/// Returns true if PyTorch's own attention is FlashAttention 2, as it is since 2.2. An image without a
/// version is assumed to be recent.
fn has_flash2_attention(pytorch: Option<&str>) -> bool {
    pytorch.is_none_or(|version| version_at_least(version, (2, 2)))
}

fn precision(train: &Train) -> Result<Precision, Unknown> {
    if train.precision.is_bad() {
        return Err(Unknown("the precision is unknown"));
    }
    Ok(match train.precision.value().map(String::as_str) {
        Some("bf16") if has_narrow_states(train) => Precision::Pure16 { bf16: true },
        Some("bf16") => Precision::Mixed { bf16: true },
        Some("fp8") => {
            let recipe = train.recipe.value().and_then(|word| Fp8Recipe::parse(word));
            Precision::Fp8(recipe.unwrap_or(Fp8Recipe::Tensorwise))
        }
        Some("fp16") => Precision::Mixed { bf16: false },
        _ => Precision::Fp32,
    })
}

/// Returns true if weights, gradients and moments are all kept in bf16, without a 32-bit copy.
fn has_narrow_states(train: &Train) -> bool {
    let states = train.optimizer.as_ref().and_then(|optimizer| optimizer.states.value());
    states.is_some_and(|word| word == "bf16")
}

fn is_option_on(parallel: Option<&Parallel>, name: &str) -> bool {
    option(parallel, name) == Some(&Scalar::Bool(true))
}

fn offload(plan: &Plan) -> Offload {
    let parallel = plan.job.parallel.as_ref();
    let states = is_option_on(parallel, "offload");
    let optimizer_alone = option(parallel, "offload") == Some(&Scalar::Text("optimizer".to_owned()));
    Offload {
        activations: parallel.and_then(|parallel| parallel.offload_activations.get()) == Some(true),
        horizon: parallel.and_then(|parallel| parallel.offload_horizon.get()).map(|n| n as f64),
        parameters: states,
        optimizer: states || optimizer_alone,
        paged: optimizer(&plan.job.train).starts_with("paged"),
        parameters_on_disk: is_on_disk(plan, FileSize::ParameterDevice),
        optimizer_on_disk: is_on_disk(plan, FileSize::OptimizerDevice),
    }
}

fn optimizer(train: &Train) -> &str {
    train.optimizer.as_ref().and_then(|optimizer| optimizer.name.value()).map_or("adamw", String::as_str)
}

/// Returns true if the moments of token embeddings stay in 32 bit with an 8-bit optimizer. bitsandbytes
/// quantises every tensor of at least 4,096 elements (`Optimizer2State.init_state` @06029dd); transformers'
/// Trainer asks it to exclude embeddings (#15622), which had no effect from 4.30, when the optimizer's class
/// was renamed, until 4.52 (#37331). For other scripts this is unknown, and bitsandbytes' default is assumed.
fn wide_embeddings(plan: &Plan) -> bool {
    let transformers = plan.image.as_ref().and_then(|image| image.transformers.as_deref());
    transformers
        .is_some_and(|version| !version_at_least(version, (4, 30)) || version_at_least(version, (4, 52)))
}

fn moments(plan: &Plan) -> Moments {
    match optimizer(&plan.job.train) {
        name if name.contains("8bit") => Moments::TwoInt8 { wide_embeddings: wide_embeddings(plan) },
        // torch.optim.SGD keeps a buffer for its momentum, which is 0 unless the program sets it.
        "sgd" if !has_momentum(plan) => Moments::Zero,
        "sgd" | "lion" => Moments::One,
        "adafactor" => Moments::Factored,
        _ => Moments::Two,
    }
}

/// Returns true if a hyperparameter of the program gives the optimizer a momentum.
fn has_momentum(plan: &Plan) -> bool {
    let hyperparameters = plan.job.program.iter().flat_map(|program| &program.hyperparameters);
    hyperparameters.filter(|one| one.name.ends_with("momentum")).any(|one| match one.value.value() {
        Some(Scalar::Int(momentum)) => *momentum != 0,
        Some(Scalar::Float(momentum)) => *momentum != 0.0,
        Some(Scalar::Text(momentum)) => momentum.parse::<f64>() != Ok(0.0),
        _ => false,
    })
}
