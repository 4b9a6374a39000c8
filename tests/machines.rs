//! The search over all instance types and numbers of nodes, held against a list of all layouts that are
//! predicted one by one; and the machine that `plan` names.

use crate::support::{Scratch, one_line, options, root, trainc_in};
use std::collections::BTreeSet;
use std::time::Duration;
use trainc_catalog::{instances, prices};
use trainc_check::can_run_on;
use trainc_diag::Severity;
use trainc_ir::Plan;
use trainc_ops::checked_layouts::check_layouts;
use trainc_predict::memory::MEAN_ERROR;
use trainc_predict::{Constants, Fit};
use trainc_project::loaded_manifest::LoadedManifest;
use trainc_tune::better_machine::least_time_and_cost;
use trainc_tune::front::{Measure, TRUSTED_NODES};
use trainc_tune::search::predict_choice;
use trainc_tune::{Limits, Point, Space, Status, TimeAndCost, better_machines, pareto_front, search};

/// Jobs of different engines and models, with experts and adapters among them, on 1 to 32 nodes.
const EXAMPLES: [&str; 13] = [
    "starter",
    "bert-squad-smddp",
    "falcon-40b-qlora",
    "gpt2-30b-seq512",
    "gpt2-30b-sharded",
    "llama-70b-zero3",
    "llama-7b-fsdp",
    "llama-8b-2d",
    "neox-20b-fsdp",
    "qwen-32b-qlora",
    "qwen3-30b-a3b",
    "qwen3-8b-fsdp2",
    "qwen3-8b-qlora-deepspeed",
];

fn load(name: &str) -> LoadedManifest {
    let path = root().join(format!("examples/{name}/trainc.kdl")).to_string_lossy().into_owned();
    LoadedManifest::load_single(&[path], &options("")).unwrap()
}

/// Calls `each` with the space and the plan of every example.
fn each_example(each: impl Fn(&str, &mut LoadedManifest, &Plan, &Space)) {
    for name in EXAMPLES {
        let mut held = load(name);
        let set = held.compile(&options(""));
        let plan = set.manifests[0].compiled.plan.as_deref().unwrap();
        let space = Space::from_plan(plan, &Limits::default(), Constants::shipped(), &can_run_on).unwrap();
        each(name, &mut held, plan, &space);
    }
}

/// Returns the types that a job can run on, by the tables.
fn types(plan: &Plan) -> BTreeSet<String> {
    let region = plan.job.region.value().unwrap();
    let own = plan.instance.as_ref().unwrap();
    let others = instances::all()
        .filter(|row| prices::newest(&row.name, region).is_some() && trainc_check::can_run_on(plan, row));
    others.map(|row| row.name).chain([own.name.clone()]).collect()
}

/// Time and cost that are compared, of a layout that may be chosen.
#[derive(Clone, Debug)]
struct Listed {
    seconds: f64,
    usd: Option<f64>,
    is_sure: bool,
}

/// Predicts every layout of every type alone, one by one.
fn list_all(plan: &Plan) -> Vec<Listed> {
    let own_nodes = plan.mesh.as_ref().unwrap().nodes;
    let mut out = Vec::new();
    for name in types(plan) {
        let limits = Limits { instances: vec![name], max_nodes: Some(2 * own_nodes), ..Limits::default() };
        let space = Space::from_plan(plan, &limits, Constants::shipped(), &can_run_on).unwrap();
        let mut choices = Vec::new();
        space.visit(|choice, _| choices.push(*choice));
        for choice in choices {
            let Some(found) = predict_choice(&space, &choice, Constants::shipped()) else { continue };
            let memory = &found.memory;
            let has_room = memory.per_gpu_bytes * (1.0 + MEAN_ERROR) <= memory.capacity_bytes.unwrap();
            let Some(interval) = found.run.expected_interval().filter(|_| has_room) else { continue };
            let by_upper_end = choice.nodes > TRUSTED_NODES;
            let seconds = found.run.expected_seconds();
            let factor = if by_upper_end { interval.high / seconds } else { 1.0 };
            out.push(Listed {
                seconds: seconds * factor,
                usd: found.run.least_usd.map(|usd| usd * factor),
                is_sure: memory.fit() == Some(Fit::Surely),
            });
        }
    }
    out
}

/// Returns what no other of the list beats, by holding each against each.
fn unbeaten(all: &[Listed]) -> BTreeSet<(String, String)> {
    let cost = |one: &Listed| one.usd.unwrap_or(f64::INFINITY);
    let best = all.iter().filter(|one| {
        !all.iter().any(|other| {
            let no_worse = other.seconds <= one.seconds && cost(other) <= cost(one);
            no_worse && (other.seconds < one.seconds || cost(other) < cost(one))
        })
    });
    best.map(|one| figures(one.seconds, cost(one))).collect()
}

/// Formats time and cost for a comparison.
fn figures(seconds: f64, cost: f64) -> (String, String) {
    (format!("{seconds:.9e}"), format!("{cost:.9e}"))
}

#[test]
fn the_search_finds_what_a_list_of_all_layouts_has() {
    each_example(|name, _, plan, space| {
        let own_nodes = plan.mesh.as_ref().unwrap().nodes;
        let found: BTreeSet<String> =
            (0..space.sites.len()).map(|site| space.instance_name(site).to_owned()).collect();
        assert_eq!(found, types(plan), "{name}");
        assert!(space.nodes.iter().all(|nodes| *nodes <= 2 * own_nodes), "{name}: {:?}", space.nodes);
        let points = search(space, &Limits::default(), Constants::shipped()).unwrap();
        let listed = list_all(plan);
        let valid = points.iter().filter(|point| point.status == Status::Valid);
        assert_eq!(listed.len(), valid.count(), "{name}");
        // Without a price of spot instances the front is by that on demand, which the list does not have.
        if listed.iter().all(|one| one.usd.is_none()) {
            return;
        }
        let measure = Measure::from_points(&points);
        let of = |at: usize| figures(points[at].compared_seconds(), measure.cost(&points[at]));
        assert_eq!(
            pareto_front(&points).into_iter().map(of).collect::<BTreeSet<_>>(),
            unbeaten(&listed),
            "{name}"
        );
        let fastest = |of: &mut dyn Iterator<Item = f64>| of.fold(f64::INFINITY, f64::min);
        let sure = fastest(&mut listed.iter().filter(|one| one.is_sure).map(|one| one.seconds));
        let shown = trainc_tune::front_to_show(&points);
        let first = &points[shown[0]];
        assert!(first.surely_fits() && first.compared_seconds() <= sure * (1.0 + 1e-9), "{name}: {first:?}");
    });
}

#[test]
fn no_proposal_fails_the_checks() {
    each_example(|name, held, _, space| {
        let base = held.compile(&options(""));
        let points = search(space, &Limits::default(), Constants::shipped()).unwrap();
        let checked = check_layouts(held, &options(""), &base.manifests[0].compiled, space, points);
        assert!(!checked.front.is_empty() && !checked.cut, "{name}");
        for sound in &checked.front {
            let mut options = options("");
            let sets = space.values_to_set(&checked.points[sound.at].choice);
            options.choices.sets = sets.iter().map(ToString::to_string).collect();
            options.choices.replaces_file_values = true;
            let compiled = held.compile(&options);
            let problems = &compiled.manifests[0].compiled.problems;
            let errors: Vec<_> = problems.iter().filter(|one| one.severity == Severity::Error).collect();
            assert!(errors.is_empty(), "{name} {sets:?}: {errors:?}");
        }
        assert!(checked.points[checked.front[0].at].surely_fits(), "{name}");
    });
}

/// The bound is below every layout, and what it leaves out is not better than what is found.
#[test]
fn the_better_machine_is_that_of_a_full_search() {
    let mut found_some = 0;
    each_example(|name, held, plan, space| {
        let points = search(space, &Limits::default(), Constants::shipped()).unwrap();
        let bounds: BTreeSet<(usize, u64)> =
            points.iter().map(|point| (point.choice.site, point.choice.nodes)).collect();
        let least = |at: &(usize, u64)| least_time_and_cost(space, at.0, at.1, Constants::shipped());
        for at in &bounds {
            let here = points.iter().filter(|point| (point.choice.site, point.choice.nodes) == *at);
            let fastest = here.map(|point| point.seconds).fold(f64::INFINITY, f64::min);
            if let Some(least) = least(at) {
                assert!(least.seconds <= fastest * (1.0 + 1e-9), "{name} {at:?}: {least:?}, {fastest}");
            }
        }
        let base = held.compile(&options(""));
        let run = base.manifests[0].compiled.prediction.run.as_ref().unwrap();
        let Some(now) = TimeAndCost::from_run(run) else { return };
        let budget = plan.job.budget.as_ref().and_then(|budget| budget.usd.get()).unwrap_or(f64::INFINITY);
        let own = (plan.instance.as_ref().unwrap(), plan.mesh.as_ref().unwrap().nodes);
        let has_efa = |name: &str| instances::get(name).unwrap().efa == Some(true);
        let is_candidate = |point: &&Point| {
            let (instance, nodes) = (space.instance_name(point.choice.site), point.choice.nodes);
            let links = nodes == 1 || has_efa(instance) || own.1 > 1 && own.0.efa != Some(true);
            let run = point.usd.map(|usd| TimeAndCost { seconds: point.seconds, usd });
            let is_better = run.is_some_and(|run| run.usd <= budget && run.saving(now).is_some());
            point.surely_fits() && links && is_better && (instance, nodes) != (own.0.name.as_str(), own.1)
        };
        let best =
            points.iter().filter(is_candidate).filter_map(|point| point.usd).fold(f64::INFINITY, f64::min);
        let found = better_machines(space, now, Constants::shipped());
        let first = found.first().map_or(f64::INFINITY, |one| one.run.usd);
        assert!(first == best || (first / best - 1.0).abs() < 1e-9, "{name}: {first}, {best}");
    });
    for name in EXAMPLES {
        let path = format!("examples/{name}/trainc.kdl");
        let shown =
            trainc_in(root(), &["plan", "--offline", &path, "-o", "json"], b"", Duration::from_mins(1));
        let plan = shown.json();
        let found = &plan["elsewhere"];
        if found.is_null() {
            continue;
        }
        found_some += 1;
        let (seconds, usd) = (found["seconds"].as_f64().unwrap(), found["cost_usd"].as_f64().unwrap());
        let now = &plan["run"];
        let (before, paid) = (now["seconds"].as_f64().unwrap(), now["cost_usd"].as_f64().unwrap());
        assert!(seconds <= before && usd <= paid, "{name}: {found}");
        assert!(seconds <= 0.8 * before || usd <= 0.8 * paid, "{name}: {found}");
    }
    assert!(found_some >= 4, "{found_some}");
}

/// The shipped starter is twice as dear as it has to be, and the plan of that one manifest says so.
#[test]
fn a_plan_of_one_manifest_names_a_better_machine() {
    let dir = Scratch::new("machines");
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    assert_eq!(run(&["init", "--example", "starter", "job"]).code, Some(0));
    let found = run(&["plan", "--offline", "job/trainc.kdl", "-o", "json"]).json();
    let found = &found["elsewhere"];
    assert_eq!((found["instance"].as_str(), found["nodes"].as_u64()), (Some("ml.p4d.24xlarge"), Some(1)));
    assert!((found["saves"].as_f64().unwrap() - 0.45).abs() < 0.1, "{found}");
    let shown = run(&["plan", "--offline", "job/trainc.kdl"]).out;
    let line = "elsewhere 1 × ml.p4d.24xlarge: ";
    assert!(shown.contains(line) && one_line(&shown).contains(", needs quota L-"), "{shown}");
    // It is the row of `tune` on that machine.
    let args = ["tune", "job/trainc.kdl", "--instances", "ml.p4d.24xlarge", "--max-nodes", "1", "-o", "json"];
    assert_eq!(run(&args).json()["front"][0]["cost_usd"], found["cost_usd"]);
    // Standard input is one manifest, too; a directory is several, and an artefact does not depend on other
    // types.
    let text = std::fs::read(dir.0.join("job/trainc.kdl")).unwrap();
    let piped = trainc_in(
        &dir.0.join("job"),
        &["plan", "--offline", "-", "-o", "json"],
        &text,
        Duration::from_mins(1),
    );
    assert_eq!(piped.json()["elsewhere"]["instance"], found["instance"], "{}", piped.err);
    let all = run(&["plan", "--offline", "job/", "-o", "json"]).json();
    assert!(all[0].is_object() && all[0].get("elsewhere").is_none(), "{all}");
    assert_eq!(run(&["emit", "job/trainc.kdl", "--out", "out"]).code, Some(0));
    let emitted = std::fs::read_to_string(dir.0.join("out/plan.json")).unwrap();
    assert!(!emitted.contains("\"elsewhere\""));
    // On the machine that it names, nothing is better.
    let args = ["tune", "job/trainc.kdl", "--instances", "ml.p4d.24xlarge", "--max-nodes", "1", "--write"];
    assert_eq!(run(&args).code, Some(0));
    let written = std::fs::read_to_string(dir.0.join("job/trainc.kdl")).unwrap();
    assert!(
        written.contains("cluster \"ml.p4d.24xlarge\" nodes=1 {") && written.contains("// Spot is cheaper.")
    );
    let after = run(&["plan", "--offline", "job/trainc.kdl", "-o", "json"]).json();
    assert!(after["elsewhere"].is_null() && after.get("elsewhere").is_some(), "{}", after["elsewhere"]);
}

/// Machines that the job does not choose by type are compared with no others.
#[test]
fn reserved_and_preferred_machines_stay() {
    let dir = Scratch::new("machines-fixed");
    let text = std::fs::read_to_string(root().join("examples/starter/trainc.kdl")).unwrap();
    std::fs::create_dir_all(dir.0.join("scripts")).unwrap();
    std::fs::copy(root().join("examples/starter/scripts/train.py"), dir.0.join("scripts/train.py")).unwrap();
    let plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/mine";
    let reserved =
        text.replace("max-run \"4h\"", &format!("max-run \"4h\"\n        training-plan \"{plan}\""));
    let preferred = text.replace("cluster \"ml.g5.12xlarge\" nodes=1", "cluster nodes=1").replace(
        "budget usd=50",
        "budget usd=50\n    request { ResourceConfig { InstancePreferences {\n        - \
            InstanceType=\"ml.g5.12xlarge\"\n        - InstanceType=\"ml.g6.12xlarge\"\n    } } }",
    );
    for text in [reserved, preferred] {
        std::fs::write(dir.0.join("job.kdl"), &text).unwrap();
        let tuned = trainc_in(&dir.0, &["tune", "job.kdl", "-o", "json"], b"", Duration::from_mins(1));
        let all = tuned.json();
        let is_own = |row: &serde_json::Value| row["instance"] == "ml.g5.12xlarge" && row["nodes"] == 1;
        let front = all["front"].as_array().unwrap();
        assert!(!front.is_empty() && front.iter().all(is_own), "{text}\n{all}\n{}", tuned.err);
        let planned =
            trainc_in(&dir.0, &["plan", "--offline", "job.kdl", "-o", "json"], b"", Duration::from_mins(1));
        assert!(planned.json()["elsewhere"].is_null(), "{text}");
    }
}

/// Beyond what the cost model orders, the search says so.
#[test]
fn the_order_of_layouts_with_experts_is_called_unreliable() {
    let tune = |name: &str, format: &str| {
        let path = format!("examples/{name}/trainc.kdl");
        let args = ["tune", &path, "--instances", "ml.p5.48xlarge", "--max-nodes", "2", "-o", format];
        trainc_in(root(), &args, b"", Duration::from_mins(1))
    };
    assert_eq!(tune("qwen3-30b-a3b", "json").json()["order_is_reliable"], false);
    let words = "order of layouts of models with experts is not reliable";
    assert!(one_line(&tune("qwen3-30b-a3b", "human").out).contains(words));
    assert!(tune("qwen3-30b-a3b", "markdown").out.contains(words));
    assert_eq!(tune("qwen3-8b-fsdp2", "json").json()["order_is_reliable"], true);
    assert!(!one_line(&tune("qwen3-8b-fsdp2", "human").out).contains(words));
}
