//! Legal layouts of a job, searched for the shortest time and the least money.
//!
//! In: a plan and what may vary. Out: candidates with their predicted time and cost, each as values laid over the
//! manifest, and the front of those that no other beats in both. The global batch stays: another batch is another
//! training. Whether a candidate passes every check, only its own compilation says: the caller asks it.

pub mod scaling;

use crate::catalog::{instances, prices};
use crate::ir::{Engine, Plan};
use crate::predict::{Constants, GpuKind, Layout, Recompute, Sharding, predict};

/// What may vary beside micro-batch, accumulation, shard degree and recomputation.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Instance types; the manifest's own where empty.
    pub instances: Vec<String>,
    /// Most nodes.
    pub max_nodes: u64,
    /// Most US dollars for a run.
    pub max_usd: Option<f64>,
    /// Longest run, seconds.
    pub deadline_seconds: Option<f64>,
}

/// A layout, by what it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Paths and values as `--set` takes them.
    pub sets: Vec<(&'static str, String)>,
    /// Instance type.
    pub instance: String,
    /// Nodes.
    pub nodes: u64,
    /// Seconds of a step.
    pub step_seconds: f64,
    /// Seconds of the run's steps and its start.
    pub seconds: f64,
    /// US dollars of the instances, where their price is known.
    pub usd: Option<f64>,
    /// Memory of a GPU, bytes.
    pub memory_bytes: f64,
}

/// Why nothing can be searched: a lowercase fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsearchable(pub &'static str);

/// Every layout of the space that is predicted to fit, within the bounds.
pub fn search(plan: &Plan, space: &Space, constants: &Constants) -> Result<Vec<Candidate>, Unsearchable> {
    let base = Layout::of_plan(plan).map_err(|unknown| Unsearchable(unknown.0))?;
    let mesh = plan.mesh.as_ref().ok_or(Unsearchable("the mesh is not known"))?;
    let steps =
        plan.run.steps.as_ref().ok_or(Unsearchable("how many steps the run has is not known"))?.value as f64;
    let own = plan
        .instance
        .as_ref()
        .map(|row| row.name.clone())
        .ok_or(Unsearchable("only SageMaker's own instance types can be compared"))?;
    if mesh.engine == Engine::DeviceMap {
        return Err(Unsearchable("a device map is laid by the library, over one node"));
    }
    let names = if space.instances.is_empty() { vec![own] } else { space.instances.clone() };
    let mut out = Vec::new();
    for name in &names {
        for nodes in node_counts(space.max_nodes.max(mesh.nodes)) {
            let Some(on) = moved(&base, name, nodes) else { continue };
            let price = price(plan, name);
            for (layout, sets) in variants(plan, &base, &on, mesh.engine) {
                let prediction = predict(&layout, constants);
                let (Some(speed), Some(memory)) = (&prediction.speed, &prediction.memory) else { continue };
                if memory.fits != Some(true) {
                    continue;
                }
                let seconds =
                    constants.get(crate::predict::constants::Name::Startup) + steps * speed.step_seconds;
                let usd = price.map(|price| price * nodes as f64 * seconds / 3_600.0);
                let late = space.deadline_seconds.is_some_and(|deadline| seconds > deadline);
                let dear = space.max_usd.is_some_and(|most| usd.is_none_or(|usd| usd > most));
                if late || dear {
                    continue;
                }
                let mut all = vec![];
                if plan.instance.as_ref().is_some_and(|row| row.name != *name) {
                    all.push(("cluster.instance", name.clone()));
                }
                if nodes != mesh.nodes {
                    all.push(("cluster.nodes", nodes.to_string()));
                }
                all.extend(sets);
                out.push(Candidate {
                    sets: all,
                    instance: name.clone(),
                    nodes,
                    step_seconds: speed.step_seconds,
                    seconds,
                    usd,
                    memory_bytes: memory.per_gpu_bytes,
                });
            }
        }
    }
    Ok(out)
}

/// Places of the candidates that no other beats in both time and money, the fastest first. Of equals the first stays.
pub fn front(candidates: &[Candidate]) -> Vec<usize> {
    // Without a price anywhere node hours stand for money; beside priced ones what has none cannot be compared.
    let priced = candidates.iter().any(|one| one.usd.is_some());
    let cost =
        |one: &Candidate| if priced { one.usd.unwrap_or(f64::MAX) } else { one.seconds * one.nodes as f64 };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let key = |at: &usize| candidates.get(*at).map_or((f64::MAX, f64::MAX), |one| (one.seconds, cost(one)));
    order.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut best = f64::MAX;
    order.retain(|at| {
        let cheaper = key(at).1 < best;
        if cheaper {
            best = key(at).1;
        }
        cheaper
    });
    order
}

/// Powers of two, and the bound itself.
fn node_counts(most: u64) -> Vec<u64> {
    let mut out: Vec<u64> = (0..63).map(|power| 1_u64 << power).take_while(|nodes| *nodes <= most).collect();
    if out.last() != Some(&most) {
        out.push(most);
    }
    out
}

fn price(plan: &Plan, instance: &str) -> Option<f64> {
    if plan.instance.as_ref().is_some_and(|row| row.name == instance) {
        return plan.price.as_ref().map(|price| price.usd_per_hour);
    }
    let region = plan.job.region.value()?;
    prices::newest(instance, region).map(|price| price.usd_per_hour)
}

/// The layout on other machines, its degrees still those of the old.
fn moved(base: &Layout, instance: &str, nodes: u64) -> Option<Layout> {
    let row = instances::get(instance)?;
    let mut layout = base.clone();
    let hardware = &mut layout.hardware;
    hardware.gpu = GpuKind::from_name(&row.accelerator.product);
    hardware.memory_bytes = row.accelerator.memory_bytes.map(|bytes| bytes as f64);
    hardware.peak_flops =
        row.accelerator.peak_fp16_tflops.or(row.accelerator.peak_bf16_tflops).map(|tflops| tflops * 1e12);
    hardware.memory_bytes_per_second = row.accelerator.memory_bandwidth_gb_s.map(|gb| gb * 1e9);
    hardware.gpus_per_node = f64::from(row.accelerators);
    hardware.nodes = nodes as f64;
    hardware.intra_bytes_per_second = row.accelerator.nvlink_gb_s.map(|gb| gb * 1e9);
    hardware.inter_bytes_per_second = row.network_gbps.map(|gbps| gbps * 1e9 / 8.0);
    hardware.host_memory_bytes = row.host_memory_bytes.map(|bytes| bytes as f64);
    hardware.efa = row.efa == Some(true);
    Some(layout)
}

type Variant = (Layout, Vec<(&'static str, String)>);

/// Shard degrees, micro-batches and recomputation on one cluster.
fn variants(plan: &Plan, base: &Layout, on: &Layout, engine: Engine) -> Vec<Variant> {
    let degrees = &base.degrees;
    let data = on.hardware.gpus() / (degrees.tensor * degrees.pipeline);
    if data < 1.0 || data.fract() != 0.0 || degrees.tensor > on.hardware.gpus_per_node {
        return Vec::new();
    }
    let mut out = Vec::new();
    for shard in shards(base, on, engine, data) {
        for (recompute, word) in [(Recompute::None, "#false"), (Recompute::Full, "#true")] {
            for micro in (0..8).map(|power| f64::from(1_u32 << power)).chain([3.0, 6.0, 12.0, 24.0]) {
                let readers = data / degrees.context.max(1.0);
                let passes = base.work.global_sequences / (micro * readers);
                if passes < 1.0 || passes.fract() != 0.0 {
                    continue;
                }
                let mut layout = on.clone();
                layout.degrees.shard = shard;
                layout.degrees.replicas = data / shard;
                layout.work.micro_batch = micro;
                layout.work.passes = passes;
                layout.recompute = recompute;
                if layout.offload.activations && recompute != Recompute::Full {
                    continue;
                }
                let mut sets = Vec::new();
                if layout.work.micro_batch != base.work.micro_batch {
                    sets.push(("train.micro-batch", micro.to_string()));
                }
                // Written, or needed so that the global batch stays.
                let written = plan.job.train.accumulation.val().is_some()
                    || plan.job.train.global_batch.val().is_none();
                if written && passes != base.work.passes {
                    sets.push(("train.accumulation", passes.to_string()));
                }
                if recompute != base.recompute {
                    sets.push(("train.activation-checkpointing", word.to_owned()));
                }
                if shard != base.degrees.shard {
                    match engine {
                        Engine::Smp => sets.push(("parallel.shard-degree", shard.to_string())),
                        Engine::Fsdp if shard < data => {
                            sets.push(("parallel.strategy", "hybrid-shard".to_owned()));
                            sets.push(("parallel.shard-degree", shard.to_string()));
                        }
                        _ => {}
                    }
                }
                out.push((layout, sets));
            }
        }
    }
    out
}

/// Shard degrees that the engine takes on so many data ranks.
fn shards(base: &Layout, on: &Layout, engine: Engine, data: f64) -> Vec<f64> {
    let per_node = on.hardware.gpus_per_node;
    match (engine, base.sharding) {
        (_, Sharding::None) => vec![1.0],
        (Engine::Smp, Sharding::Full) => {
            (0..16).map(|power| per_node * f64::from(1_u32 << power)).filter(|shard| *shard <= data).collect()
        }
        (Engine::Fsdp, Sharding::Full) if data > per_node && base.degrees.shard < base.degrees.data() => {
            vec![per_node, data]
        }
        _ => vec![data],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(seconds: f64, usd: f64) -> Candidate {
        Candidate {
            sets: Vec::new(),
            instance: "ml.p4d.24xlarge".to_owned(),
            nodes: 1,
            step_seconds: seconds,
            seconds,
            usd: Some(usd),
            memory_bytes: 0.0,
        }
    }

    proptest::proptest! {
        #[test]
        fn the_front_is_what_brute_force_finds(points in proptest::collection::vec((1_u32..40, 1_u32..40), 1..60)) {
            let all: Vec<Candidate> =
                points.iter().map(|(seconds, usd)| candidate(f64::from(*seconds), f64::from(*usd))).collect();
            let found: std::collections::BTreeSet<(u32, u32)> =
                front(&all).into_iter().map(|at| points[at]).collect();
            let brute: std::collections::BTreeSet<(u32, u32)> = points
                .iter()
                .copied()
                .filter(|one| {
                    !points.iter().any(|other| {
                        other != one && other.0 <= one.0 && other.1 <= one.1
                    })
                })
                .collect();
            proptest::prop_assert_eq!(found, brute);
        }
    }

    #[test]
    fn nodes_are_powers_of_two_and_the_bound() {
        assert_eq!(node_counts(1), [1]);
        assert_eq!(node_counts(8), [1, 2, 4, 8]);
        assert_eq!(node_counts(12), [1, 2, 4, 8, 12]);
    }
}
