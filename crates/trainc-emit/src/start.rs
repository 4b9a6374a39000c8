//! The script that trainc starts in place of the program, if the cluster is measured first or a budget is
//! enforced.

use super::container::{self, INPUT};
use super::fill::Fill;
use super::{canonical_json, metrics};
use serde::Serialize;
use std::collections::BTreeMap;
use trainc_ir::{AddedFile, Budget, Expectation, ExpectedType, Plan, Program, SourceFile};

/// The variable with the planned figures, which are no part of the job's digest.
pub const PLAN_VARIABLE: &str = "TRAINC_PLAN";
/// The variable with the planned figures of each further preferred instance type: seconds of a step, and US
/// dollars per hour.
const TYPES_VARIABLE: &str = "TRAINC_PLAN_TYPES";

/// The text of [`AddedFile::StartScript`].
pub(super) const SCRIPT: &str = include_str!("../templates/source/start.py");
/// The text of [`AddedFile::Probe`].
pub(super) const PROBE: &str = include_str!("../templates/source/probe.py");

/// Default directory of checkpoints in a container (CheckpointConfig, LocalPath).
const CHECKPOINTS: &str = "/opt/ml/checkpoints";
/// Finds the step in a line of a program without a metric for it: `step=12`, `Step 12`, `"global_step": 12`.
const STEP: &str = r#"(?i)\b(?:global_)?step["']?\s*[=:]?\s*(\d+)"#;
/// Finds the step in a progress bar of tqdm over all `STEPS` steps: `| 120/1000 [00:10<`. Bars of data sets
/// and shards have other totals.
const BAR: &str = r"\|\s*(\d+)/STEPS\s*\[";
/// Last components of the names of metrics that are the step.
const STEP_NAMES: &[&str] = &["step", "global_step", "iteration"];

/// `trainc_start.json`.
#[derive(Serialize)]
struct Settings {
    entry: Option<String>,
    command: Vec<String>,
    secrets: BTreeMap<String, String>,
    processes: u64,
    probe: Option<ProbeSettings>,
    brake: Option<Brake>,
    work: Option<Work>,
    channels: BTreeMap<String, String>,
    checkpoint: Option<String>,
}

#[derive(Serialize)]
struct ProbeSettings {
    minimum: Option<f64>,
}

#[derive(Serialize)]
struct Brake {
    hard_usd: Option<f64>,
    slowest: Option<f64>,
    window: u64,
    steps: Option<u64>,
    patterns: Vec<String>,
    /// File of the key by which the hosts recognise each other; `None` if it is only in S3, next to the
    /// archive.
    key: Option<String>,
}

#[derive(Serialize)]
struct Work {
    dtype: &'static str,
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    ffn: u64,
    ffn_matrices: u64,
    is_causal: bool,
    sequence_length: u64,
    sequences: u64,
    attention: &'static str,
    products: Vec<[u64; 3]>,
    collectives: Vec<Collective>,
    order: Vec<(&'static str, u64)>,
    checkpoint_bytes_per_node: u64,
}

#[derive(Serialize)]
struct Collective {
    operation: &'static str,
    axis: Option<&'static str>,
    bytes: u64,
    constant: &'static str,
}

/// The value of [`PLAN_VARIABLE`].
#[derive(Default, Serialize)]
struct Planned {
    #[serde(skip_serializing_if = "Option::is_none")]
    step_seconds: Option<f64>,
    /// Whether the interval of these seconds comes from measured errors of the job's setting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    measured: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    communication_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    product_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    collective_seconds: Vec<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    constants: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usd_per_hour: Option<f64>,
}

/// The figures of an instance type in [`TYPES_VARIABLE`].
#[derive(Serialize)]
struct OfType {
    step_seconds: Option<f64>,
    measured: bool,
    usd_per_hour: Option<f64>,
}

/// Returns the script's settings, for the source archive or the worker's channel.
pub(super) fn settings(plan: &Plan) -> Option<Vec<u8>> {
    let expectation = plan.expectation.as_deref()?;
    Some(canonical_json::to_file_bytes(&Settings::new(plan, expectation)))
}

/// Returns the probe and its settings for a run outside of a container; none where the layout is unknown.
pub fn probe_files(plan: &Plan) -> Vec<SourceFile> {
    let Some(expectation) = plan.expectation.as_deref().filter(|one| one.work.is_some()) else {
        return Vec::new();
    };
    let settings = canonical_json::to_file_bytes(&Settings::new(plan, expectation));
    vec![
        SourceFile::new(AddedFile::StartSettings.name(), settings, false),
        SourceFile::new(AddedFile::Probe.name(), PROBE.as_bytes(), false),
    ]
}

/// Returns the variables with the planned figures; none without the script.
pub(super) fn variables(plan: &Plan) -> Vec<(&'static str, String)> {
    let Some(expectation) = plan.expectation.as_deref().filter(|_| plan.payload.is_watched()) else {
        return Vec::new();
    };
    let mut out = vec![(PLAN_VARIABLE, planned_figures(expectation))];
    if !expectation.further_types.is_empty() {
        let of_type = |one: &ExpectedType| {
            let figures = OfType {
                step_seconds: one.step_seconds.map(four_digits),
                measured: one.is_measured,
                usd_per_hour: one.usd_per_hour.map(four_digits),
            };
            (one.instance.clone(), figures)
        };
        let types: BTreeMap<String, OfType> = expectation.further_types.iter().map(of_type).collect();
        out.push((TYPES_VARIABLE, serde_json::to_string(&types).unwrap_or_default()));
    }
    out
}

/// Returns the planned figures as the scripts read them: JSON, each number with four digits.
pub fn planned_figures(expectation: &Expectation) -> String {
    let speed = expectation.speed.as_ref();
    let planned = Planned {
        step_seconds: speed.map(|speed| four_digits(speed.step_seconds)),
        measured: speed.is_some_and(|speed| speed.is_measured),
        compute_seconds: speed.map(|speed| four_digits(speed.compute_seconds)),
        communication_seconds: speed.map(|speed| four_digits(speed.communication_seconds)),
        product_seconds: speed.map(|speed| four_digits(speed.product_seconds)),
        attention_seconds: speed.and_then(|speed| speed.attention_seconds).map(four_digits),
        collective_seconds: speed
            .map(|speed| speed.collective_seconds.iter().copied().map(four_digits).collect())
            .unwrap_or_default(),
        constants: speed
            .map(|speed| {
                speed.constants.iter().map(|(key, value)| (key.clone(), four_digits(*value))).collect()
            })
            .unwrap_or_default(),
        usd_per_hour: expectation.usd_per_hour.map(four_digits),
    };
    serde_json::to_string(&planned).unwrap_or_default()
}

/// Rounds to four significant digits, so that the variable stays within its limit of 512 characters.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Settings {
    fn new(plan: &Plan, expectation: &Expectation) -> Self {
        let program = plan.job.program.as_ref().filter(|_| !plan.is_worker());
        let checkpoint = plan.job.checkpoint.as_ref();
        let work = expectation.work.as_ref();
        Self {
            entry: program.and_then(|program| program.entry.value().cloned()),
            command: plan.payload.worker_channel().map(container::worker_command).unwrap_or_default(),
            secrets: program.map(secrets).unwrap_or_default(),
            processes: plan.mesh.as_ref().map_or(1, |mesh| mesh.gpus_per_node.max(1)),
            probe: plan
                .job
                .probe
                .as_ref()
                .filter(|_| work.is_some())
                .map(|probe| ProbeSettings { minimum: probe.minimum.get() }),
            brake: plan.enforced_budget().map(|budget| brake(plan, budget)),
            work: work.map(|work| Work {
                dtype: work.dtype,
                hidden: work.hidden,
                heads: work.heads,
                kv_heads: work.kv_heads,
                head_dim: work.head_dim,
                ffn: work.ffn,
                ffn_matrices: work.ffn_matrices,
                is_causal: work.is_causal,
                sequence_length: work.sequence_length,
                sequences: work.sequences,
                attention: work.attention,
                products: work.products.clone(),
                collectives: work
                    .collectives
                    .iter()
                    .map(|one| Collective {
                        operation: one.operation.as_str(),
                        axis: one.axis.map(trainc_ir::Axis::word),
                        bytes: one.bytes,
                        constant: one.constant,
                    })
                    .collect(),
                order: work.order.iter().map(|(axis, degree)| (axis.word(), *degree)).collect(),
                checkpoint_bytes_per_node: work.checkpoint_bytes_per_node,
            }),
            channels: plan
                .job
                .channels
                .iter()
                .filter(|channel| plan.job.input_mode(channel) != "pipe")
                .filter_map(|channel| channel.name.value())
                .map(|name| (name.clone(), format!("{INPUT}/{name}")))
                .collect(),
            checkpoint: checkpoint.map(|checkpoint| {
                checkpoint.local.value().cloned().unwrap_or_else(|| CHECKPOINTS.to_owned())
            }),
        }
    }
}

fn secrets(program: &Program) -> BTreeMap<String, String> {
    let of = |secret: &trainc_ir::Secret| Some((secret.name.clone(), secret.from.text()?.to_owned()));
    program.secrets.iter().filter_map(of).collect()
}

fn brake(plan: &Plan, budget: &Budget) -> Brake {
    let is_step = |name: &str| {
        let last = name.rsplit([':', '.']).next().unwrap_or(name).to_lowercase();
        STEP_NAMES.contains(&last.as_str())
    };
    let metrics = metrics::definitions(plan, Fill::Mark).into_iter().filter(|metric| is_step(&metric.name));
    let mut patterns: Vec<String> = metrics.map(|metric| metric.regex).collect();
    if patterns.is_empty() {
        patterns.push(STEP.to_owned());
        let steps = plan.run.steps.as_ref().map(|steps| steps.value.to_string());
        patterns.extend(steps.map(|steps| BAR.replace("STEPS", &steps)));
    }
    Brake {
        hard_usd: budget.usd.get().filter(|_| budget.hard.get() == Some(true)),
        slowest: budget.slowest.get(),
        window: budget.steps.get().unwrap_or(Budget::DEFAULT_STEPS),
        steps: plan.run.steps.as_ref().map(|steps| steps.value),
        patterns,
        key: container::key_file(&plan.payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::small_plan;
    use trainc_ir::{Axis, ExpectedSpeed, ProbeWork};

    fn planned(step_seconds: f64) -> Box<Expectation> {
        let speed = ExpectedSpeed {
            step_seconds,
            is_measured: true,
            tokens_per_second: 123_456.789 / step_seconds,
            compute_seconds: step_seconds * 0.912_345_6,
            communication_seconds: step_seconds * 0.054_321_9,
            product_seconds: 1.234_567_8e-3,
            attention_seconds: Some(2.345_678_9e-4),
            collective_seconds: vec![1.234_567e-4; 4],
            constants: [
                "gpu.A100.gemm",
                "gpu.A100.flash",
                "links.fabric",
                "links.nvlink",
                "links.tensor_fabric",
            ]
            .map(|key| (key.to_owned(), 0.123_456))
            .to_vec(),
        };
        let collective = trainc_ir::Collective {
            operation: trainc_ir::Operation::AllGather,
            axis: Some(Axis::Shard),
            bytes: 4096,
            constant: "links.fabric",
        };
        let work = ProbeWork { collectives: vec![collective], dtype: "bf16", ..ProbeWork::default() };
        let further_types = (1..5).map(|n| ExpectedType {
            instance: format!("ml.trn1n.32xlarge-{n}"),
            step_seconds: Some(1_234.567),
            is_measured: false,
            usd_per_hour: (n < 4).then_some(50.5),
        });
        let further_types = further_types.collect();
        Box::new(Expectation {
            speed: Some(speed),
            usd_per_hour: Some(50.5),
            work: Some(work),
            further_types,
        })
    }

    fn request(plan: &Plan) -> serde_json::Value {
        crate::training_job_request(plan, &crate::identity(plan))
    }

    #[test]
    fn a_job_without_probe_and_enforced_budget_is_started_directly() {
        let plan = small_plan("a", "budget usd=5000 hard=#true");
        assert!(plan.payload.added.is_empty() && variables(&plan).is_empty());
        assert_eq!(request(&plan)["HyperParameters"]["sagemaker_program"], "\"train.py\"");
    }

    #[test]
    fn the_script_is_started_with_settings_and_planned_figures() {
        let nodes = "probe minimum=0.7\nbudget usd=5000 hard=#true enforce=#true slowest=0.7 steps=80";
        let mut plan = small_plan("a", nodes);
        plan.expectation = Some(planned(2.0));
        let request = request(&plan);
        assert_eq!(request["HyperParameters"]["sagemaker_program"], "\"trainc_start.py\"");
        let text = request["Environment"][PLAN_VARIABLE].as_str().unwrap();
        // Values of `Environment` have at most 512 characters (CreateTrainingJob).
        let types = request["Environment"][TYPES_VARIABLE].as_str().unwrap();
        for text in [text, types] {
            assert!(text.len() <= 512, "{}: {text}", text.len());
        }
        let types: serde_json::Value = serde_json::from_str(types).unwrap();
        assert_eq!(
            types["ml.trn1n.32xlarge-4"],
            serde_json::json!({"step_seconds": 1235.0, "measured": false, "usd_per_hour": null})
        );
        let figures: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            (figures["step_seconds"].as_f64(), figures["usd_per_hour"].as_f64()),
            (Some(2.0), Some(50.5))
        );
        use AddedFile::{Probe, StartScript, StartSettings};
        assert_eq!(plan.payload.added, [StartScript, StartSettings, Probe]);
        let settings: serde_json::Value = serde_json::from_slice(&settings(&plan).unwrap()).unwrap();
        assert_eq!(settings["entry"], "train.py");
        assert_eq!(settings["probe"]["minimum"], 0.7);
        let brake = &settings["brake"];
        assert_eq!(
            (&brake["hard_usd"], &brake["slowest"], &brake["window"]),
            (&5000.0.into(), &0.7.into(), &80.into())
        );
    }

    #[test]
    fn a_launch_script_starts_the_script_in_place_of_the_program() {
        let nodes = "image \"pytorch\" version=\"2.13\"\nprobe minimum=0.7";
        let plan = small_plan("a", nodes);
        let names: Vec<&str> = plan.payload.added.iter().map(AddedFile::name).collect();
        assert_eq!(names, ["trainc_start.py", "trainc_start.json", "trainc_probe.py", "trainc_launch.py"]);
        let text = crate::launch_script::script(&plan).unwrap();
        assert!(text.contains("\nENTRY = \"trainc_start.py\"\n"), "{text}");
        let settings: serde_json::Value = serde_json::from_slice(&settings(&plan).unwrap()).unwrap();
        assert_eq!(settings["entry"], "train.py");
        assert!(request(&plan)["Environment"][PLAN_VARIABLE].is_string());
    }

    /// On-demand prices are the maximum of spot prices, which are unknown.
    #[test]
    fn a_spot_job_has_the_on_demand_price_as_planned_figure() {
        let hourly = |nodes: &str| {
            let plan = small_plan("a", &format!("budget usd=5000 hard=#true enforce=#true\n{nodes}"));
            let (_, text) = variables(&plan).swap_remove(0);
            let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
            (figures["usd_per_hour"].as_f64().unwrap(), plan.cost_per_hour().exact().unwrap())
        };
        let (on_demand, _) = hourly("");
        let (spot, instances) = hourly("cluster { spot max-wait=\"2d\"; }");
        assert!((spot / instances - 1.0).abs() < 0.02 && (spot / on_demand - 1.0).abs() < 0.02, "{spot}");
    }

    /// The sample runs 100 steps.
    #[test]
    fn progress_bars_are_read_unless_a_metric_is_the_step() {
        let patterns = |program: &str| {
            let nodes =
                format!("budget usd=5000 hard=#true enforce=#true\nprogram \"train.py\" {{ {program} }}");
            let plan = small_plan("a", &nodes);
            brake(&plan, plan.enforced_budget().unwrap()).patterns
        };
        assert_eq!(patterns(""), [STEP, r"\|\s*(\d+)/100\s*\["]);
        assert_eq!(patterns(r#"metric "step" regex="at (\\d+)""#), [r"at (\d+)"]);
    }

    /// The role reads the key where it reads the archive, and the container finds it there. No other job has
    /// one.
    #[test]
    fn a_job_with_an_enforced_budget_has_a_key_next_to_its_archive() {
        let key = |nodes: &str| {
            let mut plan = small_plan("a", nodes);
            plan.expectation = plan.expectation.map(|_| planned(2.0));
            let path = plan.enforced_budget().and_then(|budget| brake(&plan, budget).key);
            let policy = serde_json::to_string(&crate::iam::policy(&plan)).unwrap();
            (crate::key_uri(&plan, "0"), path, policy)
        };
        for nodes in ["", "budget usd=5000 hard=#true", "probe"] {
            let (uri, path, policy) = key(nodes);
            assert!(uri.is_none() && path.is_none() && !policy.contains(crate::KEY), "{nodes}");
        }
        let enforced = "budget usd=5000 hard=#true enforce=#true";
        let (uri, path, policy) = key(enforced);
        let uri = uri.unwrap();
        assert!(uri.contains("/source/") && uri.ends_with("/rendezvous.key"), "{uri}");
        assert!(path.is_none() && policy.contains("/rendezvous.key"), "{policy}");
        for (nodes, file) in [
            ("image \"pytorch\" version=\"2.13\"", "/opt/ml/input/data/code/rendezvous.key"),
            ("network { isolation #true; }", "/opt/ml/input/data/code/rendezvous.key"),
        ] {
            let (uri, path, _) = key(&format!("{enforced}\n{nodes}"));
            assert!(uri.is_some() && path.as_deref() == Some(file), "{nodes}: {path:?}");
        }
    }

    /// A prediction is no part of the job.
    #[test]
    fn planned_figures_do_not_change_the_digest() {
        let digest = |nodes: &str, step_seconds: f64| {
            let mut plan = small_plan("a", nodes);
            plan.expectation = Some(planned(step_seconds));
            crate::identity(&plan).digest
        };
        assert_eq!(digest("probe minimum=0.7", 2.0), digest("probe minimum=0.7", 3.0));
        assert_ne!(digest("probe minimum=0.7", 2.0), digest("probe minimum=0.8", 2.0));
    }
}
