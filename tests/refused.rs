//! What the SDK, the service or the container refuses is refused here, at its place.

use crate::support::{files, read, trainc};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The code by which each case is refused. A manifest of `tests/refused` is named after its case.
const REFUSED: &[(&str, &str)] = &[
    ("entry-missing", "T0502"),
    ("git-no-repo", "T0253"),
    ("hf-mixed-version-lengths", "T0333"),
    ("hf-no-framework", "T0336"),
    ("hf-trn1", "T0335"),
    ("hf-unknown-combination-4.26-2.0", "T0332"),
    ("hf-wrong-python", "T0331"),
    ("hyperparameter-over-2500", "T0403"),
    ("hyperparameters-over-100", "T0402"),
    ("pytorchddp-and-smdistributed", "T0222"),
    ("region-without-image", "T0334"),
    ("smddp-and-smp", "T0122"),
    ("smddp-g5", "T0356"),
    ("smddp-p5en", "T0356"),
    ("smddp-pt-2.0-alias", "T0351"),
    ("smp1-manual-without-default", "T0371"),
    ("smp1-sharded-with-pipeline", "T0370"),
    ("smp1-sharded-with-tensor", "T0370"),
    ("smp1-unknown-parameter", "T0120"),
    ("smp2-on-hf", "T0376"),
    ("smp2-pt-2.6.0", "T0337"),
    ("spot-with-warm-pool", "T0424"),
    ("spot-without-max-wait", "T0129"),
    ("subnets-without-sg", "T0420"),
    ("torchrun-hf-short-version-1.13", "T0351"),
    ("torchrun-pt-2.4.1-in-list-but-not-in-matrix", "T0330"),
    ("torchrun-py2", "T0331"),
    ("trn1-mpi", "T0354"),
    ("unknown-strategy", "T0220"),
];

/// Cases whose rules are not here yet. A rule that refuses one moves it up, with its code.
const PENDING: &[&str] = &[];

/// Cases that the language cannot say.
const CANNOT_BE_SAID: &[(&str, &str)] = &[
    ("trn1-two-strategies", "a job has one engine with one launcher"),
    ("smdistributed-not-dict", "`parallel engine=\"smddp\"` is the whole setting"),
    ("smp1-without-mpi", "the launcher follows from the engine and the image's version"),
    ("parameter-server-and-smddp", "there is no engine for parameter servers, and a job has one engine"),
];

fn problems(paths: &[&str]) -> BTreeMap<String, Vec<(String, String)>> {
    let mut args = vec!["check", "-o", "json", "--today", crate::support::TODAY];
    args.extend(paths);
    let found = trainc(&args).json();
    found["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|manifest| {
            let problems =
                manifest["problems"].as_array().unwrap().iter().filter(|p| p["severity"] == "error");
            let problems = problems.map(|p| (text(&p["code"]), text(&p["message"]))).collect();
            (text(&manifest["path"]), problems)
        })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_case_is_refused_or_cannot_be_said() {
    let cases: Value = serde_json::from_str(&read("tests/golden-requests/refused.json")).unwrap();
    let cases: BTreeSet<String> = cases["cases"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(cases.len(), 33);
    let manifests = files("tests/refused", &[".kdl"]);
    let found = problems(&manifests.iter().map(String::as_str).collect::<Vec<_>>());
    let mut faults = Vec::new();
    for case in &cases {
        let errors = found.get(&format!("tests/refused/{case}.kdl"));
        let wanted = REFUSED.iter().find(|(name, _)| name == case).map(|(_, code)| *code);
        let pending = PENDING.contains(&case.as_str());
        let unsayable = CANNOT_BE_SAID.iter().any(|(name, _)| name == case);
        match (errors, wanted, pending, unsayable) {
            (None, None, false, true) => {}
            (Some(errors), Some(code), false, false) => {
                if !errors.iter().any(|(found, _)| found == code) {
                    faults.push(format!("{case}: not refused with {code}: {errors:?}"));
                }
                if errors.len() > 1 {
                    faults.push(format!("{case}: refused for more than one reason: {errors:?}"));
                }
            }
            (Some(errors), None, true, false) => {
                if !errors.is_empty() {
                    faults
                        .push(format!("{case}: is refused now: {errors:?}; move it from PENDING to REFUSED"));
                }
            }
            _ => faults.push(format!("{case}: in no table, or in several, or its manifest is missing")),
        }
    }
    for path in manifests {
        let name = path.trim_start_matches("tests/refused/").trim_end_matches(".kdl").to_owned();
        if !cases.contains(&name) {
            faults.push(format!("{path}: no such case"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_example_of_another_tool_is_refused() {
    let found = problems(&["tests/peers/terraform-spot.kdl"]);
    let mut codes: Vec<&str> = found.values().next().unwrap().iter().map(|(code, _)| code.as_str()).collect();
    codes.sort_unstable();
    // A warm pool for spot, and spot without a checkpoint.
    assert_eq!(codes, ["T0424", "T0426"]);
}
