//! Changes of a layout that need less memory, and the layout after each.

use crate::choice::{Choice, Degrees};
use crate::space::Space;
use trainc_diag::Edit;
use trainc_ir::Axis;
use trainc_ir::engine::Quantized;
use trainc_plan::plan::divisors::divisors;
use trainc_predict::{Attention, FlashKernel, Recompute, Sharding, System, is_one_fsdp_unit};

/// One change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// `wrap "LAYER"`: FSDP gathers layer by layer instead of the whole model at once.
    Wrap,
    /// `flash-attention #true`.
    FlashAttention,
    /// A larger degree of an axis, or more sharding, on the same nodes.
    Degrees(Axis, Degrees),
    /// A smaller micro-batch, with correspondingly more passes.
    MicroBatch(u64),
    /// `activation-checkpointing #true`.
    Checkpointing,
    /// `engine="fsdp"` instead of a complete copy of the model on every rank.
    Fsdp,
    /// `offload-activations #true`.
    OffloadActivations,
    /// `offload "optimizer"`: the states of the optimizer alone.
    OffloadOptimizer,
    /// `offload #true`: parameters and optimizer states.
    OffloadStates,
    /// `quantize "nf4"` under an adapter.
    Nf4,
    /// More nodes for one shard group.
    Nodes(u64),
    /// The same number of nodes of another type, an index of [`Space::sites`].
    Machine(usize),
}

impl Change {
    /// Returns the rank without a known time: free changes first, changes that cost money last.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::FlashAttention | Self::Wrap => 0,
            Self::Degrees(Axis::Replica | Axis::Shard, _) => 1,
            Self::MicroBatch(_) => 2,
            Self::Checkpointing => 3,
            Self::Fsdp => 4,
            Self::Degrees(Axis::Tensor, _) => 5,
            Self::Degrees(Axis::Context | Axis::Ulysses | Axis::Expert, _) => 6,
            Self::Degrees(Axis::Pipeline, _) => 7,
            Self::OffloadActivations => 8,
            Self::OffloadOptimizer | Self::OffloadStates => 9,
            Self::Nf4 => 10,
            Self::Nodes(_) => 11,
            Self::Machine(_) => 12,
        }
    }

    /// Returns true if it arranges the ranks anew: of such changes only one is made.
    pub(super) fn arranges_ranks(self) -> bool {
        matches!(self, Self::Degrees(..) | Self::Fsdp | Self::Nodes(_))
    }

    /// Returns true if it changes how many sequences a rank reads at a time.
    pub(super) fn divides_batch(self) -> bool {
        matches!(self, Self::MicroBatch(_) | Self::Nodes(_))
            || matches!(self, Self::Degrees(axis, _) if axis != Axis::Shard)
    }
}

impl Space<'_> {
    /// Returns the changes of the manifest's layout by kind, the mildest of each kind first.
    pub(super) fn changes(&self) -> Vec<Vec<Change>> {
        let own = &self.written;
        let architecture = self.plan.model.as_ref().and_then(|model| model.architecture.as_ref());
        let one = |is_possible: bool, change: Change| if is_possible { vec![change] } else { Vec::new() };
        let [partial, whole, groups] = self.shardings();
        // The library divides sequences and experts itself where their ranks are a part of others; else the
        // program does, if it has such ranks now.
        let is_divided = |axis| self.rules.law.inside(axis).is_some() || own.degrees.degree(axis) > 1;
        let is_free = |axis| matches!(axis, Axis::Tensor | Axis::Pipeline) || is_divided(axis);
        let axis = |axis| if is_free(axis) { self.larger_degrees(axis) } else { Vec::new() };
        let micro = divisors(own.micro_batch_size * own.passes).into_iter().rev();
        let micro = micro.filter(|micro| *micro < own.micro_batch_size).map(Change::MicroBatch);
        let wraps = architecture.is_some() && self.base.one_unit && is_one_fsdp_unit(self.plan);
        vec![
            one(wraps, Change::Wrap),
            one(self.can_run_flash_attention(), Change::FlashAttention),
            partial,
            whole,
            groups,
            micro.collect(),
            one(own.recompute != Recompute::Full, Change::Checkpointing),
            one(self.can_switch_to_fsdp(), Change::Fsdp),
            axis(Axis::Tensor),
            axis(Axis::Context),
            axis(Axis::Ulysses),
            axis(Axis::Expert),
            axis(Axis::Pipeline),
            one(!own.host_offload.activations && self.moves(|to| to.activations), Change::OffloadActivations),
            self.state_offloads(),
            one(self.can_use_nf4(), Change::Nf4),
            self.more_nodes(),
        ]
    }

    /// Returns true if some offload of the space moves this.
    fn moves(&self, what: impl Fn(&crate::choice::HostOffload) -> bool) -> bool {
        self.rules.host_offload.iter().any(what)
    }

    fn state_offloads(&self) -> Vec<Change> {
        let own = self.written.host_offload;
        let mut out = Vec::new();
        if !own.states {
            if !own.optimizer && self.moves(|to| to.optimizer) {
                out.push(Change::OffloadOptimizer);
            }
            if self.moves(|to| to.states) {
                out.push(Change::OffloadStates);
            }
        }
        out
    }

    /// Returns the meshes on the written nodes that shard more and leave the other axes: part of the states,
    /// all of them over all ranks, and all of them in groups.
    fn shardings(&self) -> [Vec<Change>; 3] {
        let own = self.written.degrees;
        let all = self.ranks_of_data(&self.written);
        let strategy = self.rules.law.whole_world_strategy().is_some();
        let mut out: [Vec<Degrees>; 3] = Default::default();
        for degrees in self.meshes_on(self.written.nodes) {
            let others = Degrees { shard: own.shard, sharding: own.sharding, ..degrees };
            let more = degrees.sharding > own.sharding && degrees.shard >= own.shard
                || degrees.sharding == own.sharding && degrees.shard > own.shard;
            if others != own || !more || degrees.sharding == Sharding::None {
                continue;
            }
            let kind = match degrees.sharding {
                Sharding::Full if strategy && degrees.shard == all => 1,
                Sharding::Full => 2,
                _ => 0,
            };
            if let Some(kind) = out.get_mut(kind) {
                kind.push(degrees);
            }
        }
        out.map(|mut kind| {
            kind.sort_by_key(|degrees| (degrees.sharding, degrees.shard));
            kind.into_iter().map(|degrees| Change::Degrees(Axis::Shard, degrees)).collect()
        })
    }

    /// Returns the meshes on the written nodes with a multiple of the written degree of an axis: fewer
    /// replicas, and if there are too few, smaller shard groups.
    fn larger_degrees(&self, axis: Axis) -> Vec<Change> {
        let (law, own) = (self.rules.law, self.written.degrees);
        let all = self.ranks_of_data(&self.written);
        let replicas = all / own.shard.max(1);
        let (before, is_of) = (own.degree(axis).max(1), own.beside_shards(law).max(1));
        let mut found: Vec<Degrees> = self.meshes_on(self.written.nodes);
        found.retain(|degrees| {
            let more = degrees.beside_shards(law) / is_of;
            let shard = all / more.max(1) / (replicas / more.max(1)).max(1);
            let with_own = degrees.with_degree(axis, own.degree(axis));
            let others = Degrees { shard: own.shard, ..with_own };
            let degree = degrees.degree(axis);
            others == own && degree > before && degree.is_multiple_of(before) && degrees.shard == shard
        });
        found.sort_by_key(|degrees| degrees.degree(axis));
        found.into_iter().map(|degrees| Change::Degrees(axis, degrees)).collect()
    }

    /// Returns doublings of the nodes, if the shard group is the whole world and, unwritten, grows with them.
    fn more_nodes(&self) -> Vec<Change> {
        let own = &self.written;
        let is_one_group = self.ranks_of_data(own) == own.degrees.shard;
        let grows = is_one_group && self.rules.law.can_shard() && self.shard_degree().is_absent();
        if !grows || self.plan.instance.is_none() {
            return Vec::new();
        }
        let nodes = (1..=5).map(|power| own.nodes << power);
        nodes.filter(|nodes| self.is_one_group_valid(*nodes)).map(Change::Nodes).collect()
    }

    fn is_one_group_valid(&self, nodes: u64) -> bool {
        let one_group = self.one_group(&self.written, self.written.site, nodes);
        one_group.is_some_and(|degrees| self.meshes_on(nodes).contains(&degrees))
    }

    fn meshes_on(&self, nodes: u64) -> Vec<Degrees> {
        self.rules.valid_degrees(nodes, self.gpus_per_node(self.written.site))
    }

    /// Returns the ranks of replicas and shards.
    fn ranks_of_data(&self, choice: &Choice) -> u64 {
        choice.nodes * self.gpus_per_node(choice.site) / choice.degrees.beside_shards(self.rules.law).max(1)
    }

    /// Returns the degrees that make nodes of a type one shard group.
    fn one_group(&self, from: &Choice, site: usize, nodes: u64) -> Option<Degrees> {
        let (world, beside) = (nodes * self.gpus_per_node(site), from.degrees.beside_shards(self.rules.law));
        let shard = world.checked_div(beside).filter(|shard| shard * beside == world && *shard > 0)?;
        Some(Degrees { shard, ..from.degrees })
    }

    /// Returns a choice on other machines as one shard group. A written global batch stays, so that more
    /// ranks accumulate fewer passes; else it grows with the ranks. `None` if it does not divide.
    pub(super) fn on_one_group(&self, from: &Choice, site: usize, nodes: u64) -> Option<Choice> {
        let degrees = self.one_group(from, site, nodes)?;
        let mut new = Choice { site, nodes, degrees, ..*from };
        if self.plan.job.train.global_batch.get().is_some() {
            let pass = new.micro_batch_size * new.num_micro_batches;
            let per_reader = self.sequences_per_reader(&new).filter(|all| all.is_multiple_of(pass))?;
            new.passes = per_reader / new.micro_batch_size;
        } else {
            new.global_sequences = self.readers(&new) * new.micro_batch_size * new.passes;
        }
        Some(new)
    }

    /// Returns the choice after a change; `None` if it is impossible there.
    pub(super) fn changed(&self, from: &Choice, change: Change) -> Option<Choice> {
        let mut new = *from;
        match change {
            Change::Wrap => new.switches.wrap = true,
            Change::FlashAttention => new.switches.flash = true,
            Change::Fsdp => new.switches.fsdp = true,
            Change::Nf4 => new.switches.nf4 = true,
            Change::Checkpointing => new.recompute = Recompute::Full,
            Change::MicroBatch(micro) => return self.with_passes(Choice { micro_batch_size: micro, ..new }),
            Change::Degrees(_, degrees) => return self.with_passes(Choice { degrees, ..new }),
            Change::Nodes(nodes) => return self.on_one_group(from, from.site, nodes),
            Change::Machine(site) => new.site = site,
            Change::OffloadActivations => new.host_offload.activations = true,
            Change::OffloadOptimizer => new.host_offload.optimizer = true,
            Change::OffloadStates => (new.host_offload.states, new.host_offload.optimizer) = (true, false),
        }
        let moves =
            new.host_offload == from.host_offload || self.rules.is_offload_allowed(&new, &self.written);
        moves.then_some(new)
    }

    /// Returns the choice with as many passes as its batch takes, in the written number of micro-batches if
    /// they divide it.
    fn with_passes(&self, mut choice: Choice) -> Option<Choice> {
        let per_reader = self.sequences_per_reader(&choice)?;
        if !per_reader.is_multiple_of(choice.micro_batch_size) {
            return None;
        }
        choice.passes = per_reader / choice.micro_batch_size;
        let written = &self.written;
        let stays = choice.degrees.pipeline == written.degrees.pipeline
            && choice.passes.is_multiple_of(written.num_micro_batches);
        choice.num_micro_batches =
            if stays { written.num_micro_batches } else { self.rules.num_micro_batches(&choice, written) };
        Some(choice)
    }

    /// Returns the edits of the manifest that make the changes, in their order.
    pub fn edits_of(&self, changes: &[Change]) -> Vec<Edit> {
        let mut choice = self.written;
        let mut order: Vec<String> = Vec::new();
        for change in changes {
            let Some(new) = self.changed(&choice, *change) else { return Vec::new() };
            choice = new;
            order.extend(self.values_to_set(&choice).iter().map(Edit::path));
        }
        let mut edits = self.values_to_set(&choice);
        edits.sort_by_cached_key(|edit| order.iter().position(|path| *path == edit.path()));
        edits
    }

    /// Returns true if FlashAttention is off, and the engine runs models whose attention has it.
    fn can_run_flash_attention(&self) -> bool {
        let base = &self.base;
        let runs_it = matches!(
            base.system,
            System::Fsdp | System::DeepSpeed | System::SmpV2 | System::Ddp | System::DeviceMap
        );
        // torch's own FlashAttention kernels were introduced in 2.0 and complete in 2.2.
        base.attention != Attention::Flash && runs_it && base.flash != FlashKernel::First
    }

    /// Returns true if each rank has a copy of the model that FSDP could shard: DDP without settings that only
    /// DDP has.
    fn can_switch_to_fsdp(&self) -> bool {
        let plan = self.plan;
        let Some(parallel) = plan.job.parallel.as_ref().filter(|_| self.rules.law.whole_model) else {
            return false;
        };
        let known = plan.model.as_ref().is_some_and(|model| model.architecture.is_some());
        self.base.system == System::Ddp
            && self.base.degrees.data_parallel_ranks() > 1.0
            && known
            && plan.job.quantize.is_none()
            && parallel.processes.is_absent()
            && parallel.mpi_env.is_empty()
            && parallel.mpi_options.is_absent()
            && parallel.options.is_empty()
    }

    /// Returns true if the engine supports 4-bit weights under the job's adapter, and nothing is quantised yet.
    fn can_use_nf4(&self) -> bool {
        let job = &self.plan.job;
        let carries = !matches!(self.rules.law.quantized, Quantized::None(_));
        let computes = job.train.precision.value().is_some_and(|precision| precision != "fp32");
        let is_frozen = self.base.lora.is_some() && self.base.quantisation.is_none();
        carries && computes && is_frozen && job.quantize.is_none()
    }
}
