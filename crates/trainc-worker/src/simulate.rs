//! Simulation of a step without training: the sequences that each rank reads, the collectives, and the memory
//! of a rank. It allocates no buffers and starts no ranks, so one machine can simulate any cluster size.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::comm::Kind;
use crate::config::Config;
use crate::data::order::{Order, rank_positions};
use crate::data::tokens::{Documents, Tokens};
use crate::exit::{Code, Failure};
use crate::fsdp::MemoryParts;
use crate::fsdp::schedule::{Operation, Schedule};

/// Returns the number of ranks in a group.
fn members(config: &Config, group: Kind) -> usize {
    match group {
        Kind::World => config.ranks(),
        Kind::Shard => config.mesh.shard_degree,
        Kind::Replica => config.mesh.data_parallel_replicas,
    }
}

fn name(group: Kind) -> &'static str {
    match group {
        Kind::World => "world",
        Kind::Shard => "shard",
        Kind::Replica => "replica",
    }
}

/// Returns the JSON lines of optimizer step `step`, counted from 0: memory, collectives, sequences of each
/// rank, totals.
pub fn step_lines(config: &Config, step: u64) -> Result<Vec<Value>, Failure> {
    if step >= config.schedule.steps as u64 {
        return Err(Failure::new(
            Code::Usage,
            format!(
                "step {step} is out of range: the run has {} steps, counted from 0",
                config.schedule.steps
            ),
        ));
    }
    let bytes = MemoryParts::from_config(config);
    let (ranks, degree) = (config.ranks(), config.mesh.shard_degree);
    let mut out = vec![json!({
        "event": "layout", "job": config.job, "step": step, "ranks": ranks, "shard_degree": degree,
        "data_parallel_replicas": config.mesh.data_parallel_replicas, "micro": config.batch.micro,
        "accumulation": config.batch.accumulation, "bytes_per_rank": bytes, "total_bytes_per_rank": bytes.total(),
    })];
    let data = &config.data;
    // Without the data, only positions in the order of the run are available.
    let train = Tokens::open(
        Path::new(&data.train),
        config.model.sequence_length,
        config.model.vocab_size,
        Documents::from_config(data.document_mask),
    );
    let masked = train.as_ref().is_ok_and(|train| !train.has_no_excluded_labels());
    let order = match &train {
        Ok(train) => Some(Order { sequences: train.sequences(), seed: data.shuffle.then_some(data.seed) }),
        Err(failure) => {
            out.push(
                json!({"event": "note", "note": format!("positions shown instead of sequences: {failure}")}),
            );
            None
        }
    };
    let schedule = Schedule::for_step(config, masked);
    if !schedule.is_balanced() || schedule.most_ahead > 1 + config.memory.prefetch {
        return Err(Failure::new(Code::Bug, "the schedule does not free every gathered unit"));
    }
    let mut sent: BTreeMap<Operation, usize> = BTreeMap::new();
    for call in &schedule.calls {
        let among = members(config, call.group);
        if among == 1 {
            // A group of one rank does not communicate.
            continue;
        }
        let bytes = Schedule::sent(config, call, among);
        *sent.entry(call.operation).or_default() += bytes;
        out.push(json!({
            "event": "collective", "operation": call.operation, "group": name(call.group), "members": among,
            "unit": call.unit.map(|unit| schedule.units[unit].name.clone()), "elements": call.elements,
            "sent_bytes": bytes,
        }));
    }
    let mut seen = vec![false; config.batch.global_sequences];
    for rank in 0..ranks {
        let mut passes = Vec::new();
        for pass in 0..config.batch.accumulation {
            let mut rows = Vec::new();
            for place in rank_positions(&config.batch, ranks, rank, step, pass) {
                let inside = (place - step * config.batch.global_sequences as u64) as usize;
                if seen.get(inside) != Some(&false) {
                    return Err(Failure::new(
                        Code::Bug,
                        format!("position {place} is read twice or outside the step"),
                    ));
                }
                seen[inside] = true;
                rows.push(order.map_or(place, |order| order.sequence_at(place)));
            }
            passes.push(rows);
        }
        let key = if order.is_some() { "sequences" } else { "places" };
        out.push(json!({
            "event": "rank", "rank": rank, "shard": rank % degree, "replica": rank / degree, key: passes,
        }));
    }
    out.push(json!({
        "event": "sums", "sequences": seen.iter().filter(|seen| **seen).count(),
        "sent_bytes_per_rank": sent.values().sum::<usize>(),
        "sent_bytes_per_rank_by_operation": sent, "most_gathers_ahead": schedule.most_ahead,
        "most_whole_elements": schedule.most_whole,
    }));
    Ok(out)
}
