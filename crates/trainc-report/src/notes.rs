//! The notes of plan.json: why a value is null, as `path: reason`, and the limits of the prediction.

use super::cost;
use super::json::{Document, Evidence};
use serde_json::Value;
use trainc_diag::text;
use trainc_ir::mesh::LISTED_RANKS;
use trainc_ir::{Axis, Plan};
use trainc_plan::plan::minimum_nodes;
use trainc_predict::bills::unpriced_file_systems;
use trainc_predict::layout::{Offload, System};
use trainc_predict::narrowing::{Measurement, Narrowing, STEPS, narrowing};
use trainc_predict::{
    Constants, Extrapolation, FEWEST_RUNS, FarRun, Input, Interval, LargerCount, Layout, Prediction, Unknown,
};

/// Members whose nulls need no note: a problem may have no help.
const WITHOUT_NOTE: [&str; 2] = ["problems", "choices"];

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
                let (path, reason) = reason(path, plan, prediction, errors);
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

/// Returns the member that a note is on, which may be a parent, and the reason.
fn reason<'a>(
    path: &'a str,
    plan: Option<&Plan>,
    prediction: &Prediction,
    errors: bool,
) -> (&'a str, String) {
    let broken = "not computed, because of the errors".to_owned();
    let is_script = plan.and_then(|plan| plan.mesh.as_ref()).is_some_and(|mesh| mesh.law.is_script());
    let say = |text: &str| (path, text.to_owned());
    match figure_of_interval(path, prediction) {
        "memory.capacity_bytes" if plan.is_some_and(|plan| plan.machine.is_some()) => {
            say("the memory of this accelerator is not in the catalogue, or the instance has none")
        }
        "memory.capacity_bytes" => (path, broken),
        "memory.fits" if prediction.memory.is_some() && !other_work(plan, true).is_empty() => {
            (path, format!("not predicted: {}", text::list(&other_work(plan, true), "and")))
        }
        "memory.host_bytes" | "memory.peak_checkpoint_bytes" | "memory.fits"
            if prediction.memory.is_some() =>
        {
            say("not known for this machine")
        }
        _ if path.starts_with("memory.") => ("memory", reason_or(prediction.no_memory, broken)),
        "speed.parts.input" | "speed.parts_interval.input" if prediction.speed.is_some() => {
            let missing = plan.and_then(|plan| Input::from_plan(plan).err());
            say(missing.map_or("the data loader is assumed to keep up", |unknown| unknown.0))
        }
        _ if path == "speed" || path.starts_with("speed.") => {
            ("speed", reason_or(prediction.no_speed, broken))
        }
        "run.checkpoint" if prediction.run.is_some() => say("`checkpoint` is not set"),
        "run.checkpoint.best_interval_seconds" | "run.checkpoint.best_interval_seconds_interval" => {
            say("the failure rate of nodes is not set; write `node-mtbf`, or `spot` with \
                `interruptions-per-hour`")
        }
        "run.spot" if is_interruption_rate_too_high(plan, prediction) => {
            say("at this interruption rate the run would take more than a year")
        }
        _ if path.starts_with("run.cost") && is_interruption_rate_too_high(plan, prediction) => {
            say("depends on the expected time, which is unbounded at this interruption rate")
        }
        "run.spot.expected_seconds_interval"
        | "run.spot.p90_seconds_interval"
        | "run.spot.interruptions_interval" => {
            say("at the upper bound of the run time the run would never finish at this interruption rate")
        }
        "run.spot.expected_usd_interval" | "run.spot.p90_usd_interval" | "run.cost_usd_interval"
            if prediction.run.as_ref().is_some_and(|run| run.spot.is_some()) =>
        {
            say("depends on the interval of the expected time and on the price, one of which is not known")
        }
        "run.seconds" | "run.interval" | "run.parts.interruptions"
            if is_interruption_rate_too_high(plan, prediction) =>
        {
            say("at this interruption rate the run would take more than a year")
        }
        "run.interval" if prediction.run.is_some() => {
            say("at the upper bound of step time the run would never finish at this interruption rate")
        }
        "run.parts.interruptions" if prediction.run.is_some() => {
            say("the failure rate of nodes is not set (`node-mtbf`, or `interruptions-per-hour` of \
                `spot`): no interruptions are assumed")
        }
        "run.parts.evaluation" if prediction.run.is_some() => {
            say("neither `sequences` nor `tokens` of `dataset` is set: `run.seconds` and the cost exclude \
                the evaluations and are lower bounds")
        }
        "run.parts.download" if prediction.run.is_some() => {
            say("a channel is downloaded before the start, and the size of `dataset` is not set: \
                `run.seconds` and the cost exclude the download and are lower bounds")
        }
        "run.spot" if prediction.run.is_some() => {
            say("neither `node-mtbf` nor `spot` with `interruptions-per-hour` is set")
        }
        "run.seconds" | "run.interval" | "run.checkpoint" | "run.spot" => {
            (path, reason_or(prediction.no_run, broken))
        }
        _ if path.starts_with("run.parts_interval") => {
            ("run.parts_interval", reason_or(prediction.no_run, broken))
        }
        _ if path.starts_with("run.parts") => ("run.parts", reason_or(prediction.no_run, broken)),
        "run.cost_usd" | "run.cost_parts.instances" | "run.spot.expected_usd" | "run.spot.p90_usd"
            if prediction.run.is_some() =>
        {
            if let Some(least) = format_least_cost(prediction) {
                let systems = plan.map(unpriced_file_systems).unwrap_or_default();
                let systems = if systems.is_empty() {
                    "a file system".to_owned()
                } else {
                    text::backtick_list(&systems, "and")
                };
                return say(&format!("at least {least}: the price of {systems} in this region is not known"));
            }
            let unpriced = plan.filter(|plan| has_groups(plan)).and_then(describe_unpriced_type);
            if let Some(unpriced) = unpriced {
                return say(&(describe_known_part(prediction) + &unpriced));
            }
            say(if plan.is_some_and(|plan| plan.price().is_none() && !has_groups(plan)) {
                "the catalogue has no price of this instance type in this region; set it with `--price`"
            } else {
                "spot prices are not known; set `--discount`"
            })
        }
        "run.cost_parts.volumes" | "run.cost_parts.file_systems" if prediction.run.is_some() => {
            say("the catalogue has no price for it in this region, or its size is not known")
        }
        "run.cost_usd" => {
            say("depends on the run time, which is not known; `run.most_usd` is the upper bound by max-run")
        }
        _ if path.starts_with("run.cost_parts_interval") => {
            ("run.cost_parts_interval", "depends on the run time, which is not known".to_owned())
        }
        _ if path.starts_with("run.cost_parts") => {
            ("run.cost_parts", "depends on the run time, which is not known".to_owned())
        }
        "account" => say("not set; `${account}` is its placeholder"),
        "digest" | "training_job_name" => say("not assigned to a plan with errors"),
        "price" if plan.is_some_and(has_groups) => {
            say("each instance group has its own price: `group_prices`")
        }
        "cluster.instance" if plan.is_some_and(has_groups) => say("each instance group has its own type"),
        _ if errors => (path, broken),
        "run.most_usd" | "run.price_source" if plan.is_some_and(has_groups) => {
            match plan.and_then(describe_unpriced_type) {
                Some(unpriced) => say(&(plan.map(describe_known_most).unwrap_or_default() + &unpriced)),
                None => say("the number of instances of a group, or `max-run`, is not known"),
            }
        }
        "run.most_usd" if plan.is_some_and(|plan| plan.price().is_some()) => {
            // The first type has a price.
            let unpriced = plan.and_then(describe_unpriced_preference);
            say(&unpriced.unwrap_or_else(|| "`max-run` is not known".to_owned()))
        }
        "price" | "run.most_usd" | "run.price_source" => {
            say("the catalogue has no price of this instance type in this region; set it with `--price`")
        }
        "mesh.minimum_nodes" | "mesh.recommended_nodes" => {
            say(&plan.map_or_else(|| "no plan".to_owned(), minimum_nodes::why_not_applicable))
        }
        "mesh" => say("`parallel` or `cluster` is not set"),
        "run.steps" | "run.tokens" | "batch" | "batch.global_tokens" => say("`train` does not determine it"),
        "image" => say("`image` is not set"),
        _ if path.starts_with("image.") => {
            say("the versions in the image are not known, or it does not contain this library")
        }
        "source" => say("the program has no local source directory, or it does not exist"),
        _ if path.starts_with("model.") => say("requires the dimensions of the model"),
        "model" => say("`model` is not set"),
        "cluster.gpu.name" | "cluster.gpu.memory_bytes" => say("no GPU of the catalogue"),
        "region" => say("not set"),
        _ if is_script => say("decided by the script"),
        _ => say("not set"),
    }
}

/// Returns whether the cluster has instance groups.
fn has_groups(plan: &Plan) -> bool {
    plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty())
}

/// Names the first instance type of the plan without a price.
fn describe_unpriced_type(plan: &Plan) -> Option<String> {
    let names = plan.unpriced_instance_types();
    names.first().map(|name| format!("no price of `{name}` in this region; set it with `--price`"))
}

/// Names the first preferred instance type without a price.
fn describe_unpriced_preference(plan: &Plan) -> Option<String> {
    let all = plan.fleet.alternatives()?;
    let name = all.iter().find_map(|one| one.unpriced_types().first().copied())?;
    Some(format!("no price of `{name}` in this region; set it with `--price`"))
}

/// Describes the known part of the cost of a run, `at least $24,241: `, if there is one.
fn describe_known_part(prediction: &Prediction) -> String {
    let known = prediction.run.as_ref().map_or(0.0, |run| run.cost_parts.known_usd());
    if known > 0.0 { format!("at least {}: ", text::dollars(known)) } else { String::new() }
}

/// Describes the known part of the cost until `max-run`, if there is one.
fn describe_known_most(plan: &Plan) -> String {
    let known = cost::max_run_cost(plan).map_or(0.0, |cost| cost.known_usd());
    if known > 0.0 { format!("at least {}: ", text::dollars(known)) } else { String::new() }
}

/// Maps an interval to the figure whose reason it shares: the interval of an unknown part is unknown, and if
/// the interval of the run is unbounded, so are those of its parts.
fn figure_of_interval<'a>(path: &'a str, prediction: &Prediction) -> &'a str {
    let Some(run) = &prediction.run else {
        return if path == "run.cost_usd_interval" { "run.cost_usd" } else { path };
    };
    match path {
        "run.cost_usd_interval" if run.cost_usd.is_none() => "run.cost_usd",
        "run.parts_interval.download" => "run.parts.download",
        "run.parts_interval.evaluation" => "run.parts.evaluation",
        "run.parts_interval.interruptions" if run.spot.is_none() => "run.parts.interruptions",
        "run.parts_interval.interruptions" => "run.interval",
        "run.cost_parts_interval.instances" if !run.cost_parts.instances.is_complete => {
            "run.cost_parts.instances"
        }
        "run.cost_parts_interval.volumes" if !run.cost_parts.volumes.is_complete => "run.cost_parts.volumes",
        "run.cost_parts_interval.file_systems" if !run.cost_parts.file_systems.is_complete => {
            "run.cost_parts.file_systems"
        }
        _ if path.starts_with("run.cost_parts_interval.") => "run.cost_usd_interval",
        _ => path,
    }
}

/// Returns the cost of a run, with its interval, without the file systems whose price is not known.
fn format_least_cost(prediction: &Prediction) -> Option<String> {
    let run = prediction.run.as_ref()?;
    let interval = run.least_cost_interval()?;
    let [usd, low, high] = [run.least_usd?, interval.low, interval.high].map(text::dollars);
    Some(if run.spot.is_some() { usd } else { format!("{usd} ({low} to {high})") })
}

/// Returns whether no run of this length would finish at the interruption rate of the manifest.
fn is_interruption_rate_too_high(plan: Option<&Plan>, prediction: &Prediction) -> bool {
    let cluster = plan.and_then(|plan| plan.job.cluster.as_ref());
    cluster.is_some_and(|cluster| cluster.node_losses_per_hour().is_some())
        && prediction.run.as_ref().is_some_and(|run| run.spot.is_none())
}

/// Returns the work of the program that memory, or time, of the plan does not have.
fn other_work(plan: Option<&Plan>, takes_memory: bool) -> Vec<&str> {
    let all = plan.into_iter().flat_map(|plan| &plan.unmodelled);
    let takes =
        |work: &&trainc_ir::Unmodelled| if takes_memory { work.takes_memory } else { work.takes_time };
    all.filter(takes).map(|work| work.what.as_str()).collect()
}

fn reason_or(unknown: Option<Unknown>, otherwise: String) -> String {
    unknown.map_or(otherwise, |unknown| unknown.0.to_owned())
}
