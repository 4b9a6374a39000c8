//! What `tune` says of a job whose time cannot be predicted: what fits, and how to come to a time.

use crate::ir::{Engine, Plan};
use crate::predict::{Constants, Fit, Interval};
use crate::text;
use crate::tune::Space;
use crate::tune::fitting::{Fitting, fitting};

/// The most machines that are shown.
const SHOWN: usize = 8;

/// The layouts that fit, as people read them; empty where none does.
pub(super) fn page(space: &Space, constants: &Constants) -> String {
    let found = fitting(space, constants);
    if found.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "what fits, by memory alone: of each machine the layout that changes least; not held against the checks\n\n",
    );
    for one in found.iter().take(SHOWN) {
        out.push_str(&line(space, one));
    }
    let more = found.len().saturating_sub(SHOWN);
    if more > 0 {
        out.push_str(&format!("  and {more} more, `--max-nodes` and `--instances` choose among them\n"));
    }
    out
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}

fn line(space: &Space, one: &Fitting) -> String {
    let bytes = |n: f64| text::bytes(whole(n));
    let interval = Interval { low: one.memory_bytes, high: one.memory_high_bytes };
    let fit = match Fit::of(one.memory_bytes, interval, one.capacity_bytes) {
        Fit::Surely => "",
        _ => ", may not fit",
    };
    let price = one
        .usd_per_hour
        .map_or_else(|| "price not known".to_owned(), |usd| format!("{} an hour", text::dollars(usd)));
    let as_written = if one.changes == 0 { ", as written" } else { "" };
    format!(
        "  {price}, {} of {} on each GPU{fit}{as_written}\n      {}\n",
        bytes(one.memory_bytes),
        bytes(one.capacity_bytes),
        space.words(&one.choice)
    )
}

/// What can be typed to come to a time.
pub(super) fn help(plan: &Plan, manifest: &str) -> String {
    let is_fp32 = plan.job.train.precision.value().is_none_or(|precision| precision == "fp32");
    let worker = plan.mesh.as_ref().is_some_and(|mesh| mesh.engine == Engine::Worker);
    match (worker, is_fp32) {
        (true, _) => format!(
            "help: `trainc init --example llama-7b-fsdp DIR` writes a job of engine `fsdp`, which is ranked; what a run of this one took, `trainc report {manifest}` tells\n"
        ),
        (false, true) => format!(
            "help: `trainc tune {manifest} --set train.precision=fp16` ranks it in 16-bit arithmetic, of which runs were measured; so does `bf16` where the GPU has it\n"
        ),
        (false, false) => String::new(),
    }
}
