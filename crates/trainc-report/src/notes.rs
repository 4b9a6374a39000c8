//! Why a figure of plan.json is null: one note for each, as `path: reason`.

use super::json::Document;
use serde_json::Value;
use trainc_diag::text;
use trainc_ir::mesh::LISTED_RANKS;
use trainc_ir::{Axis, Engine, Plan};
use trainc_plan::plan::minimum_nodes;
use trainc_predict::bills::unpriced_file_systems;
use trainc_predict::layout::{Offload, System};
use trainc_predict::{Beyond, Input, Interval, Layout, Past, Prediction, Unknown};

/// Members whose nulls need no reason: a problem without help has none to give.
const WITHOUT_NOTE: [&str; 1] = ["problems"];

/// A note for every null, in the order of the document.
pub(super) fn notes(document: &Document, plan: Option<&Plan>, prediction: &Prediction) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let Ok(Value::Object(members)) = serde_json::to_value(document) else { return out };
    let errors = document.problems.iter().any(|problem| problem.severity == trainc_diag::Severity::Error);
    for (name, value) in &members {
        if !WITHOUT_NOTE.contains(&name.as_str()) {
            nulls(name, value, &mut |path| {
                let (path, reason) = reason(path, plan, prediction, errors);
                let note = format!("{path}: {reason}");
                if !out.contains(&note) {
                    out.push(note);
                }
            });
        }
    }
    out.extend(bounds(plan, prediction));
    out.extend(prediction.speed.as_ref().and_then(|speed| beyond(&speed.beyond)));
    if let (Some(_), None) = (document.run.cost_usd, document.run.cost_parts.volumes) {
        out.push("run.cost_usd: without the storage volumes, whose price is not known".to_owned());
    }
    if let Some(plan) = plan.filter(|_| document.run.most_usd.is_some()) {
        let systems = unpriced_file_systems(plan);
        if !systems.is_empty() {
            out.push(format!(
                "run.most_usd: without {}, whose price is not known",
                text::ticked(&systems, "and")
            ));
        }
    }
    for name in plan.into_iter().flat_map(trainc_predict::uncounted) {
        out.push(format!("parallel.{name}: not in the prediction of memory and time"));
    }
    if prediction.speed.is_some() {
        let taken = plan.into_iter().flat_map(trainc_predict::taken_for);
        out.extend(taken.map(|(member, words)| format!("{member}: {words}")));
    }
    if let Some(mesh) = plan.and_then(|plan| plan.mesh.as_ref())
        && mesh.world_size > LISTED_RANKS
        && [Axis::Replica, Axis::Shard, Axis::Tensor, Axis::Pipeline]
            .iter()
            .any(|axis| mesh.degree(*axis) > 1)
    {
        out.push(format!("groups: more than {LISTED_RANKS} ranks are not listed one by one"));
    }
    out
}

/// What intervals of memory are made of that no measured run is behind.
fn bounds(plan: Option<&Plan>, prediction: &Prediction) -> Vec<String> {
    let layout = plan.and_then(|plan| Layout::of_plan(plan).ok());
    // Ranks on CPUs are held to the worker's own account of what it takes.
    let on_cards = layout.filter(|it| !(it.system == System::Worker && it.worker.cpu));
    let (Some(layout), Some(memory)) = (on_cards, &prediction.memory) else { return Vec::new() };
    let gib = |interval: Interval| {
        let [low, high] = [interval.low, interval.high].map(|end| text::bytes(super::sections::whole(end)));
        format!("{low} to {high}")
    };
    let host = memory.host_interval.map(|interval| {
        let moved = match &layout.offload {
            offload if offload.paged => ", with and without what is paged to it",
            offload if *offload != Offload::default() => ", what is offloaded as far off as a step's peaks are",
            _ => "",
        };
        format!(
            "memory.host_bytes_interval: {}, by bounds, since no run of the table measured a host: a process between the \
             least and the most that is seen of one{moved}, with and without a checkpoint's copy; what the program and \
             its data loader hold beside is not in it",
            gib(interval)
        )
    });
    let saving = memory.peak_checkpoint_interval.map(|interval| {
        format!(
            "memory.peak_checkpoint_bytes_interval: {}, with the errors of a step's peaks, since no run of the table \
             measured a GPU while a checkpoint was saved; at the low end nothing is gathered for it",
            gib(interval)
        )
    });
    host.into_iter().chain(saving).collect()
}

/// Why a step time's interval is wider than that of layouts like those that were measured.
fn beyond(beyond: &Beyond) -> Option<String> {
    let part = |past: Option<Past>, noun: &str| {
        let past = past?;
        let [here, measured] = [past.here, past.measured].map(count);
        Some(format!("{here} {noun} are beyond the {measured} of the largest run that was measured"))
    };
    let mut parts: Vec<String> =
        [part(beyond.gpus, "GPUs"), part(beyond.parameters, "parameters")].into_iter().flatten().collect();
    let new = beyond.gpu.map(|new| {
        let runs = if new.runs < 1.0 { "no run" } else { "too few runs" };
        let were = if new.runs < 1.0 { "was" } else { "were" };
        format!("{runs} on {}s {were} fitted", new.gpu.word())
    });
    parts.extend(new);
    let unseen = beyond.setting.map(|unseen| {
        let runs = if unseen.runs < 1.0 { "no run" } else { "only one run" };
        format!("{runs} of {} was fitted", unseen.setting.words())
    });
    parts.extend(unseen);
    let own = beyond.gpu.map_or(0.0, |new| new.wider);
    let percent = 100.0 * (own + beyond.width()).exp_m1();
    (!parts.is_empty()).then(|| {
        format!("speed.interval: {percent:.0} % further off at either end, since {}", parts.join(", and "))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, rounded as it was fitted"
)]
fn count(n: f64) -> String {
    text::group(n.round() as u64)
}

fn nulls(path: &str, value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Null => found(path),
        Value::Object(members) => {
            for (name, value) in members {
                nulls(&format!("{path}.{name}"), value, found);
            }
        }
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The member that a reason speaks of, which may be one further up, and the reason.
fn reason<'a>(
    path: &'a str,
    plan: Option<&Plan>,
    prediction: &Prediction,
    errors: bool,
) -> (&'a str, String) {
    let broken = "not computed, because of the errors".to_owned();
    let engine = plan.and_then(|plan| plan.mesh.as_ref()).map(|mesh| mesh.engine);
    let say = |text: &str| (path, text.to_owned());
    match of_figure(path, prediction) {
        "memory.capacity_bytes" if plan.is_some_and(|plan| plan.machine.is_some()) => {
            say("the catalogue does not know the memory of this accelerator, or there is none")
        }
        "memory.capacity_bytes" => (path, broken),
        "memory.host_bytes" | "memory.peak_checkpoint_bytes" | "memory.fits"
            if prediction.memory.is_some() =>
        {
            say("not known for this machine")
        }
        _ if path.starts_with("memory.") => ("memory", why(prediction.no_memory, broken)),
        "speed.parts.input" | "speed.parts_interval.input" if prediction.speed.is_some() => {
            let missing = plan.and_then(|plan| Input::of_plan(plan).err());
            say(missing.map_or("the program's data loader is taken to keep up", |unknown| unknown.0))
        }
        _ if path.starts_with("speed.") => ("speed", why(prediction.no_speed, broken)),
        "run.checkpoint" if prediction.run.is_some() => say("`checkpoint` is not written"),
        "run.checkpoint.best_interval_seconds" | "run.checkpoint.best_interval_seconds_interval" => {
            say("how often nodes fail is not written: `node-mtbf`, or `spot` with `interruptions-per-hour`")
        }
        "run.spot" if rate_is_hopeless(plan, prediction) => {
            say("the run never ends at this rate of interruptions: more than a year is expected")
        }
        _ if path.starts_with("run.cost") && rate_is_hopeless(plan, prediction) => {
            say("follows from the expected time, which at this rate of interruptions has no end")
        }
        "run.spot.expected_seconds_interval"
        | "run.spot.p90_seconds_interval"
        | "run.spot.interruptions_interval" => {
            say("at the high end of the run's interval no end is expected at this rate of interruptions")
        }
        "run.spot.expected_usd_interval" | "run.spot.p90_usd_interval" | "run.cost_usd_interval"
            if prediction.run.as_ref().is_some_and(|run| run.spot.is_some()) =>
        {
            say("follows from the expected time's interval and the price, of which one is not known")
        }
        "run.seconds" | "run.interval" | "run.parts.interruptions" if rate_is_hopeless(plan, prediction) => {
            say("the run never ends at this rate of interruptions: more than a year is expected")
        }
        "run.interval" if prediction.run.is_some() => {
            say("at the high end of the steps' interval no end is expected at this rate of interruptions")
        }
        "run.parts.interruptions" if prediction.run.is_some() => say(
            "how often nodes are lost is not written, `node-mtbf`, or on `spot` `interruptions-per-hour`: none is counted",
        ),
        "run.parts.download" if prediction.run.is_some() => say(
            "a channel is copied before the start, and `dataset` does not say how much it holds: `run.seconds` and the cost are without it, the least that they can be",
        ),
        "run.spot" if prediction.run.is_some() => {
            say("neither `node-mtbf` nor `spot` with `interruptions-per-hour` is written")
        }
        "run.seconds" | "run.interval" | "run.checkpoint" | "run.spot" => {
            (path, why(prediction.no_run, broken))
        }
        _ if path.starts_with("run.parts_interval") => ("run.parts_interval", why(prediction.no_run, broken)),
        _ if path.starts_with("run.parts") => ("run.parts", why(prediction.no_run, broken)),
        "run.cost_usd" | "run.cost_parts.instances" | "run.spot.expected_usd" | "run.spot.p90_usd"
            if prediction.run.is_some() =>
        {
            if let Some(least) = at_least(prediction) {
                let systems = plan.map(unpriced_file_systems).unwrap_or_default();
                let systems = if systems.is_empty() {
                    "a file system".to_owned()
                } else {
                    text::ticked(&systems, "and")
                };
                return say(&format!("at least {least}: no price of {systems} is known in this region"));
            }
            let group = plan.and_then(|plan| plan.unpriced_groups().first().map(|name| (*name).to_owned()));
            if let Some(group) = group {
                return say(&format!("no price of `{group}` in this region; `--price` gives one"));
            }
            say(if plan.is_some_and(|plan| plan.price.is_none() && plan.group_prices.is_empty()) {
                "the catalogue has no price of this instance type in this region; `--price` gives one"
            } else if plan.is_some_and(|plan| !plan.deployable) {
                "the cluster is not SageMaker's"
            } else {
                "spot prices are not known; `--discount` gives one"
            })
        }
        "run.cost_parts.volumes" | "run.cost_parts.file_systems" if prediction.run.is_some() => {
            say("the catalogue has no price of it in this region, or its size is not known")
        }
        "run.cost_usd" => {
            say("follows from the run's time, which is not known; `run.most_usd` is what max-run allows")
        }
        _ if path.starts_with("run.cost_parts_interval") => {
            ("run.cost_parts_interval", "follow from the run's time, which is not known".to_owned())
        }
        _ if path.starts_with("run.cost_parts") => {
            ("run.cost_parts", "follow from the run's time, which is not known".to_owned())
        }
        "account" => say("not written; `${account}` stands for it"),
        "digest" | "training_job_name" => say("a plan with errors has none"),
        "price" if plan.is_some_and(|plan| !plan.group_prices.is_empty()) => {
            say("the instance groups have a price each: `group_prices`")
        }
        "cluster.instance" if plan.is_some_and(|plan| !plan.group_prices.is_empty()) => {
            say("the instance groups have a type each")
        }
        _ if errors => (path, broken),
        "run.most_usd" | "run.price_source" if plan.is_some_and(|plan| !plan.group_prices.is_empty()) => {
            let missing = plan.and_then(|plan| plan.unpriced_groups().first().map(|name| (*name).to_owned()));
            match missing {
                Some(name) => say(&format!("no price of `{name}` in this region; `--price` gives one")),
                None => say("the number of instances of some group, or `max-run`, is not known"),
            }
        }
        "price" | "run.most_usd" | "run.price_source" => {
            say("the catalogue has no price of this instance type in this region; `--price` gives one")
        }
        "mesh.minimum_nodes" | "mesh.recommended_nodes" => {
            say(&plan.map_or_else(|| "no plan".to_owned(), minimum_nodes::why_none))
        }
        "mesh" => say("`parallel` or `cluster` is not written"),
        "run.steps" | "run.tokens" | "batch" | "batch.global_tokens" => {
            say("`train` does not say enough to know it")
        }
        "image" => say("`image` is not written"),
        _ if path.starts_with("image.") => {
            say("the image's own versions are not known, or it does not have this one")
        }
        "source" => say("the program has no directory here, or it is not there"),
        _ if path.starts_with("model.") => say("only known with the model's dimensions"),
        "model" => say("`model` is not written"),
        "cluster.gpu.name" | "cluster.gpu.memory_bytes" => say("no GPU that the catalogue knows"),
        "region" => say("not written"),
        _ if engine == Some(Engine::None) => say("a plain script decides it"),
        _ => say("not written"),
    }
}

/// The figure whose reason is that of an interval as well: where a part is not known, neither is its interval, and where
/// the run's has no end, neither has that of its parts.
fn of_figure<'a>(path: &'a str, prediction: &Prediction) -> &'a str {
    let Some(run) = &prediction.run else {
        return if path == "run.cost_usd_interval" { "run.cost_usd" } else { path };
    };
    match path {
        "run.cost_usd_interval" if run.cost_usd.is_none() => "run.cost_usd",
        "run.parts_interval.download" => "run.parts.download",
        "run.parts_interval.interruptions" if run.spot.is_none() => "run.parts.interruptions",
        "run.parts_interval.interruptions" => "run.interval",
        "run.cost_parts_interval.instances" if run.cost_parts.instances.is_none() => {
            "run.cost_parts.instances"
        }
        "run.cost_parts_interval.volumes" if run.cost_parts.volumes.is_none() => "run.cost_parts.volumes",
        "run.cost_parts_interval.file_systems" if run.cost_parts.file_systems.is_none() => {
            "run.cost_parts.file_systems"
        }
        _ if path.starts_with("run.cost_parts_interval.") => "run.cost_usd_interval",
        _ => path,
    }
}

/// What a run costs without the file systems whose price is not known, and its interval.
fn at_least(prediction: &Prediction) -> Option<String> {
    let run = prediction.run.as_ref()?;
    let interval = run.least_interval()?;
    let [usd, low, high] = [run.least_usd?, interval.low, interval.high].map(text::dollars);
    Some(if run.spot.is_some() { usd } else { format!("{usd} ({low} to {high})") })
}

/// Whether a rate of interruptions is written at which no run of this length comes to its end.
fn rate_is_hopeless(plan: Option<&Plan>, prediction: &Prediction) -> bool {
    let cluster = plan.and_then(|plan| plan.job.cluster.as_ref());
    cluster.is_some_and(|cluster| cluster.losses_per_hour().is_some())
        && prediction.run.as_ref().is_some_and(|run| run.spot.is_none())
}

fn why(unknown: Option<Unknown>, otherwise: String) -> String {
    unknown.map_or(otherwise, |unknown| unknown.0.to_owned())
}
