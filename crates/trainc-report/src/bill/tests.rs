//! Bills of two texts: changed figures, the edits that changed them, and all output formats.

use super::total::{Sum, Total};
use super::*;
use crate::Options;
use crate::samples::Nowhere;
use crate::shared_costs::job_file_systems;
use trainc_check::compile;
use trainc_diag::source::SourceMap;
use trainc_plan::Compiled;
use trainc_plan::plan_and_predict;
use trainc_plan::resolve::Merged;
use trainc_testing::json_schema;
use trainc_tune::compare::{Side, compare};

/// On demand, since spot prices are not known.
static LLAMA: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let text = include_str!("../../../../examples/llama-7b-fsdp/trainc.kdl");
    let kept: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("spot ")).collect();
    kept.join("\n") + "\n"
});

struct Two {
    sources: SourceMap,
    before: Option<Compiled>,
    after: Option<Compiled>,
}

fn compile_two(before: Option<&str>, after: Option<&str>) -> Two {
    let mut sources = SourceMap::default();
    let mut one = |name: &str, text: &str| {
        let id = sources.add(name, text);
        compile(id, text, &trainc_plan::Options::default(), &mut Nowhere, &mut sources)
    };
    let before = before.map(|text| one("main:job.kdl", text));
    let after = after.map(|text| one("job.kdl", text));
    Two { sources, before, after }
}

impl Two {
    fn bill(&self) -> Bill<'_> {
        fn figures(one: &Compiled) -> Figures {
            one.plan.as_ref().map(|plan| Figures::from_prediction(plan, &one.prediction)).unwrap_or_default()
        }
        fn job_side<'a>(path: &'a str, one: &'a Compiled) -> JobSide<'a> {
            let plan = one.plan.as_ref().zip(one.prediction.run.as_ref());
            let file_systems =
                plan.map(|(plan, run)| job_file_systems(plan, run.expected_seconds())).unwrap_or_default();
            JobSide {
                path,
                job: one.job.as_deref(),
                figures: figures(one),
                file_systems,
                prices: one.plan.iter().flat_map(|plan| plan.instance_prices()).collect(),
                problems: &one.problems,
                digest: one.sagemaker_plan().map(|plan| trainc_emit::identity(plan).digest),
                delivery: one.plan.as_ref().map(|plan| &plan.delivery),
            }
        }
        let change = self.before.as_ref().zip(self.after.as_ref()).and_then(|(before, after)| {
            let (old, new) = (before.merged.as_ref()?, after.merged.as_ref()?);
            let mut sources = self.sources.clone();
            let mut predict = |node: &trainc_syntax::ast::Node| {
                let merged = Merged {
                    node: node.clone(),
                    overrides: Vec::new(),
                    is_whole: true,
                    files: Vec::new(),
                    programs: Vec::new(),
                    requirements: Vec::new(),
                };
                let options = trainc_plan::Options::default();
                let tried =
                    plan_and_predict(merged, Problems::default(), &options, &mut Nowhere, &mut sources);
                (tried.problems.errors() == 0).then(|| figures(&tried))
            };
            let (was, is) = (figures(before), figures(after));
            let sides = (Side { node: &old.node, figures: &was }, Side { node: &new.node, figures: &is });
            Some(compare(sides.0, sides.1, Vec::new(), &mut predict))
        });
        let job = Job {
            before: self.before.as_ref().map(|one| job_side("main:job.kdl", one)),
            after: self.after.as_ref().map(|one| job_side("job.kdl", one)),
            change,
            program: false,
        };
        let commit = Some("0123456789abcdef0123456789abcdef01234567".to_owned());
        Bill { base: Base { name: "main".to_owned(), commit }, jobs: vec![job], sources: &self.sources }
    }
}

#[track_caller]
fn edit_manifest(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(LLAMA.clone(), |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    })
}

#[test]
fn one_edit_is_the_whole_difference() {
    let two = compile_two(
        Some(LLAMA.as_str()),
        Some(&edit_manifest(&[
            ("max-run \"5d\"", "max-run \"4d\""),
            ("tokens 20_000_000_000", "tokens 10_000_000_000"),
        ])),
    );
    let bill = two.bill();
    let [job] = bill.jobs.as_slice() else { panic!() };
    let change = job.change.as_ref().unwrap();
    let whole =
        job.before.as_ref().unwrap().figures.difference(&job.after.as_ref().unwrap().figures, Figure::Cost);
    let steps = change
        .shares
        .shares
        .iter()
        .find(|share| share.edits.iter().any(|at| change.edits[*at].path == "train.tokens"));
    let steps = steps.unwrap();
    let (alone, last) =
        (&steps.alone.as_ref().unwrap()[&Figure::Cost], &steps.last.as_ref().unwrap()[&Figure::Cost]);
    assert!((alone - whole.unwrap()).abs() < 1e-6 && (alone - last).abs() < 1e-6 && *alone < 0.0);
    assert_eq!(change.shares.interaction(Figure::Cost), None);
    let text = human(&bill, Options::default());
    assert!(
        text.contains("train.tokens 20_000_000_000 → 10_000_000_000") && !text.contains("together"),
        "{text}"
    );
}

/// Without a price of the file system the cost is null, and known prices give a lower bound.
#[test]
fn a_missing_price_makes_the_cost_a_lower_bound() {
    let unpriced = [(
        "capacity=\"4800GiB\" deployment=\"persistent-2\" throughput=250",
        "capacity=\"5400GiB\" deployment=\"persistent-1\" type=\"hdd\" drive-cache=\"none\" throughput=40",
    )];
    let shorter = [unpriced[0], ("tokens 20_000_000_000", "tokens 10_000_000_000")];
    let two = compile_two(Some(&edit_manifest(&unpriced)), Some(&edit_manifest(&shorter)));
    let bill = two.bill();
    let [job] = bill.jobs.as_slice() else { panic!() };
    assert_eq!(job.figure(Figure::Cost), (None, None));
    let (Some(before), Some(after)) = job.figure(Figure::Least) else { panic!() };
    assert!(after < before);
    let Total { cost: Sum { usd: None, .. }, on_demand: Sum { usd: None, .. }, unknown: 1 } = bill.total()
    else {
        panic!()
    };
    for text in [human(&bill, Options::default()), markdown(&bill)] {
        let text = text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
        let least = format!(
            "at least {} → at least {}",
            trainc_diag::text::dollars(before),
            trainc_diag::text::dollars(after)
        );
        assert!(text.contains(&least) && text.contains("of known prices"), "{text}");
        assert!(text.contains("the cost excludes `corpus`, whose price is unknown"), "{text}");
        assert!(text.contains("1 job: 1 changed; its cost is not known"), "{text}");
    }
    let mut bill = bill.clone();
    let sums = |bill: &Bill| {
        let total = serde_json::to_value(document(bill)).unwrap()["total"].take();
        ["before_usd", "after_usd", "difference_usd"].map(|key| total[key].as_f64())
    };
    assert_eq!(sums(&bill), [None; 3], "a sum of no job is not 0");
    assert_eq!(
        json_schema::violations(SCHEMA, &serde_json::to_value(document(&bill)).unwrap()),
        Vec::<String>::new()
    );
    let known = self::compile_two(None, Some(LLAMA.as_str()));
    let known = known.bill();
    bill.jobs.extend(known.jobs.clone());
    let [Some(was), Some(is), Some(_)] = sums(&bill) else { panic!() };
    assert!(was == 0.0 && is > 0.0);
    let text = human(&bill, Options::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("; excluding 1 job whose cost is not known"), "{text}");
    bill.jobs.pop();
    let document = document(&bill);
    assert_eq!(document.jobs[0].difference.cost_usd, Some(None));
    assert_eq!(document.jobs[0].difference.least_usd, Some(Some(after - before)));
    assert!(document.jobs[0].after.as_ref().unwrap().intervals.cost_usd.is_none());
}

/// Spot prices are not known in advance: each side is shown at on-demand prices, apart from jobs with a known
/// cost.
#[test]
fn a_job_on_spot_is_shown_at_the_price_on_demand() {
    let spot = include_str!("../../../../examples/llama-7b-fsdp/trainc.kdl");
    let shorter = spot.replace("tokens 20_000_000_000", "tokens 10_000_000_000");
    assert!(spot.contains("        spot ") && shorter != spot);
    let two = compile_two(Some(spot), Some(&shorter));
    let mut bill = two.bill();
    let [job] = bill.jobs.as_slice() else { panic!() };
    assert_eq!((job.figure(Figure::Cost), job.cost()), ((None, None), Figure::OnDemand));
    let (Some(before), Some(after)) = job.figure(Figure::OnDemand) else { panic!() };
    // The same hours of the same manifest without `spot`.
    let hours = |compiled: &Option<Compiled>| {
        compiled.as_ref().unwrap().prediction.run.as_ref().unwrap().expected_seconds() / 3_600.0
    };
    assert!((before / after - hours(&two.before) / hours(&two.after)).abs() < 1e-9);
    let total = bill.total();
    assert_eq!((total.cost.usd, total.on_demand.usd, total.unknown), (None, Some((before, after)), 0));
    let moved = format!("{} → {}", trainc_diag::text::dollars(before), trainc_diag::text::dollars(after));
    for text in [human(&bill, Options::default()), markdown(&bill)] {
        let text = text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("1 changed; 1 job on spot at on-demand prices: {moved}, ")), "{text}");
    }
    let value = serde_json::to_value(document(&bill)).unwrap();
    assert_eq!(json_schema::violations(SCHEMA, &value), Vec::<String>::new());
    assert_eq!(value["total"]["jobs_not_counted"], 1);
    assert_eq!(value["total"]["on_demand"]["difference_usd"], after - before);
    assert_eq!(value["total"]["difference_usd"], serde_json::Value::Null);
    // If only one side is on spot, there is no difference: an upper bound cannot be compared with a cost.
    let without = self::compile_two(
        Some(LLAMA.as_str()),
        Some(&spot.replace("max-wait=\"7d\"", "max-wait=\"7d\" interruptions-per-hour=0.01")),
    );
    let half = without.bill();
    let text = human(&half, Options::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    let (Some(cost), None) = half.jobs[0].figure(Figure::Cost) else { panic!() };
    let most = trainc_diag::text::dollars(half.jobs[0].figure(Figure::OnDemand).1.unwrap());
    let line = format!("cost {} → {most} at on-demand prices", trainc_diag::text::dollars(cost));
    assert!(text.contains(&line) && !text.contains("prices, +") && !text.contains("prices (+"), "{text}");
    let value = serde_json::to_value(document(&half)).unwrap();
    assert_eq!(json_schema::violations(SCHEMA, &value), Vec::<String>::new());
    assert!(
        value["total"]["on_demand"]["difference_usd"].is_null()
            && value["total"]["on_demand"]["after_usd"].is_number()
    );
    // With another job whose cost is known, both sums are shown.
    let known = self::compile_two(None, Some(LLAMA.as_str()));
    let known = known.bill();
    bill.jobs.extend(known.jobs.clone());
    let total = bill.total();
    assert_eq!(total.on_demand.usd, Some((before, after)));
    assert!(total.cost.usd.is_some_and(|(was, is)| was == 0.0 && is > 0.0) && total.unknown == 0);
}

/// Another global batch is a different training, and a job that fitted may no longer fit.
#[test]
fn another_batch_and_tight_memory_are_noted() {
    let notes = |edits: &[(&str, &str)]| {
        let two = compile_two(Some(LLAMA.as_str()), Some(&edit_manifest(edits)));
        let bill = two.bill();
        let [job] = bill.jobs.as_slice() else { panic!() };
        let figures = &job.after.as_ref().unwrap().figures;
        let room = figures.get(Figure::Headroom).zip(figures.interval(Figure::Headroom));
        (super::format::notes(bill.sources, job).join("; "), room.unwrap())
    };
    let (same, _) = notes(&[("max-run \"5d\"", "max-run \"4d\"")]);
    assert!(!same.contains("different training") && !same.contains("may no longer fit"), "{same}");
    let (other, _) = notes(&[("global-batch 1024", "global-batch 512")]);
    assert!(other.contains("different training: global batch 512 instead of 1,024"), "{other}");
    let mut seen = [0, 0];
    for thousands in (4..32).step_by(4) {
        let (said, (free, interval)) =
            notes(&[("sequence-length 2048", &format!("sequence-length {}", 1_024 * thousands))]);
        let tight = free >= 0.0 && interval.low < 0.0;
        assert_eq!(said.contains("may no longer fit"), tight, "{thousands}: {said}");
        seen[usize::from(tight)] += 1;
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}

#[test]
fn edits_that_interact_say_so() {
    let two = compile_two(
        Some(LLAMA.as_str()),
        Some(&edit_manifest(&[("tokens 20_000_000_000", "tokens 40_000_000_000"), ("nodes=8", "nodes=16")])),
    );
    let bill = two.bill();
    let change = bill.jobs[0].change.as_ref().unwrap();
    let rest = change.shares.interaction(Figure::Time).unwrap();
    // Twice the steps at half the time each: the effects of the edits do not add up.
    let sum: f64 =
        change.shares.shares.iter().map(|share| share.alone.as_ref().unwrap()[&Figure::Time]).sum();
    let (was, is) = bill.jobs[0].figure(Figure::Time);
    assert!((sum + rest - (is.unwrap() - was.unwrap())).abs() < 1e-6);
    let text = human(&bill, Options::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("they interact") && text.contains("on top of the other edits"), "{text}");
}

#[test]
fn edits_that_are_only_valid_together_are_one() {
    let two = compile_two(
        Some(LLAMA.as_str()),
        Some(&edit_manifest(&[
            ("tokens 20_000_000_000", "steps 40_000"),
            ("max-run \"5d\"", "max-run \"6d\""),
        ])),
    );
    let bill = two.bill();
    let change = bill.jobs[0].change.as_ref().unwrap();
    let pair = change.shares.shares.iter().find(|share| share.edits.len() == 2).unwrap();
    let paths: Vec<&str> = pair.edits.iter().map(|at| change.edits[*at].path.as_str()).collect();
    assert_eq!(paths, ["train.steps", "train.tokens"]);
    assert!(pair.alone.is_some());
}

#[test]
fn new_removed_broken_and_unchanged_jobs_differ() {
    let state = |before: Option<&str>, after: Option<&str>| {
        let two = compile_two(before, after);
        let bill = two.bill();
        (bill.jobs[0].state(), human(&bill, Options::default()), bill.differs())
    };
    let (is, text, differs) = state(Some(LLAMA.as_str()), Some(&format!("// a comment\n{}", *LLAMA)));
    assert_eq!((is, differs), (State::Unchanged, false), "{text}");
    assert!(text.contains("1 unchanged") && text.contains("unchanged"), "{text}");
    let (is, text, _) = state(None, Some(LLAMA.as_str()));
    assert_eq!(is, State::New);
    assert!(text.contains("new\n") && text.contains("$0.00 → $"), "{text}");
    let (is, text, _) = state(Some(LLAMA.as_str()), None);
    assert_eq!(is, State::Removed);
    assert!(text.contains(", removed\n"), "{text}");
    let (is, text, _) = state(Some("job \"a\" { train { steps \"x\" } }"), Some(LLAMA.as_str()));
    assert_eq!(is, State::Changed);
    assert!(text.contains("errors before: main:job.kdl:1 T0"), "{text}");
    assert!(text.contains("not known → $"), "{text}");
}

#[test]
fn the_schema_describes_every_bill() {
    let all = [
        (
            Some(LLAMA.as_str()),
            Some(edit_manifest(&[
                ("tokens 20_000_000_000", "tokens 40_000_000_000"),
                ("nodes=8", "nodes=16"),
            ])),
        ),
        (Some(LLAMA.as_str()), None),
        (None, Some(LLAMA.clone())),
        (Some("job \"a\" {"), Some(LLAMA.clone())),
        // A misspelt node is fixed by an edit.
        (None, Some(edit_manifest(&[("sequence-length", "sequence-lenght")]))),
        // Only an EC2 price of these is known.
        (Some(LLAMA.as_str()), Some(edit_manifest(&[("ml.p4d.24xlarge", "ml.p6-b200.48xlarge")]))),
    ];
    let mut written = std::collections::BTreeSet::new();
    for (before, after) in &all {
        let two = compile_two(*before, after.as_deref());
        let document = serde_json::to_value(document(&two.bill())).unwrap();
        assert_eq!(json_schema::violations(SCHEMA, &document), Vec::<String>::new());
        json_schema::collect_keys(&document, &mut written);
    }
    // Members of problems are those of `check -o json`; intervals are keyed by figure.
    let described = json_schema::described_keys(SCHEMA);
    let missing: Vec<&String> = described.iter().filter(|key| !written.contains(*key)).collect();
    assert!(missing.is_empty(), "described and never written: {missing:?}");
}

/// Both sides of a sum count what two jobs share once.
#[test]
fn a_file_system_that_jobs_share_is_in_each_sum_once() {
    let long = edit_manifest(&[("tokens 20_000_000_000", "tokens 40_000_000_000")]);
    let two = compile_two(Some(LLAMA.as_str()), Some(&long));
    let mut bill = two.bill();
    let (before, after) = bill.total().cost.usd.unwrap();
    let one = bill.jobs[0].clone();
    bill.jobs.push(one);
    let storage = |compiled: &Option<Compiled>| {
        let run = compiled.as_ref().unwrap().prediction.run.as_ref();
        run.unwrap().cost_parts.file_systems.exact().unwrap()
    };
    let Total { cost: Sum { usd: Some((was, is)), .. }, unknown: 0, .. } = bill.total() else { panic!() };
    assert!((was - (2.0 * before - storage(&two.before))).abs() < 1e-6, "{was} {before}");
    assert!((is - (2.0 * after - storage(&two.after))).abs() < 1e-6, "{is} {after}");
    for text in [human(&bill, Options::default()), markdown(&bill)] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("; shared file system `corpus` counted once"), "{text}");
    }
    let document = serde_json::to_value(document(&bill)).unwrap();
    assert_eq!(json_schema::violations(SCHEMA, &document), Vec::<String>::new());
    assert_eq!(document["total"]["file_systems_counted_once"], serde_json::json!(["corpus"]));
}

#[test]
fn the_comment_stays_within_its_limit() {
    let long = edit_manifest(&[("tokens 20_000_000_000", "tokens 40_000_000_000"), ("nodes=8", "nodes=16")]);
    let two = compile_two(Some(LLAMA.as_str()), Some(&long));
    let mut bill = two.bill();
    let one = bill.jobs[0].clone();
    bill.jobs = vec![one; 400];
    let text = markdown(&bill);
    let length = text.encode_utf16().count();
    assert!(text.starts_with(&format!("{MARKER}\n")) && length < 65_536, "{length}");
    assert!(text.contains("more jobs without their edits"));
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
}
