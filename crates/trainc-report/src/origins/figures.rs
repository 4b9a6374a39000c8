//! Origins of the predicted figures: the constants that each depends on, and the source of each constant.

use super::OriginTable;
use crate::Subject;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_predict::layout::System;
use trainc_predict::run::Around;
use trainc_predict::sensitivity::{self, Figure, Sensitivity};
use trainc_predict::{Basis, Constants, Input, Interval, Layout, Memory, PartInterval, Prediction, Speed};

/// The origin of the interval of the worker's memory on CPUs.
const OF_WORKER: &str = "±8 %, the tested accuracy of the worker's own memory accounting";

/// Adds a row for each figure and for each constant that it depends on.
pub(super) fn figures(table: &mut OriginTable, subject: &Subject, plan: &Plan) {
    let Prediction { memory, speed, run, .. } = subject.prediction;
    let found = sensitivity::sensitivities(plan, subject.constants);
    let by = |figure: Figure, rest: &str| {
        // Every constant of the step also affects its interval: only the interval's own constants are listed.
        let listed: &[&str] = match figure {
            Figure::StepInterval | Figure::RunInterval => &["interval"],
            Figure::HostInterval => {
                &["host.process_low", "host.process_high", "memory.below", "memory.above"]
            }
            Figure::SavingInterval => &["memory.below", "memory.above"],
            _ => &[""],
        };
        let is_listed = |one: &&Sensitivity| listed.iter().any(|words| one.key.contains(words));
        let moved = found.iter().filter(|one| one.moves.contains(&figure)).filter(is_listed);
        let keys: Vec<&str> = moved.map(|one| one.key.as_str()).collect();
        if keys.is_empty() {
            rest.to_owned()
        } else {
            format!("{rest}; constants: {}", text::list(&keys, "and"))
        }
    };
    let bytes = |n: f64| text::bytes(trainc_predict::round_to_u64(n));
    let layout = Layout::from_plan(plan).ok();
    let worker = layout.filter(|it| it.system == System::Worker);
    let on_cores = worker.as_ref().is_some_and(|it| it.worker.cpu);
    table.set_prefix("predicted");
    if let Some(memory) = memory {
        let layout = "computed from weights, optimizer states, and saved activations";
        table.push("memory.per-gpu", bytes(memory.per_gpu_bytes), by(Figure::Memory, layout));
        let between = format!("{} to {}", bytes(memory.interval.low), bytes(memory.interval.high));
        let why = if worker.is_some() {
            "the errors of other engines' measured peaks: no run of this engine on a GPU was measured"
        } else {
            "95 % of measured peaks are below the upper bound"
        };
        let why = if on_cores { OF_WORKER.to_owned() } else { by(Figure::MemoryInterval, why) };
        table.push("memory.interval", between, why);
        memory_parts(
            table,
            memory,
            &by(Figure::MemoryInterval, "the errors of peak memory, divided over the estimated parts"),
        );
        let between = |ends: Interval| format!("{} to {}", bytes(ends.low), bytes(ends.high));
        if let (Some(host), Some(ends)) = (memory.host_bytes, memory.host_interval) {
            let what = "its processes, offloaded memory, and the copy of a checkpoint being saved";
            table.push("memory.host", bytes(host), by(Figure::Host, what));
            let why = "bounds of each of these: no run in data/runs.csv measured host memory";
            let why = if on_cores { OF_WORKER.to_owned() } else { by(Figure::HostInterval, why) };
            table.push("memory.host.interval", between(ends), why);
        }
        if let (Some(peak), Some(ends)) = (memory.peak_checkpoint_bytes, memory.peak_checkpoint_interval) {
            let what = "weights, gradients, optimizer states, and what is gathered to save them";
            table.push("memory.peak-checkpoint", bytes(peak), by(Figure::Saving, what));
            let why = "errors of peak memory in a step: no run in data/runs.csv measured a save";
            let why = if on_cores { OF_WORKER.to_owned() } else { by(Figure::SavingInterval, why) };
            table.push("memory.peak-checkpoint.interval", between(ends), why);
        }
    }
    if let Some(speed) = speed {
        let seconds = |n: f64| format!("{} s", text::short_number(n));
        let layout = "computed from FLOPs and bytes, GPU peak and bandwidth, and link bandwidths";
        table.push("speed.step", seconds(speed.step_seconds), by(Figure::Step, layout));
        let between = format!("{} to {}", seconds(speed.interval.low), seconds(speed.interval.high));
        let contains = if worker.is_some() {
            "the errors of other engines' measured runs, widened: no run of this engine on a GPU was measured"
        } else {
            "contains 90 % of measured runs"
        };
        table.push("speed.interval", between, by(Figure::StepInterval, contains));
        let why = "the relative error of a step, larger for waiting than for computing";
        step_parts(table, speed, &by(Figure::StepInterval, why));
        match Input::from_plan(plan) {
            Ok(input) => table.push(
                "speed.input",
                format!("{}/s", bytes(input.bytes_per_second)),
                format!(
                    "throughput and capacity of the file system (`trainc catalog fsx`), {} per \
                        sequence by `dataset`",
                    bytes(input.sequence_bytes)
                ),
            ),
            Err(why) => table.push("speed.input", "?", why.0),
        }
    }
    if let Some(run) = run {
        let around = run.parts.startup_seconds() + run.parts.checkpoints;
        let what = match run.parts.download {
            Some(_) => "start, data download and checkpoints in addition to the steps",
            None => "start and checkpoints in addition to the steps, excluding the download",
        };
        let why = by(Figure::Run, what);
        table.push("run.start-and-checkpoints", text::rounded_duration(around), why);
        let ends = Around::from_constants(subject.constants).interval_around(around);
        let why = by(Figure::RunInterval, "bounds: no run in data/runs.csv measured it");
        table.push(
            "run.start-and-checkpoints.interval",
            format!("{} to {}", text::rounded_duration(ends.low), text::rounded_duration(ends.high)),
            why,
        );
    }
    table.set_prefix("constant");
    for Sensitivity { key, value, .. } in &found {
        table.push(
            key,
            Constants::figure(*value),
            sensitivity::describe_constant_source(subject.constants, key),
        );
    }
}

/// Formats a figure with its interval: `9.1 GiB (8.7 to 10.2 GiB)`; without it if the bounds are equal.
fn format_with_interval(figure: String, [low, high]: [String; 2]) -> String {
    if low == high { figure } else { format!("{figure} ({low} to {high})") }
}

/// Adds a row for each part of a GPU's memory above zero; `shared` is the origin of the estimated parts.
fn memory_parts(table: &mut OriginTable, memory: &Memory, shared: &str) {
    let (parts, ends) = (&memory.parts, &memory.part_intervals);
    let all = [
        ("parameters", parts.parameters, ends.parameters),
        ("gradients", parts.gradients, ends.gradients),
        ("optimizer", parts.optimizer, ends.optimizer),
        ("activations", parts.activations, ends.activations),
        ("gathered", parts.gathered, ends.gathered),
        ("logits", parts.logits, ends.logits),
        ("buffers", parts.buffers, ends.buffers),
        ("reserve", parts.reserve, ends.reserve),
    ];
    for (name, bytes, PartInterval { interval, basis }) in all {
        if bytes <= 0.0 {
            continue;
        }
        let say = |n: f64| text::bytes(trainc_predict::round_to_u64(n));
        let why = match basis {
            Basis::Counted => "counted: numbers of a known width, divided over the ranks that share them",
            Basis::Residuals => shared,
            Basis::Account => OF_WORKER,
        };
        let value = format_with_interval(say(bytes), [interval.low, interval.high].map(say));
        table.push(&format!("memory.parts.{name}"), value, why);
    }
}

/// Adds a row for each part of a step and each collective above zero.
fn step_parts(table: &mut OriginTable, speed: &Speed, why: &str) {
    let (parts, ends) = (&speed.parts, speed.part_intervals());
    let (links, over) = (&speed.communication, speed.communication_intervals());
    let all = [
        ("parts.compute", parts.compute, ends.compute),
        ("parts.exposed-communication", parts.exposed_communication, ends.exposed_communication),
        ("parts.bubble", parts.bubble, ends.bubble),
        ("parts.offload", parts.offload, ends.offload),
        ("parts.optimizer", parts.optimizer, ends.optimizer),
        ("parts.input", parts.input.unwrap_or(0.0), ends.input.unwrap_or_default()),
        ("communication.tensor", links.tensor, over.tensor),
        ("communication.pipeline", links.pipeline, over.pipeline),
        ("communication.experts", links.experts, over.experts),
        ("communication.context", links.context, over.context),
        ("communication.gather", links.gather, over.gather),
        ("communication.replicas", links.replicas, over.replicas),
        ("communication.gradients", links.gradients, over.gradients),
    ];
    for (name, seconds, Interval { low, high }) in all {
        // The lower bound of waiting for data may be zero.
        if high > 0.0 {
            let small = seconds < 1.0;
            let say = |n: f64| {
                if small {
                    format!("{} ms", text::short_number(1e3 * n))
                } else {
                    format!("{} s", text::short_number(n))
                }
            };
            table.push(
                &format!("speed.{name}"),
                format_with_interval(say(seconds), [low, high].map(say)),
                why,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::all_rows;
    use crate::samples::{FALCON, LLAMA, sample};
    use trainc_predict::Constants;

    fn why<'a>(rows: &'a [super::super::OriginRow], path: &str) -> Option<&'a str> {
        rows.iter().find(|row| row.path == path).map(|row| row.why.as_str())
    }

    #[test]
    fn a_figure_lists_its_constants_and_each_its_source() {
        let sample = sample(LLAMA, &[]);
        let (subject, plan) = (sample.subject(), sample.compiled.plan.as_deref().unwrap());
        let rows = all_rows(&subject, plan);
        let step = why(&rows, "predicted.speed.step").unwrap();
        assert!(step.contains("gpu.A100.gemm") && step.contains("links.fabric"), "{step}");
        // Constants of other GPUs and of unused features are not listed.
        assert!(!step.contains("H100") && !step.contains("links.pipeline"), "{step}");
        let interval = why(&rows, "predicted.speed.interval").unwrap();
        for constant in ["interval.near", "interval.waiting", "interval.distance", "interval.above"] {
            assert!(interval.contains(constant), "{interval}");
        }
        // So do the parts, except the counted ones.
        assert!(why(&rows, "predicted.memory.parts.optimizer").unwrap().starts_with("counted"));
        let activations = rows.iter().find(|row| row.path == "predicted.memory.parts.activations").unwrap();
        assert!(
            activations.value.contains(" to ") && activations.why.starts_with("the errors of peak memory"),
            "{activations:?}"
        );
        assert!(why(&rows, "predicted.speed.parts.compute").unwrap().contains("interval.near"));
        let gemm = why(&rows, "constant.gpu.A100.gemm").unwrap();
        assert!(
            gemm.starts_with("fitted 20") && gemm.ends_with("runs on this card in data/runs.csv"),
            "{gemm}"
        );
        assert!(why(&rows, "constant.run.startup_seconds").unwrap().starts_with("rule of thumb"));
        assert!(why(&rows, "constant.gpu.H100.gemm").is_none());
    }

    #[test]
    fn a_calibration_file_is_the_source_of_its_constants() {
        let text = Constants::shipped().to_toml();
        let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("near = ")).collect();
        let text = without.join("\n");
        let mut own = Constants::parse(&text).unwrap();
        *own.value_mut("gpu.A10G.gemm").unwrap() = 0.61;
        *own.value_mut("interval.unknown").unwrap() = 0.2;
        (own.file, own.fitted, own.command) =
            (Some("my.toml".to_owned()), "2026-11-22".to_owned(), "trainc calibrate my.csv".to_owned());
        let sample = sample(FALCON, &[]);
        let (mut subject, plan) = (sample.subject(), sample.compiled.plan.as_deref().unwrap());
        subject.constants = &own;
        let rows = all_rows(&subject, plan);
        let of_file = "calibration `my.toml`, fitted 2026-11-22 by `trainc calibrate my.csv`";
        assert_eq!(why(&rows, "constant.gpu.A10G.gemm"), Some(of_file));
        assert_eq!(why(&rows, "constant.interval.unknown"), Some(of_file));
        let carried = "carried over from similar cards: data/runs.csv has no run on this one";
        assert_eq!(why(&rows, "constant.gpu.A10G.flash"), Some(carried));
        let older = trainc_predict::sensitivity::describe_constant_source(&own, "interval.near");
        assert!(older.starts_with("`my.toml` lacks this constant: fitted 20"), "{older}");
    }
}
