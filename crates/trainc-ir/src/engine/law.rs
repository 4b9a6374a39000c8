//! Laws: how an engine arranges its ranks and shards the states, as data.

use super::{Sharding, System};
use crate::{Axis, Parallel, Plan};
use std::fmt;

/// How ranks are arranged, what they hold, and which parts of the cost model describe them.
///
/// The world size is the product of the degrees of [`Self::factors`] and of the replicas.
#[derive(Clone, Copy)]
pub struct Law {
    /// Its name.
    pub name: &'static str,
    /// The part of the cost model that describes it.
    pub system: System,
    /// The ranks of a host.
    pub ranks: Ranks,
    /// The axes beside the replicas whose degrees multiply to the world size, in the order in which
    /// messages name them.
    pub factors: &'static [Degree],
    /// The replicas where the manifest sets none; `None` if it cannot set them, and they are what the other
    /// axes leave.
    pub replicas: Option<Absent>,
    /// Axes that are a part of others: their degree divides that of the others and multiplies nothing.
    pub inside: &'static [Inside],
    /// True if the program ignores an expert degree where the model has no experts.
    pub ignores_experts_of_dense: bool,
    /// True if a width that the tensor degree does not divide is split unevenly, not refused.
    pub splits_unevenly: bool,
    /// Axes that the language has for the engine and that this law does not support above degree 1; a rule
    /// reports them.
    pub unsupported: &'static [Axis],
    /// The axes, slowest first, in the order of the ranks.
    pub order: Order,
    /// Axes whose ranks read different data.
    pub reads: &'static [Axis],
    /// Axes inside those of [`Self::reads`] whose ranks read the same data.
    pub shares: &'static [Axis],
    /// True if each tensor rank reads its own batch, unless `prescaled-batch` is on.
    pub tensor_reads: bool,
    /// What is sharded.
    pub states: States,
    /// The parts of each sequence that a context rank holds: 2 where one is from its beginning and one from
    /// its end, so that all ranks have the same work in causal attention.
    pub context_parts: u64,
    /// True if the tensor ranks divide the sequence between layers, too.
    pub tensor_divides_sequence: bool,
    /// The axes over whose ranks one copy of the sharded states is divided.
    pub states_over: &'static [Axis],
    /// The values of `strategy`.
    pub strategies: &'static [Strategy],
    /// The strategy of its program where none is set; `None` if everything is sharded then.
    pub usual_strategy: Option<&'static str>,
    /// True if `shard-optimizer-state` shards the states of the optimizer alone.
    pub shards_optimizer: bool,
    /// True if every rank has the whole model, or the script alone decides: the manifest describes no
    /// layout of it.
    pub whole_model: bool,
    /// True if AWS gives the rule of one node per 3 billion parameters for it, so that a prediction does
    /// not outweigh it.
    pub node_rule: bool,
    /// True if a class of layers, `wrap`, is the unit that is gathered.
    pub wraps: bool,
    /// True if the program takes the model's own class of layers where `wrap` names none.
    pub wraps_itself: bool,
    /// Axes beside the shard axis whose degrees `tune` varies.
    pub varies: &'static [Axis],
    /// Combinations of degrees that the job's version does not support.
    pub limits: fn(&Plan) -> Limits,
    /// True if `offload-activations` moves activations to the host.
    pub offloads_activations: bool,
    /// True if activations are only moved between the micro-batches of one batch.
    pub offloads_between_micro_batches: bool,
    /// True if `offload` moves parameters and optimizer states to the host and `tune` may propose it.
    pub offloads_states: bool,
    /// True if `offload "optimizer"` moves the states of the optimizer alone.
    pub offloads_optimizer: bool,
    /// The reason why the job is not planned on other numbers of nodes.
    pub unscalable: Option<&'static str>,
    /// True if SMDDP runs the collectives instead of NCCL.
    pub smddp: bool,
    /// Support of bf16.
    pub bf16: Bf16,
    /// Quantised weights that it supports.
    pub quantized: Quantized,
    /// The name in a table of measured runs by what is sharded; the last one also of any other sharding.
    pub measured_as: &'static [(Sharding, &'static str)],
}

/// An axis, and its degree where the manifest sets none.
#[derive(Clone, Copy, Debug)]
pub struct Degree {
    /// The axis.
    pub axis: Axis,
    /// The degree where it is absent.
    pub absent: Absent,
}

/// A degree that is not written, with the reason that reports show.
#[derive(Clone, Copy, Debug)]
pub enum Absent {
    /// 1.
    One(&'static str),
    /// The GPUs of one node.
    Node(&'static str),
    /// The world size.
    World(&'static str),
    /// The GPUs of the recommended nodes (one per 3 billion parameters), or the world size if the model is
    /// unknown.
    Recommended(&'static str),
    /// All GPUs of the node; the manifest cannot set another degree.
    AllGpus(&'static str),
    /// What the other degrees leave of the world size.
    Rest(&'static str),
}

/// An axis that is a part of others.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    /// The axis, and its degree where the manifest sets none.
    pub degree: Degree,
    /// The axes whose ranks it divides: its degree divides the product of theirs.
    pub of: &'static [Axis],
    /// Those of them that it has whole: its degree is a multiple of theirs.
    pub whole: &'static [Axis],
}

/// The ranks of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// One for each accelerator core.
    PerAccelerator,
    /// As many as `processes` says, by default one for each accelerator.
    PerProcess,
    /// One process has all GPUs of one node and places parts of the model on them. Their number counts as
    /// ranks.
    OneProcess,
    /// One process for each host, whose script uses the accelerators as it likes.
    Host,
}

/// The order of the axes over ascending ranks.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// These axes, slowest first.
    Axes(&'static [Axis]),
    /// As the manifest chooses.
    Written(fn(&Parallel) -> Vec<Axis>),
}

/// What is sharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum States {
    /// Nothing.
    Whole,
    /// Everything.
    Sharded,
    /// What the strategy says; without one, everything.
    ByStrategy,
    /// Everything where a shard degree above 1 is written.
    ByDegree,
}

/// A value of `strategy`.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// The word.
    pub word: &'static str,
    /// The shard degree, if none is written.
    pub degree: Absent,
    /// True if no other shard degree may be written.
    pub is_fixed: bool,
    /// What is sharded.
    pub sharding: Sharding,
}

/// Support of bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bf16 {
    /// Always.
    Yes,
    /// Where a shard degree above 1 is written.
    WithShards,
    /// No, or unknown.
    No,
}

/// Quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantized {
    /// Those of any type.
    Any,
    /// 4-bit weights that are stored in a floating-point type: parameters are flattened together.
    Nf4,
    /// None, for this reason.
    None(&'static str),
}

/// Combinations of degrees that a version supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// True if states can be sharded.
    pub shards: bool,
    /// True if tensor parallelism can be combined with sharding.
    pub tensor_with_shards: bool,
    /// True if a pipeline can be combined with sharding.
    pub pipeline_with_shards: bool,
    /// True if the job's precision requires sharding.
    pub must_shard: bool,
}

impl Strategy {
    /// Returns the shard degree, if none is written. `ranks` are those that the axes beside replicas and
    /// shards leave.
    pub fn shard_degree(&self, ranks: u64, gpus_per_node: u64) -> u64 {
        match self.degree {
            Absent::One(_) => 1,
            Absent::Node(_) | Absent::AllGpus(_) => gpus_per_node,
            Absent::World(_) | Absent::Recommended(_) | Absent::Rest(_) => ranks,
        }
    }

    /// Returns true if it shards over all ranks that the other axes leave; the others leave replicas.
    pub fn is_whole(&self) -> bool {
        matches!(self.degree, Absent::World(_) | Absent::Rest(_))
    }
}

impl Limits {
    /// Every combination is supported.
    pub const NONE: Self =
        Self { shards: true, tensor_with_shards: true, pipeline_with_shards: true, must_shard: false };
}

impl Law {
    /// The law of a plain script: one process on each host, and nothing else is known. The other laws
    /// differ from it.
    pub const PLAIN: Self = Self {
        name: "script",
        system: System::Ddp,
        ranks: Ranks::Host,
        factors: &[],
        replicas: None,
        inside: &[],
        ignores_experts_of_dense: false,
        splits_unevenly: false,
        unsupported: &[],
        order: Order::Axes(&[Axis::Replica]),
        reads: &[Axis::Replica, Axis::Shard],
        shares: &[],
        tensor_reads: false,
        states: States::Whole,
        context_parts: 1,
        tensor_divides_sequence: false,
        states_over: &[Axis::Shard],
        strategies: &[],
        usual_strategy: None,
        shards_optimizer: false,
        whole_model: true,
        node_rule: false,
        wraps: false,
        wraps_itself: false,
        varies: &[],
        limits: |_| Limits::NONE,
        offloads_activations: false,
        offloads_between_micro_batches: false,
        offloads_states: false,
        offloads_optimizer: false,
        unscalable: Some("a plain script distributes the work itself"),
        smddp: false,
        bf16: Bf16::Yes,
        quantized: Quantized::Any,
        measured_as: &[(Sharding::None, "DDP")],
    };

    /// Returns true if the script distributes the work: the ranks are hosts.
    pub fn is_script(&self) -> bool {
        self.ranks == Ranks::Host
    }

    /// Returns true if one process places layers on the GPUs of one node.
    pub fn is_device_map(&self) -> bool {
        self.ranks == Ranks::OneProcess
    }

    /// Returns true if it can shard states.
    pub fn can_shard(&self) -> bool {
        self.states != States::Whole
    }

    /// Returns true if it runs micro-batches through stages, some versions with one stage only.
    pub fn has_stages(&self) -> bool {
        !self.is_device_map() && self.factors.iter().any(|factor| factor.axis == Axis::Pipeline)
    }

    /// Returns the axes of which this one is a part.
    pub fn inside(&self, axis: Axis) -> Option<&'static Inside> {
        self.inside.iter().find(|inside| inside.degree.axis == axis)
    }

    /// Returns the axes whose degrees the manifest may set.
    pub fn axes(&self) -> impl Iterator<Item = Axis> {
        let free = self.factors.iter().filter(|factor| !matches!(factor.absent, Absent::AllGpus(_)));
        let free = free.chain(self.inside.iter().map(|inside| &inside.degree)).map(|degree| degree.axis);
        self.replicas.map(|_| Axis::Replica).into_iter().chain(free)
    }

    /// Returns true if it has the axis, of whatever degree.
    pub fn has(&self, axis: Axis) -> bool {
        self.factors.iter().any(|factor| factor.axis == axis) || self.inside(axis).is_some()
    }

    /// Returns the strategy that the manifest names, or the program's usual one.
    pub fn strategy(&self, parallel: Option<&Parallel>) -> Option<&'static Strategy> {
        let written = parallel?.strategy.value().map(String::as_str);
        self.strategy_named(written.or(self.usual_strategy)?)
    }

    /// Returns the strategy with a name.
    pub fn strategy_named(&self, word: &str) -> Option<&'static Strategy> {
        self.strategies.iter().find(|strategy| strategy.word == word)
    }

    /// Returns the strategy with a sharding, over the whole world or in groups.
    pub fn strategy_of(&self, sharding: Sharding, whole_world: bool) -> Option<&'static Strategy> {
        let mut with_sharding = self.strategies.iter().filter(|strategy| strategy.sharding == sharding);
        let is_whole = |strategy: &&Strategy| strategy.is_whole() == whole_world;
        with_sharding.clone().find(is_whole).or_else(|| with_sharding.next())
    }

    /// Returns the strategy that shards everything over the whole world.
    pub fn whole_world_strategy(&self) -> Option<&'static str> {
        self.strategy_of(Sharding::Full, true).map(|strategy| strategy.word)
    }

    /// Returns what is sharded over a number of ranks.
    pub fn sharding(&self, parallel: Option<&Parallel>, ranks: u64) -> Sharding {
        let alone = parallel.and_then(|parallel| parallel.shard_optimizer_state.get()) == Some(true);
        match self.states {
            States::Sharded => Sharding::Full,
            States::ByStrategy => {
                self.strategy(parallel).map_or(Sharding::Full, |strategy| strategy.sharding)
            }
            States::ByDegree if ranks > 1 => Sharding::Full,
            States::ByDegree if alone => Sharding::Optimizer,
            States::ByDegree | States::Whole => Sharding::None,
        }
    }

    /// Returns true if the manifest shards states over the shard axis.
    pub fn is_sharded(&self, parallel: &Parallel) -> bool {
        match self.states {
            States::Whole => false,
            States::Sharded => true,
            States::ByStrategy => {
                self.strategy(Some(parallel)).is_none_or(|strategy| strategy.sharding != Sharding::None)
            }
            States::ByDegree => parallel.shard_degree.get().is_some_and(|degree| degree > 1),
        }
    }

    /// Returns true if each tensor rank reads its own batch.
    pub fn reads_by_tensor(&self, parallel: Option<&Parallel>) -> bool {
        let prescaled = parallel.and_then(|parallel| parallel.prescaled_batch.get());
        self.tensor_reads && prescaled != Some(true)
    }

    /// Returns the number of ranks that read different data; `degree` gives the degrees.
    pub fn data_ranks(&self, degree: impl Fn(Axis) -> u64, reads_by_tensor: bool) -> u64 {
        let product = |axes: &[Axis]| axes.iter().map(|axis| degree(*axis).max(1)).product::<u64>();
        let readers = if reads_by_tensor { degree(Axis::Tensor).max(1) } else { 1 };
        product(self.reads) / product(self.shares) * readers
    }

    /// Returns the axes, slowest first, in the order of the ranks.
    pub fn order(&self, parallel: &Parallel) -> Vec<Axis> {
        match self.order {
            Order::Axes(axes) => axes.to_vec(),
            Order::Written(axes) => axes(parallel),
        }
    }

    /// Returns the name in a table of measured runs.
    pub fn measured_as(&self, sharding: Sharding) -> &'static str {
        let named = self.measured_as.iter().find(|(of, _)| *of == sharding);
        named.or(self.measured_as.last()).map_or("", |(_, name)| *name)
    }
}

impl PartialEq for Law {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Law({})", self.name)
    }
}
