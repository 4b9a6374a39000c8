//! The planned figures of a run, for the scripts that measure the cluster and watch the run in its
//! containers.

use super::mesh::Axis;

/// The planned figures of a job with `probe` or an enforced budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    /// Predicted figures; `None` where the model cannot predict the job. No part of the digest.
    pub speed: Option<ExpectedSpeed>,
    /// US dollars per hour of all instances, volumes and file systems of the job; `None` without a price. No
    /// part of the digest.
    pub usd_per_hour: Option<f64>,
    /// The figures on each further preferred instance type. No part of the digest.
    pub further_types: Vec<ExpectedType>,
    /// The work that `probe` measures; `None` where the layout is unknown.
    pub work: Option<ProbeWork>,
}

/// Planned figures of a job on a further preferred instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedType {
    /// The instance type.
    pub instance: String,
    /// Seconds of an optimizer step, if predicted.
    pub step_seconds: Option<f64>,
    /// Whether the interval of these seconds comes from measured errors of the job's setting.
    pub is_measured: bool,
    /// US dollars per hour of all instances, volumes and file systems of the job, if a price is known.
    pub usd_per_hour: Option<f64>,
}

/// Predicted figures of a step, seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedSpeed {
    /// Seconds of an optimizer step.
    pub step_seconds: f64,
    /// True if the interval of these seconds comes from measured errors of the layout's setting.
    pub is_measured: bool,
    /// Tokens per second, over all ranks.
    pub tokens_per_second: f64,
    /// Of a step, the seconds in which the GPUs compute.
    pub compute_seconds: f64,
    /// Of a step, the seconds in which the GPUs wait for other GPUs.
    pub communication_seconds: f64,
    /// Seconds of the matrix products of [`ProbeWork::products`], each once.
    pub product_seconds: f64,
    /// Seconds of attention, forward and backward, on the shape of [`ProbeWork`]; `None` if not predicted.
    pub attention_seconds: Option<f64>,
    /// Seconds of each of [`ProbeWork::collectives`].
    pub collective_seconds: Vec<f64>,
    /// The constants of the cost model behind these figures that a probe measures, by their keys in a file of
    /// constants: matrix products first, then attention, then the links.
    pub constants: Vec<(String, f64)>,
}

/// The shapes and sizes that `probe` measures, as one GPU sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeWork {
    /// Type of the numbers in matrix products: `bf16`, `fp16`, `fp32`.
    pub dtype: &'static str,
    /// Channels of the residual stream.
    pub hidden: u64,
    /// Query heads of one tensor rank.
    pub heads: u64,
    /// Key and value heads of one tensor rank.
    pub kv_heads: u64,
    /// Channels of a head.
    pub head_dim: u64,
    /// Channels inside the feed-forward part of one tensor rank.
    pub ffn: u64,
    /// Feed-forward matrices: 2, or 3 if gated.
    pub ffn_matrices: u64,
    /// True if attention looks only backwards.
    pub is_causal: bool,
    /// Tokens of a sequence on one rank.
    pub sequence_length: u64,
    /// Sequences of a micro-batch.
    pub sequences: u64,
    /// Kernel of the attention, as in `train { attention … }`.
    pub attention: &'static str,
    /// Matrix products of a layer and the head: rows, inner dimension, columns.
    pub products: Vec<[u64; 3]>,
    /// Collectives on the plan's groups.
    pub collectives: Vec<Collective>,
    /// Axes with their degrees, from the slowest to the fastest varying over ascending ranks.
    pub order: Vec<(Axis, u64)>,
    /// Bytes of a checkpoint that a node writes.
    pub checkpoint_bytes_per_node: u64,
}

/// An operation of a process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Every rank gets the parts of all.
    AllGather,
    /// Every rank gets a part of the sum.
    ReduceScatter,
    /// Every rank gets the sum.
    AllReduce,
}

impl Operation {
    /// Returns its name in `torch.distributed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllReduce => "all_reduce",
        }
    }
}

/// A collective that `probe` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Its operation.
    pub operation: Operation,
    /// The axis along which its groups lie; `None` for all ranks.
    pub axis: Option<Axis>,
    /// Bytes of the whole tensor: the output of a gather, the input of the others.
    pub bytes: u64,
    /// The constant of the cost model that its rate gives, by its key in a file of constants.
    pub constant: &'static str,
}
