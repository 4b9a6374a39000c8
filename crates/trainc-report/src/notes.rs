//! The notes of plan.json: why a value is null (`null_reasons`), as `path: reason`, and the limits of the
//! prediction.

use super::json::{Document, Evidence};
use super::null_reasons::Nulls;
use serde_json::Value;
use trainc_diag::text;
use trainc_ir::mesh::LISTED_RANKS;
use trainc_ir::{Axis, Plan};
use trainc_predict::bills::unpriced_file_systems;
use trainc_predict::layout::{Offload, System};
use trainc_predict::narrowing::{Measurement, Narrowing, STEPS, narrowing};
use trainc_predict::{
    Constants, Extrapolation, FEWEST_RUNS, FarRun, Interval, LargerCount, Layout, Prediction,
};

/// Members whose nulls need no note: a problem may have no help.
pub(super) const WITHOUT_NOTE: [&str; 2] = ["problems", "choices"];

/// Returns a note for every null, in the order of the document, and the notes on the prediction.
pub(super) fn notes(
    document: &Document,
    plan: Option<&Plan>,
    prediction: &Prediction,
    constants: &Constants,
) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let Ok(Value::Object(members)) = serde_json::to_value(document) else { return out };
    let errors = document.problems.iter().any(|problem| problem.severity == trainc_diag::Severity::Error);
    for (name, value) in &members {
        if !WITHOUT_NOTE.contains(&name.as_str()) {
            find_nulls(name, value, &mut |path| {
                let (path, reason) = Nulls { plan, prediction, errors }.describe(path);
                let note = format!("{path}: {reason}");
                if !out.contains(&note) {
                    out.push(note);
                }
            });
        }
    }
    if !document.choices.is_empty() {
        out.push("choices: a value that is null is explained at the same member of the plan".to_owned());
    }
    out.extend(memory_bounds(plan, prediction));
    out.extend(match &document.evidence {
        Some(evidence) if prediction.finished_runs.is_some() => Some(format!(
            "run.seconds: the time of {} in `{}`{}",
            text::count(evidence.same as u64, "finished run"),
            evidence.file,
            newest(evidence)
        )),
        Some(evidence) => Some(format!("speed.interval: from {}", describe_evidence(evidence))),
        None => prediction.speed.as_ref().and_then(|speed| extrapolation(&speed.extrapolation)),
    });
    out.extend(
        plan.filter(|_| prediction.speed.is_some())
            .and_then(|plan| narrowing(plan, constants))
            .map(|found| describe_narrowing(&found)),
    );
    let evaluates = plan.is_some_and(|plan| plan.job.train.evaluate.is_some());
    if evaluates && document.run.parts.evaluation.flatten() == Some(0.0) {
        let why = if plan.is_some_and(Plan::is_worker) {
            "none, since there is no channel `validation` to evaluate on, or the run ends before"
        } else {
            "none, since the run ends before the first"
        };
        out.push(format!("run.parts.evaluation: {why}"));
    }
    if let (Some(_), None) = (document.run.cost_usd, document.run.cost_parts.volumes) {
        out.push("run.cost_usd: excludes the storage volumes, whose price is not known".to_owned());
    }
    if let Some(plan) = plan.filter(|_| document.run.most_usd.is_some()) {
        let systems = unpriced_file_systems(plan);
        if !systems.is_empty() {
            out.push(format!(
                "run.most_usd: excludes {}, whose price is not known",
                text::backtick_list(&systems, "and")
            ));
        }
    }
    for name in plan.into_iter().flat_map(trainc_predict::unmodelled_options) {
        out.push(format!("parallel.{name}: not modelled in memory and time"));
    }
    let others = other_work(plan, false);
    if prediction.speed.is_some() && !others.is_empty() {
        out.push(format!("speed: of the training alone, without {}", text::list(&others, "and")));
    }
    if prediction.speed.is_some() {
        let taken = plan.into_iter().flat_map(trainc_predict::approximated_settings);
        out.extend(taken.map(|(member, words)| format!("{member}: {words}")));
    }
    if let Some(mesh) = plan.and_then(|plan| plan.mesh.as_ref())
        && mesh.world_size > LISTED_RANKS
        && Axis::ALL.iter().any(|axis| mesh.degree(*axis) > 1)
    {
        out.push(format!("groups: not listed for more than {LISTED_RANKS} ranks"));
    }
    out
}

/// Returns notes on memory intervals that are bounds, since no measured run covers them.
fn memory_bounds(plan: Option<&Plan>, prediction: &Prediction) -> Vec<String> {
    let layout = plan.and_then(|plan| Layout::from_plan(plan).ok());
    // Memory of ranks on CPUs is computed by the worker itself.
    let on_cards = layout.filter(|it| !(it.system == System::Worker && it.worker.cpu));
    let (Some(layout), Some(memory)) = (on_cards, &prediction.memory) else { return Vec::new() };
    let gib = |interval: Interval| {
        let [low, high] =
            [interval.low, interval.high].map(|end| text::bytes(trainc_predict::round_to_u64(end)));
        format!("{low} to {high}")
    };
    let worker = (layout.system == System::Worker).then(|| {
        format!(
            "memory.interval: {}, with the errors of other engines' measured peaks, since no run \
                of engine `worker` on a GPU was measured; memory.parts.buffers is an estimate for the CUDA \
                context, workspaces and NCCL",
            gib(memory.interval)
        )
    });
    let host = memory.host_interval.map(|interval| {
        let moved = match &layout.offload {
            offload if offload.paged => ", with and without paged memory",
            offload if *offload != Offload::default() => {
                ", offloaded bytes with the errors of peak GPU memory"
            }
            _ => "",
        };
        format!(
            "memory.host_bytes_interval: {}, from bounds, since no run in the table measured \
                host memory: each process between its observed minimum and maximum{moved}, with and without \
                the copy of a checkpoint; excludes memory of the program and its data loader",
            gib(interval)
        )
    });
    let saving = memory.peak_checkpoint_interval.map(|interval| {
        format!(
            "memory.peak_checkpoint_bytes_interval: {}, with the errors of peak GPU memory, \
                since no run in the table measured a GPU while saving a checkpoint; the lower bound gathers \
                nothing for it",
            gib(interval)
        )
    });
    worker.into_iter().chain(host).chain(saving).collect()
}

/// Describes the measured runs behind a prediction: `1 run of this layout and 3 of others in ….csv`.
fn describe_evidence(evidence: &Evidence) -> String {
    let same = (evidence.same > 0)
        .then(|| format!("{} of this layout", text::count(evidence.same as u64, "measured run")));
    let near = (evidence.near > 0).then(|| match same {
        None => format!("{} of similar layouts", text::count(evidence.near as u64, "measured run")),
        Some(_) => format!("{} of similar ones", evidence.near),
    });
    let parts: Vec<String> = same.into_iter().chain(near).collect();
    format!("{} in `{}`{}", text::list(&parts, "and"), evidence.file, newest(evidence))
}

/// Describes what would narrow the interval of the step time most.
fn describe_narrowing(narrowing: &Narrowing) -> String {
    let [low, high] = [narrowing.interval.low, narrowing.interval.high].map(text::short_number);
    let after = match narrowing.by {
        Measurement::Steps { nodes } => {
            format!(
                "{STEPS} measured steps on {} (`trainc report --csv`)",
                text::count(trainc_predict::round_to_u64(nodes), "node")
            )
        }
        Measurement::Probe => "a `probe` of the cluster".to_owned(),
    };
    format!("speed.interval: would be {low} to {high} s after {after}")
}

fn newest(evidence: &Evidence) -> String {
    evidence.newest.as_ref().map_or_else(String::new, |date| format!(" (newest {date})"))
}

/// Returns why the interval of the step time is wider than for layouts like the measured ones.
fn extrapolation(beyond: &Extrapolation) -> Option<String> {
    let part = |past: Option<LargerCount>, noun: &str| {
        let past = past?;
        let [here, measured] =
            [past.here, past.measured].map(|n| text::group_digits(trainc_predict::round_to_u64(n)));
        Some(format!("{here} {noun} exceed the {measured} of the largest measured run"))
    };
    let mut parts: Vec<String> =
        [part(beyond.gpus, "GPUs"), part(beyond.parameters, "parameters")].into_iter().flatten().collect();
    let new = beyond.gpu.map(|new| {
        let fitted = if new.runs < 1.0 { "was not fitted to runs" } else { "was fitted to too few runs" };
        format!("the cost model {fitted} on {}s", new.gpu.as_str())
    });
    parts.extend(new);
    parts.extend(beyond.far.and_then(|far| describe_far_run(&far)));
    if beyond.engine > 0.0 {
        parts.push("no run of this engine was measured".to_owned());
    }
    if beyond.uneven_experts > 0.0 {
        let above = 100.0 * trainc_predict::EXPERT_OVERLOAD;
        parts.push(format!(
            "the router may send the fullest rank up to {above:.0} % more tokens than the mean"
        ));
    }
    let own = beyond.gpu.map_or(0.0, |new| new.wider);
    let percent = 100.0 * (own + beyond.extra_half_width()).exp_m1();
    let measured = beyond.measured.map(|measured| {
        let runs = text::count(trainc_predict::round_to_u64(measured.runs), "run");
        format!("speed.interval: held-out errors, with {runs} of {}", measured.setting.describe())
    });
    match (parts.is_empty(), measured) {
        (true, measured) => measured,
        (false, None) => Some(format!("speed.interval: widened by {percent:.0} %: {}", parts.join(", and "))),
        (false, Some(measured)) => {
            Some(format!("{measured}, widened by {percent:.0} %: {}", parts.join(", and ")))
        }
    }
}

/// Returns how the nearest measured run differs; `None` if it hardly does.
fn describe_far_run(far: &FarRun) -> Option<String> {
    let differences = far.differences();
    let like = || format!(" (the most similar run differs in {})", text::list(&differences, "and"));
    if far.runs < FEWEST_RUNS {
        let fitted = if far.runs < 1.0 { "was not fitted to runs" } else { "was fitted to only one run" };
        let nearest = if differences.is_empty() { String::new() } else { like() };
        return Some(format!("the cost model {fitted} of {}{nearest}", far.setting.describe()));
    }
    let list = || format!("the most similar measured run differs in {}", text::list(&differences, "and"));
    (!differences.is_empty()).then(list)
}

fn find_nulls(path: &str, value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Null => found(path),
        Value::Object(members) => {
            for (name, value) in members {
                find_nulls(&format!("{path}.{name}"), value, found);
            }
        }
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the work of the program that memory, or time, of the plan does not have.
pub(super) fn other_work(plan: Option<&Plan>, takes_memory: bool) -> Vec<&str> {
    let all = plan.into_iter().flat_map(|plan| &plan.unmodelled);
    let takes =
        |work: &&trainc_ir::Unmodelled| if takes_memory { work.takes_memory } else { work.takes_time };
    all.filter(takes).map(|work| work.what.as_str()).collect()
}
