//! Why a value of plan.json is null: each member that may be null, with what its reason is about.

use super::cost;
use super::notes::other_work;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_plan::plan::minimum_nodes;
use trainc_predict::bills::unpriced_file_systems;
use trainc_predict::{Input, Prediction, Unknown};

/// What a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Account,
    Digest,
    Mesh,
    MinimumNodes,
    Batch,
    Image,
    ImageVersion,
    Source,
    Model,
    ModelDimension,
    Gpu,
    Instance,
    Region,
    /// A value that the manifest does not set, or the script decides.
    Setting,
    Memory,
    MemoryCapacity,
    MemoryFits,
    /// Memory of a host, or of a checkpoint.
    HostMemory,
    Speed,
    SpeedInput,
    /// Time of the run, or its interval.
    Seconds,
    SecondsInterval,
    Checkpoint,
    CheckpointInterval,
    Spot,
    SpotInterval,
    SpotCostInterval,
    RunPart,
    Download,
    Evaluation,
    Interruptions,
    /// The interval of a part of the run whose time is known with it.
    RunPartInterval,
    DownloadInterval,
    EvaluationInterval,
    InterruptionsInterval,
    Cost,
    CostInterval,
    InstanceCost,
    StorageCost,
    InstanceCostInterval,
    VolumeCostInterval,
    FileSystemCostInterval,
    ExpectedSpotCost,
    MostCost,
    Price,
    PriceSource,
}

/// Every member of plan.json that may be null, apart from those of lists.
const MEMBERS: &[(About, &[&str])] = &[
    (About::Account, &["account"]),
    (About::Digest, &["digest", "training_job_name"]),
    (About::Mesh, &["mesh"]),
    (About::MinimumNodes, &["mesh.minimum_nodes", "mesh.recommended_nodes"]),
    (About::Batch, &["batch", "batch.global_tokens", "run.steps", "run.tokens"]),
    (About::Image, &["image"]),
    (About::ImageVersion, &["image.python", "image.pytorch", "image.transformers"]),
    (About::Source, &["source"]),
    (About::Model, &["model"]),
    (
        About::ModelDimension,
        &[
            "model.ffn",
            "model.heads",
            "model.hidden",
            "model.kv_heads",
            "model.layers",
            "model.parameters_active",
            "model.parameters_trainable",
            "model.sequence_length",
            "model.tied",
            "model.training_flops_per_token",
            "model.vocab",
        ],
    ),
    (About::Gpu, &["cluster.gpu.memory_bytes", "cluster.gpu.name"]),
    (About::Instance, &["cluster.instance"]),
    (About::Region, &["region"]),
    (
        About::Setting,
        &[
            "cluster.gpus_per_node",
            "cluster.max_run_seconds",
            "cluster.nodes",
            "cluster.world_size",
            "elsewhere",
            "elsewhere.cost_usd_interval",
            "elsewhere.seconds_interval",
            "evidence.newest",
            "job",
            "price.date",
            "price.region",
        ],
    ),
    (
        About::Memory,
        &[
            "memory.host_bytes_interval",
            "memory.interval",
            "memory.parts.activations",
            "memory.parts.buffers",
            "memory.parts.gathered",
            "memory.parts.gradients",
            "memory.parts.logits",
            "memory.parts.optimizer",
            "memory.parts.parameters",
            "memory.parts.reserve",
            "memory.parts_interval.activations",
            "memory.parts_interval.buffers",
            "memory.parts_interval.gathered",
            "memory.parts_interval.gradients",
            "memory.parts_interval.logits",
            "memory.parts_interval.optimizer",
            "memory.parts_interval.parameters",
            "memory.parts_interval.reserve",
            "memory.peak_checkpoint_bytes_interval",
            "memory.per_gpu_bytes",
        ],
    ),
    (About::MemoryCapacity, &["memory.capacity_bytes"]),
    (About::MemoryFits, &["memory.fits"]),
    (About::HostMemory, &["memory.host_bytes", "memory.peak_checkpoint_bytes"]),
    (
        About::Speed,
        &[
            "speed",
            "speed.communication.context",
            "speed.communication.experts",
            "speed.communication.gather",
            "speed.communication.gradients",
            "speed.communication.pipeline",
            "speed.communication.replicas",
            "speed.communication.tensor",
            "speed.communication_interval.context",
            "speed.communication_interval.experts",
            "speed.communication_interval.gather",
            "speed.communication_interval.gradients",
            "speed.communication_interval.pipeline",
            "speed.communication_interval.replicas",
            "speed.communication_interval.tensor",
            "speed.interval",
            "speed.mfu",
            "speed.mfu_interval",
            "speed.parts.bubble",
            "speed.parts.compute",
            "speed.parts.exposed_communication",
            "speed.parts.offload",
            "speed.parts.optimizer",
            "speed.parts_interval.bubble",
            "speed.parts_interval.compute",
            "speed.parts_interval.exposed_communication",
            "speed.parts_interval.offload",
            "speed.parts_interval.optimizer",
            "speed.samples_per_second",
            "speed.samples_per_second_interval",
            "speed.step_seconds",
            "speed.tflops.eight_n",
            "speed.tflops.hardware",
            "speed.tflops.model",
            "speed.tflops.six_n",
            "speed.tflops_interval.eight_n",
            "speed.tflops_interval.hardware",
            "speed.tflops_interval.model",
            "speed.tflops_interval.six_n",
            "speed.tflops_per_gpu",
            "speed.tflops_per_gpu_interval",
            "speed.tokens_per_second",
            "speed.tokens_per_second_interval",
        ],
    ),
    (About::SpeedInput, &["speed.parts.input", "speed.parts_interval.input"]),
    (About::Seconds, &["run.seconds"]),
    (About::SecondsInterval, &["run.interval"]),
    (About::Checkpoint, &["run.checkpoint"]),
    (
        About::CheckpointInterval,
        &["run.checkpoint.best_interval_seconds", "run.checkpoint.best_interval_seconds_interval"],
    ),
    (About::Spot, &["run.spot"]),
    (
        About::SpotInterval,
        &[
            "run.spot.expected_seconds_interval",
            "run.spot.interruptions_interval",
            "run.spot.p90_seconds_interval",
        ],
    ),
    (About::SpotCostInterval, &["run.spot.expected_usd_interval", "run.spot.p90_usd_interval"]),
    (About::RunPart, &["run.parts.checkpoints", "run.parts.startup", "run.parts.training"]),
    (About::Download, &["run.parts.download"]),
    (About::Evaluation, &["run.parts.evaluation"]),
    (About::Interruptions, &["run.parts.interruptions"]),
    (
        About::RunPartInterval,
        &["run.parts_interval.checkpoints", "run.parts_interval.startup", "run.parts_interval.training"],
    ),
    (About::DownloadInterval, &["run.parts_interval.download"]),
    (About::EvaluationInterval, &["run.parts_interval.evaluation"]),
    (About::InterruptionsInterval, &["run.parts_interval.interruptions"]),
    (About::Cost, &["run.cost_usd"]),
    (About::CostInterval, &["run.cost_usd_interval"]),
    (About::InstanceCost, &["run.cost_parts.instances"]),
    (About::StorageCost, &["run.cost_parts.file_systems", "run.cost_parts.volumes"]),
    (About::InstanceCostInterval, &["run.cost_parts_interval.instances"]),
    (About::VolumeCostInterval, &["run.cost_parts_interval.volumes"]),
    (About::FileSystemCostInterval, &["run.cost_parts_interval.file_systems"]),
    (About::ExpectedSpotCost, &["run.spot.expected_usd", "run.spot.p90_usd"]),
    (About::MostCost, &["run.most_usd"]),
    (About::Price, &["price"]),
    (About::PriceSource, &["run.price_source"]),
];

const ENDLESS: &str = "at this interruption rate the run would take more than a year";
const UNPRICED: &str =
    "the catalogue has no price of this instance type in this region; set it with `--price`";
const WITHOUT_TIME: &str = "depends on the run time, which is not known";

/// What the reasons depend on.
#[derive(Clone, Copy)]
pub(super) struct Nulls<'a> {
    pub(super) plan: Option<&'a Plan>,
    pub(super) prediction: &'a Prediction,
    /// True if the plan has errors.
    pub(super) errors: bool,
}

/// The member that a note is on, if it is a parent of the null, and the reason.
type Reason = (Option<&'static str>, String);

fn own(reason: impl Into<String>) -> Reason {
    (None, reason.into())
}

impl Nulls<'_> {
    /// Returns the member that the note about a null is on, which may be a parent, and the reason.
    pub(super) fn describe(self, path: &str) -> (&str, String) {
        let row = MEMBERS.iter().find(|(_, paths)| paths.contains(&path));
        let (member, reason) = self.reason(row.map_or(About::Setting, |(about, _)| *about));
        (member.unwrap_or(path), reason)
    }

    fn reason(self, about: About) -> Reason {
        let run = self.prediction.run.as_ref();
        match about {
            About::Account => own("not set; `${account}` is its placeholder"),
            About::Digest => own("not assigned to a plan with errors"),
            About::Mesh => self.unless_broken("`parallel` or `cluster` is not set"),
            About::MinimumNodes => self.unless_broken(
                self.plan.map_or_else(|| "no plan".to_owned(), minimum_nodes::why_not_applicable),
            ),
            About::Batch => self.unless_broken("`train` does not determine it"),
            About::Image => self.unless_broken("`image` is not set"),
            About::ImageVersion => self.unless_broken(
                "the versions in the image are not known, or it does not contain this library",
            ),
            About::Source => {
                self.unless_broken("the program has no local source directory, or it does not exist")
            }
            About::Model => self.unless_broken("`model` is not set"),
            About::ModelDimension => self.unless_broken("requires the dimensions of the model"),
            About::Gpu => self.unless_broken("no GPU of the catalogue"),
            About::Instance if self.has_groups() => own("each instance group has its own type"),
            About::Region => self.unless_broken("not set"),
            About::Instance | About::Setting => self.of_setting(),
            About::Memory => self.of_memory(),
            About::MemoryCapacity if self.plan.is_some_and(|plan| plan.machine.is_some()) => {
                own("the memory of this accelerator is not in the catalogue, or the instance has none")
            }
            About::MemoryCapacity => own(broken()),
            About::MemoryFits | About::HostMemory => self.of_fit(about),
            About::Speed => self.of_speed(),
            About::SpeedInput if self.prediction.speed.is_some() => {
                let missing = self.plan.and_then(|plan| Input::from_plan(plan).err());
                own(missing.map_or("the data loader is assumed to keep up", |unknown| unknown.0))
            }
            About::SpeedInput => self.of_speed(),
            About::Checkpoint if run.is_some() => own("`checkpoint` is not set"),
            About::CheckpointInterval => {
                own("the failure rate of nodes is not set; write `node-mtbf`, or `spot` with \
                 `interruptions-per-hour`")
            }
            About::Seconds | About::SecondsInterval | About::Spot if self.is_endless() => own(ENDLESS),
            About::SecondsInterval if run.is_some() => {
                own("at the upper bound of step time the run would never finish at this interruption rate")
            }
            About::Spot if run.is_some() => {
                own("neither `node-mtbf` nor `spot` with `interruptions-per-hour` is set")
            }
            About::Seconds | About::SecondsInterval | About::Checkpoint | About::Spot => {
                own(self.without_run())
            }
            About::SpotInterval => {
                own("at the upper bound of the run time the run would never finish at this interruption rate")
            }
            About::SpotCostInterval if run.is_some_and(|run| run.spot.is_some()) => of_expected_cost(),
            About::SpotCostInterval => self.of_setting(),
            About::RunPart => (Some("run.parts"), self.without_run()),
            About::RunPartInterval => (Some("run.parts_interval"), self.without_run()),
            About::Download | About::Evaluation | About::Interruptions => self.of_run_part(about),
            About::DownloadInterval | About::EvaluationInterval | About::InterruptionsInterval => {
                self.of_run_part_interval(about)
            }
            About::Cost
            | About::CostInterval
            | About::InstanceCost
            | About::StorageCost
            | About::InstanceCostInterval
            | About::VolumeCostInterval
            | About::FileSystemCostInterval
                if self.is_endless() =>
            {
                own("depends on the expected time, which is unbounded at this interruption rate")
            }
            About::Cost => self.of_cost(),
            About::CostInterval => self.of_cost_interval(),
            About::InstanceCost if run.is_some() => self.of_price(),
            About::StorageCost if run.is_some() => of_storage_price(),
            About::InstanceCost | About::StorageCost => (Some("run.cost_parts"), WITHOUT_TIME.to_owned()),
            About::InstanceCostInterval | About::VolumeCostInterval | About::FileSystemCostInterval => {
                self.of_cost_part_interval(about)
            }
            About::ExpectedSpotCost if run.is_some() => self.of_price(),
            About::ExpectedSpotCost => self.of_setting(),
            About::Price if self.has_groups() => own("each instance group has its own price: `group_prices`"),
            About::Price | About::MostCost | About::PriceSource if self.errors => own(broken()),
            About::Price => own(UNPRICED),
            About::MostCost | About::PriceSource if self.has_groups() => self.of_group_prices(),
            About::MostCost if self.plan.is_some_and(|plan| plan.price().is_some()) => {
                // The first type has a price.
                let unpriced = self.plan.and_then(describe_unpriced_preference);
                own(unpriced.unwrap_or_else(|| "`max-run` is not known".to_owned()))
            }
            About::MostCost | About::PriceSource => own(UNPRICED),
        }
    }

    fn unless_broken(self, reason: impl Into<String>) -> Reason {
        if self.errors { own(broken()) } else { own(reason) }
    }

    fn of_setting(self) -> Reason {
        let mesh = self.plan.and_then(|plan| plan.mesh.as_ref());
        let is_script = mesh.is_some_and(|mesh| mesh.law.is_script());
        self.unless_broken(if is_script { "decided by the script" } else { "not set" })
    }

    fn of_memory(self) -> Reason {
        (Some("memory"), reason_or_broken(self.prediction.no_memory))
    }

    fn of_fit(self, about: About) -> Reason {
        let others = other_work(self.plan, true);
        if self.prediction.memory.is_none() {
            self.of_memory()
        } else if about == About::MemoryFits && !others.is_empty() {
            own(format!("not predicted: {}", text::list(&others, "and")))
        } else {
            own("not known for this machine")
        }
    }

    fn of_speed(self) -> Reason {
        (Some("speed"), reason_or_broken(self.prediction.no_speed))
    }

    fn without_run(self) -> String {
        reason_or_broken(self.prediction.no_run)
    }

    fn of_run_part(self, about: About) -> Reason {
        if self.prediction.run.is_none() {
            return (Some("run.parts"), self.without_run());
        }
        own(match about {
            About::Download => {
                "a channel is downloaded before the start, and the size of `dataset` is not set: \
                 `run.seconds` and the cost exclude the download and are lower bounds"
            }
            About::Evaluation => {
                "neither `sequences` nor `tokens` of `dataset` is set: `run.seconds` and the cost exclude \
                 the evaluations and are lower bounds"
            }
            _ if self.is_endless() => ENDLESS,
            _ => {
                "the failure rate of nodes is not set (`node-mtbf`, or `interruptions-per-hour` of \
                 `spot`): no interruptions are assumed"
            }
        })
    }

    /// The interval of an unknown part is unknown, and if the interval of the run is unbounded, so is that of
    /// its interruptions.
    fn of_run_part_interval(self, about: About) -> Reason {
        let Some(run) = &self.prediction.run else {
            return (Some("run.parts_interval"), self.without_run());
        };
        match about {
            About::DownloadInterval => self.of_run_part(About::Download),
            About::EvaluationInterval => self.of_run_part(About::Evaluation),
            _ if run.spot.is_none() => self.of_run_part(About::Interruptions),
            _ => self.reason(About::SecondsInterval),
        }
    }

    fn of_cost(self) -> Reason {
        if self.prediction.run.is_some() {
            return self.of_price();
        }
        own(format!("{WITHOUT_TIME}; `run.most_usd` is the upper bound by max-run"))
    }

    fn of_cost_interval(self) -> Reason {
        match &self.prediction.run {
            Some(run) if run.cost_usd.is_some() && run.spot.is_some() => of_expected_cost(),
            Some(run) if run.cost_usd.is_some() => self.of_setting(),
            _ => self.of_cost(),
        }
    }

    /// The interval of an unknown part is unknown, and else it is unbounded with that of the cost.
    fn of_cost_part_interval(self, about: About) -> Reason {
        let without_time = (Some("run.cost_parts_interval"), WITHOUT_TIME.to_owned());
        let Some(run) = &self.prediction.run else { return without_time };
        let parts = &run.cost_parts;
        match about {
            About::InstanceCostInterval if !parts.instances.is_complete => self.of_price(),
            About::VolumeCostInterval if !parts.volumes.is_complete => of_storage_price(),
            About::FileSystemCostInterval if !parts.file_systems.is_complete => of_storage_price(),
            _ if run.spot.is_some() => of_expected_cost(),
            _ => without_time,
        }
    }

    /// Returns which price is missing.
    fn of_price(self) -> Reason {
        if let Some(least) = format_least_cost(self.prediction) {
            let systems = self.plan.map(unpriced_file_systems).unwrap_or_default();
            let systems = if systems.is_empty() {
                "a file system".to_owned()
            } else {
                text::backtick_list(&systems, "and")
            };
            return own(format!("at least {least}: the price of {systems} in this region is not known"));
        }
        let groups = self.has_groups();
        if let Some(unpriced) = self.plan.filter(|_| groups).and_then(describe_unpriced_type) {
            return own(describe_known_part(self.prediction) + &unpriced);
        }
        own(if self.plan.is_some_and(|plan| plan.price().is_none() && !groups) {
            UNPRICED
        } else {
            "spot prices are not known; set `--discount`"
        })
    }

    fn of_group_prices(self) -> Reason {
        own(match self.plan.and_then(describe_unpriced_type) {
            Some(unpriced) => self.plan.map(describe_known_most).unwrap_or_default() + &unpriced,
            None => "the number of instances of a group, or `max-run`, is not known".to_owned(),
        })
    }

    /// Returns whether the cluster has instance groups.
    fn has_groups(self) -> bool {
        let cluster = self.plan.and_then(|plan| plan.job.cluster.as_ref());
        cluster.is_some_and(|cluster| !cluster.groups.is_empty())
    }

    /// Returns whether no run of this length would finish at the interruption rate of the manifest.
    fn is_endless(self) -> bool {
        let cluster = self.plan.and_then(|plan| plan.job.cluster.as_ref());
        cluster.is_some_and(|cluster| cluster.node_losses_per_hour().is_some())
            && self.prediction.run.as_ref().is_some_and(|run| run.spot.is_none())
    }
}

fn broken() -> String {
    "not computed, because of the errors".to_owned()
}

fn reason_or_broken(unknown: Option<Unknown>) -> String {
    unknown.map_or_else(broken, |unknown| unknown.0.to_owned())
}

fn of_expected_cost() -> Reason {
    own("depends on the interval of the expected time and on the price, one of which is not known")
}

fn of_storage_price() -> Reason {
    own("the catalogue has no price for it in this region, or its size is not known")
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

/// Returns the cost of a run, with its interval, without the file systems whose price is not known.
fn format_least_cost(prediction: &Prediction) -> Option<String> {
    let run = prediction.run.as_ref()?;
    let interval = run.least_cost_interval()?;
    let [usd, low, high] = [run.least_usd?, interval.low, interval.high].map(text::dollars);
    Some(if run.spot.is_some() { usd } else { format!("{usd} ({low} to {high})") })
}

#[cfg(test)]
mod tests {
    use super::super::json::SCHEMA;
    use super::super::notes::WITHOUT_NOTE;
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Adds the members of a schema that may be null, without those of lists.
    fn add_nullable(root: &Value, schema: &Value, path: &str, out: &mut BTreeSet<String>) {
        let referred = schema["$ref"].as_str().and_then(|at| root.pointer(at.trim_start_matches('#')));
        let either = schema["anyOf"].as_array().into_iter().flatten();
        for part in referred.into_iter().chain(either) {
            add_nullable(root, part, path, out);
        }
        let is_null = |ty: &Value| ty == "null";
        if is_null(&schema["type"]) || schema["type"].as_array().is_some_and(|of| of.iter().any(is_null)) {
            out.insert(path.to_owned());
        }
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if path.is_empty() && WITHOUT_NOTE.contains(&name.as_str()) {
                continue;
            }
            let dot = if path.is_empty() { "" } else { "." };
            add_nullable(root, member, &format!("{path}{dot}{name}"), out);
        }
    }

    /// A new figure that may be null has a row, which says why.
    #[test]
    fn every_member_that_may_be_null_has_a_reason() {
        let root: Value = serde_json::from_str(SCHEMA).unwrap();
        let mut nullable = BTreeSet::new();
        add_nullable(&root, &root, "", &mut nullable);
        let rows: Vec<&str> = MEMBERS.iter().flat_map(|(_, paths)| paths.iter().copied()).collect();
        let known: BTreeSet<String> = rows.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(rows.len(), known.len(), "a member has one row");
        assert_eq!(known, nullable);
    }
}
