//! What would make a layout fit: edits of a manifest, what each leaves of the memory, and what it costs in time.

use super::{memory, moments};
use crate::predict::layout::{Attention, Layout, Quantisation, Recompute, Sharding, System};
use crate::predict::prediction::Memory;

/// One edit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    /// `wrap "LAYER"`: FSDP gathers layer by layer instead of everything at once.
    Wrap,
    /// `flash-attention #true`.
    FlashAttention,
    /// `strategy "full-shard"`.
    FullShard,
    /// `shard-degree N`: the states of a replica over more ranks.
    ShardDegree(u64),
    /// `shard-optimizer-state #true`.
    ShardOptimizerState,
    /// `tensor-degree N`: each layer over more ranks, and as many fewer data ranks.
    TensorDegree(u64),
    /// `quantize "nf4"` under an adapter.
    Nf4,
    /// A smaller micro-batch, with as many passes more.
    MicroBatch(u64),
    /// `activation-checkpointing #true`.
    Checkpointing,
    /// `offload-activations #true`.
    OffloadActivations,
    /// `offload #true`: parameters and optimizer states.
    OffloadStates,
    /// More nodes for one shard group.
    Nodes(u64),
}

impl Edit {
    /// Where it stands when no time is known: what costs nothing first, what costs money last.
    fn rank(self) -> u8 {
        match self {
            Self::FlashAttention | Self::Wrap => 0,
            Self::ShardOptimizerState | Self::FullShard => 1,
            Self::ShardDegree(_) => 2,
            Self::MicroBatch(_) => 3,
            Self::Checkpointing => 4,
            Self::TensorDegree(_) => 5,
            Self::OffloadActivations => 6,
            Self::OffloadStates => 7,
            Self::Nf4 => 8,
            Self::Nodes(_) => 9,
        }
    }
}

/// Edits and what comes of them.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// One edit, or several where none alone is enough.
    pub edits: Vec<Edit>,
    /// The memory after them.
    pub after: Memory,
    /// How much longer a sequence takes, a fraction; none where speed is not known.
    pub slower: Option<f64>,
}

/// What a manifest lets be changed.
#[derive(Clone, Debug, Default)]
pub struct Freedom {
    /// Micro-batches below the present one that the batch arithmetic takes.
    pub micro_batches: Vec<u64>,
    /// Shard degrees above the present one that divide the world.
    pub shard_degrees: Vec<u64>,
    /// Tensor degrees above the present one that the engine takes beside the rest.
    pub tensor_degrees: Vec<u64>,
    /// Whether the layers' class is known and `wrap` is not written.
    pub wrap: bool,
    /// Whether the frozen weights may be stored as NF4.
    pub nf4: bool,
    /// Whether the optimizer can step parameters that lie in host memory.
    pub offload_states: bool,
    /// Node counts above the present one, where the shard group is the whole world.
    pub nodes: Vec<u64>,
}

/// The layout after an edit; none where it changes nothing or cannot be made.
fn edited(layout: &Layout, edit: Edit) -> Option<Layout> {
    let mut new = layout.clone();
    match edit {
        Edit::FlashAttention => {
            let runs_it = matches!(
                layout.system,
                System::Fsdp | System::DeepSpeed | System::SmpV2 | System::Ddp | System::DeviceMap
            );
            // torch's own kernels for it came with 2.0 and were whole with 2.2.
            if layout.attention == Attention::Flash || !runs_it || !layout.flash2 {
                return None;
            }
            new.attention = Attention::Flash;
        }
        Edit::FullShard => {
            if layout.system != System::Fsdp
                || layout.sharding == Sharding::Full
                || layout.degrees.data() <= 1.0
            {
                return None;
            }
            new.sharding = Sharding::Full;
            new.degrees.shard = layout.degrees.data();
            new.degrees.replicas = 1.0;
        }
        Edit::ShardDegree(degree) => {
            let data = layout.degrees.data();
            new.degrees.shard = degree as f64;
            new.degrees.replicas = data / degree as f64;
            new.sharding = Sharding::Full;
        }
        Edit::Wrap => {
            if !layout.one_unit {
                return None;
            }
            new.one_unit = false;
        }
        Edit::TensorDegree(degree) => {
            let more = degree as f64 / layout.degrees.tensor;
            let replicas = (layout.degrees.replicas / more).max(1.0);
            new.degrees.shard = layout.degrees.data() / more / replicas;
            new.degrees.replicas = replicas;
            new.degrees.tensor = degree as f64;
            new.work.passes *= more;
        }
        Edit::Nf4 => {
            if layout.lora.is_none() || layout.quantisation.is_some() {
                return None;
            }
            new.quantisation = Some(Quantisation::Nf4 { double: false });
        }
        Edit::ShardOptimizerState => {
            let fits = layout.system == System::SmpV1
                && layout.sharding == Sharding::None
                && layout.degrees.data() > 1.0;
            if !fits {
                return None;
            }
            new.sharding = Sharding::Optimizer;
        }
        Edit::MicroBatch(micro) => {
            new.work.passes *= layout.work.micro_batch / micro as f64;
            new.work.micro_batch = micro as f64;
        }
        Edit::Checkpointing => {
            if layout.recompute == Recompute::Full {
                return None;
            }
            new.recompute = Recompute::Full;
        }
        Edit::OffloadActivations => {
            let smp = matches!(layout.system, System::SmpV1 | System::SmpV2);
            new.offload.activations = true;
            if !smp || layout.offload.activations || !moments::offloads(&new) {
                return None;
            }
        }
        Edit::OffloadStates => {
            if layout.system != System::Fsdp || layout.offload.parameters || layout.lora.is_some() {
                return None;
            }
            new.offload.parameters = true;
            new.offload.optimizer = true;
        }
        Edit::Nodes(nodes) => {
            let more = nodes as f64 / layout.hardware.nodes;
            new.hardware.nodes = nodes as f64;
            new.degrees.shard *= more;
            new.work.global_sequences *= more;
        }
    }
    Some(new)
}

fn candidates(freedom: &Freedom) -> Vec<Vec<Edit>> {
    let largest_first = |numbers: &[u64]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers
    };
    let smallest_first = |numbers: &[u64]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers
    };
    // Of each kind the mildest first: only the first that fits is a remedy.
    vec![
        if freedom.wrap { vec![Edit::Wrap] } else { Vec::new() },
        vec![Edit::FlashAttention],
        vec![Edit::ShardOptimizerState],
        vec![Edit::FullShard],
        smallest_first(&freedom.shard_degrees).into_iter().map(Edit::ShardDegree).collect(),
        largest_first(&freedom.micro_batches).into_iter().map(Edit::MicroBatch).collect(),
        vec![Edit::Checkpointing],
        smallest_first(&freedom.tensor_degrees).into_iter().map(Edit::TensorDegree).collect(),
        vec![Edit::OffloadActivations],
        if freedom.offload_states { vec![Edit::OffloadStates] } else { Vec::new() },
        if freedom.nf4 { vec![Edit::Nf4] } else { Vec::new() },
        smallest_first(&freedom.nodes).into_iter().map(Edit::Nodes).collect(),
    ]
}

/// Twice the time and more: an edit of last resort.
const RUINOUS: f64 = 1.0;

/// The most bundles of several edits that are offered.
const BUNDLES: usize = 3;

/// By how much cheaper than every single edit a bundle is, a fraction of the time: less is not worth a second line.
const WORTH: f64 = 0.01;

/// What is known of a layout beside its memory.
pub struct Judge<'a> {
    /// The time of one sequence, where it is known.
    pub seconds: &'a dyn Fn(&Layout) -> Option<f64>,
    /// Whether nothing else refuses the layout: host memory, the longest run.
    pub passes: &'a dyn Fn(&Layout, &Memory) -> bool,
}

/// Edits that make the layout fit: the least price in time first, and of equals the one with the most room left.
///
/// Of each kind of edit the mildest that fits; of each two kinds the pair that costs least in time, where it costs less
/// than any single edit; and of three kinds, where all that is cost twice the time or nothing fits. More nodes cost money
/// even where they save time: they stand behind what does without, but before what is ruinous.
pub fn remedies(layout: &Layout, freedom: &Freedom, judge: &Judge) -> Vec<Remedy> {
    let before = (judge.seconds)(layout);
    let weigh = |edits: &[Edit], new: &Layout| {
        let after = memory(new);
        let fits = after.fits == Some(true) && (judge.passes)(new, &after);
        let slower = || Some((judge.seconds)(new)? / before? - 1.0);
        fits.then(|| Remedy { edits: edits.to_vec(), slower: slower(), after })
    };
    let kinds = candidates(freedom);
    let mut found: Vec<Remedy> = Vec::new();
    // Edits that do something and are not enough alone.
    let mut weak: Vec<Vec<(Edit, Layout)>> = Vec::new();
    for kind in &kinds {
        let made: Vec<(Edit, Layout)> =
            kind.iter().filter_map(|edit| Some((*edit, edited(layout, *edit)?))).collect();
        let first = made.iter().enumerate().find_map(|(at, (edit, new))| Some((at, weigh(&[*edit], new)?)));
        let enough = first.as_ref().map_or(made.len(), |(at, _)| *at);
        found.extend(first.map(|(_, remedy)| remedy));
        weak.push(made.into_iter().take(enough).collect());
    }
    let mut bundles = bundles(&weak, &weigh);
    let cheap = |remedy: &Remedy| remedy.slower.is_none_or(|slower| slower <= RUINOUS) && !more_nodes(remedy);
    if !found.iter().chain(&bundles).any(cheap) {
        bundles.extend(triples(&weak, &weigh));
    }
    let least = |of: &[Remedy]| of.iter().filter_map(|one| one.slower).min_by(f64::total_cmp);
    let single = least(&found.iter().filter(|one| !more_nodes(one)).cloned().collect::<Vec<_>>());
    bundles.retain(|bundle| match (bundle.slower, single) {
        (Some(slower), Some(single)) => slower < single - WORTH,
        _ => !found.iter().any(|one| !more_nodes(one)),
    });
    bundles.sort_by(by_price);
    bundles.truncate(BUNDLES);
    found.extend(bundles);
    if found.is_empty() {
        let fits = |new: &Layout| weigh(&[], new).map(|remedy| remedy.after);
        found.extend(together(layout, &kinds, &fits).and_then(|(edits, new, _)| weigh(&edits, &new)));
    }
    found.sort_by(by_price);
    found
}

fn more_nodes(remedy: &Remedy) -> bool {
    remedy.edits.iter().any(|edit| matches!(edit, Edit::Nodes(_)))
}

/// The order in which remedies are offered.
fn by_price(a: &Remedy, b: &Remedy) -> std::cmp::Ordering {
    let class = |remedy: &Remedy| match remedy.slower {
        Some(slower) if slower > RUINOUS => 2,
        _ if more_nodes(remedy) => 1,
        _ => 0,
    };
    let rank = |remedy: &Remedy| remedy.edits.iter().map(|edit| edit.rank()).max().unwrap_or(0);
    // What differs by less than half a percent costs the same.
    let price = |remedy: &Remedy| remedy.slower.map(|slower| (200.0 * slower).round());
    let used = |remedy: &Remedy| remedy.after.per_gpu_bytes;
    class(a)
        .cmp(&class(b))
        .then_with(|| match (price(a), price(b)) {
            (Some(x), Some(y)) => x.total_cmp(&y),
            _ => rank(a).cmp(&rank(b)),
        })
        .then_with(|| a.edits.len().cmp(&b.edits.len()))
        .then_with(|| used(a).total_cmp(&used(b)))
}

/// Whether edits may be made together: numbers that were chosen for the present ranks do not hold for other ones.
fn together_allowed(a: Edit, b: Edit) -> bool {
    let divides = |edit: Edit| {
        matches!(
            edit,
            Edit::FullShard
                | Edit::ShardDegree(_)
                | Edit::ShardOptimizerState
                | Edit::TensorDegree(_)
                | Edit::Nodes(_)
        )
    };
    let batch = |edit: Edit| matches!(edit, Edit::MicroBatch(_) | Edit::Nodes(_) | Edit::TensorDegree(_));
    !(divides(a) && divides(b) || batch(a) && batch(b))
}

type Weigh<'a> = dyn Fn(&[Edit], &Layout) -> Option<Remedy> + 'a;

/// Of each two kinds the pair that fits and costs least.
fn bundles(weak: &[Vec<(Edit, Layout)>], weigh: &Weigh) -> Vec<Remedy> {
    let mut out = Vec::new();
    for (at, first) in weak.iter().enumerate() {
        for second in weak.iter().skip(at + 1) {
            out.extend(pairs(first, second, weigh).min_by(by_price));
        }
    }
    out
}

fn pairs<'a>(
    first: &'a [(Edit, Layout)],
    second: &'a [(Edit, Layout)],
    weigh: &'a Weigh,
) -> impl Iterator<Item = Remedy> + 'a {
    first.iter().filter_map(move |(a, with)| {
        // The mildest that fits beside it.
        second.iter().filter(|(b, _)| together_allowed(*a, *b)).find_map(|(b, _)| {
            let new = edited(with, *b)?;
            weigh(&[*a, *b], &new)
        })
    })
}

/// The same of three kinds.
fn triples(weak: &[Vec<(Edit, Layout)>], weigh: &Weigh) -> Vec<Remedy> {
    let mut out = Vec::new();
    for (at, first) in weak.iter().enumerate() {
        for (a, _) in first {
            // What the others make of the layout that has the first edit.
            let rest: Vec<Vec<(Edit, Layout)>> = weak
                .iter()
                .skip(at + 1)
                .map(|kind| {
                    let beside = kind.iter().filter(|(b, _)| together_allowed(*a, *b));
                    let base = first.iter().find(|(edit, _)| edit == a).map(|(_, with)| with);
                    beside.filter_map(|(b, _)| Some((*b, edited(base?, *b)?))).collect()
                })
                .collect();
            let with_first = |edits: &[Edit], new: &Layout| {
                let all: Vec<Edit> = std::iter::once(*a).chain(edits.iter().copied()).collect();
                weigh(&all, new)
            };
            out.extend(bundles(&rest, &with_first));
        }
    }
    out
}

/// The kinds of edits added up until the layout fits.
fn together(
    layout: &Layout,
    kinds: &[Vec<Edit>],
    fits: &dyn Fn(&Layout) -> Option<Memory>,
) -> Option<(Vec<Edit>, Layout, Memory)> {
    let apply = |edits: &[Edit]| edits.iter().try_fold(layout.clone(), |so_far, edit| edited(&so_far, *edit));
    let mut chosen: Vec<Edit> = Vec::new();
    for kind in kinds {
        // The strongest of a kind stands last.
        let Some(strongest) = kind.last() else { continue };
        let mut with = chosen.clone();
        with.push(*strongest);
        let Some(new) = apply(&with) else { continue };
        if memory(&new).per_gpu_bytes >= apply(&chosen).map_or(f64::MAX, |old| memory(&old).per_gpu_bytes) {
            continue;
        }
        chosen = with;
        if fits(&new).is_some() {
            break;
        }
    }
    let mut at = 0;
    while at < chosen.len() {
        let mut fewer = chosen.clone();
        fewer.remove(at);
        if apply(&fewer).is_some_and(|new| fits(&new).is_some()) {
            chosen = fewer;
        } else {
            at += 1;
        }
    }
    // Of each kind that stays, the mildest that still fits.
    for at in 0..chosen.len() {
        let kind = kinds.iter().find(|kind| chosen.get(at).is_some_and(|edit| kind.contains(edit)));
        for milder in kind.into_iter().flatten() {
            let mut with = chosen.clone();
            if let Some(slot) = with.get_mut(at) {
                *slot = *milder;
            }
            if apply(&with).is_some_and(|new| fits(&new).is_some()) {
                chosen = with;
                break;
            }
        }
    }
    let new = apply(&chosen)?;
    let after = fits(&new)?;
    Some((chosen, new, after))
}
