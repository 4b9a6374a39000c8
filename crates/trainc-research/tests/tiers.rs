//! Errors on held-out rows, as claimed by the page on measured runs.

use crate::{read, shipped_table};
use trainc_predict::Constants;
use trainc_research::study::Study;
use trainc_research::tiers::TierReport;

/// Returns the mean of these families' mean errors.
fn mean_of(tier: &TierReport, families: &[&str]) -> f64 {
    let errors: Vec<f64> =
        families.iter().map(|family| tier.errors.by_family[*family].mean_error.unwrap()).collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

const OVER_NODES: [&str; 3] = ["vtrain-multi", "bloom", "korthikanti"];

#[test]
fn errors_on_held_out_rows() {
    let study = Study::new(&shipped_table(), Constants::shipped());
    let (a, b, c) = (&study.by_tier["A"], &study.by_tier["B"], &study.by_tier["C"]);
    // All families under FSDP alone, including torchtitan's three rows.
    assert_eq!(a.by_group["FSDP"].by_family.len(), 3);
    assert!(a.by_group["FSDP"].mean_error.unwrap() < 0.04, "{a:?}");
    assert!(mean_of(a, &OVER_NODES) < 0.06, "{a:?}");
    assert!(mean_of(a, &["vtrain-single"]) < 0.10, "{a:?}");
    assert!(b.by_group["FSDP"].mean_error.unwrap() < 0.05, "{b:?}");
    assert!(mean_of(b, &OVER_NODES) < 0.08, "{b:?}");
    for group in study.by_tier.values().flat_map(|tier| tier.by_group.values()) {
        assert_eq!(group.above_goal, [], "{group:?}");
        assert_eq!(group.is_met, Some(true), "{group:?}");
    }
    // The goal weights families equally and requires known GPU and links. All rows together are above it (11.7 %).
    let linked = &c.by_group["GPU and links known"];
    assert!(linked.mean_error.unwrap() < 0.10 && linked.is_met == Some(true), "{c:?}");
    // The links of `other` are unknown.
    let linked: Vec<&str> =
        c.errors.by_family.keys().map(String::as_str).filter(|family| *family != "other").collect();
    assert!(mean_of(c, &linked) < 0.10, "{c:?}");
    for tier in [a, b, c] {
        assert!(tier.errors.step_seconds.inside_interval.unwrap() >= 0.9, "{tier:?}");
        assert!(tier.half_width.median.unwrap() <= tier.half_width.goal, "{tier:?}");
    }
    assert!(study.verdict.summary.interval_half_width.unwrap() <= 0.205);
    // The shipped constants are those of a fit.
    let constants = study.fitted.as_ref().unwrap();
    for (key, name) in trainc_predict::constants::Name::ALL {
        let (shipped, fitted) = (Constants::shipped().get(*name), constants.get(*name));
        assert!((shipped / fitted - 1.0).abs() < 0.01, "{key}: {shipped}, fitted {fitted}");
    }
    assert_eq!(constants.settings(), Constants::shipped().settings());
    assert_page(&study);
    assert_printed_as_calibration(&study.render());
}

fn assert_printed_as_calibration(shown: &str) {
    let (_, ranges) = shown.split_once("over all values that fit: calibration, not evidence\n").unwrap();
    let line = ranges.lines().find(|line| line.contains("bert-squad-8n")).unwrap();
    assert!(line.contains("published 7.33, predicted") && line.contains(": inside"), "{line}");
}

/// Checks the figures of `data/README.md`.
fn assert_page(study: &Study) {
    let page = read("crates/trainc-calibrate/data/README.md");
    let tiers = ["A", "B", "C"].map(|tier| &study.by_tier[tier]);
    let row = |name: &str, digits: usize, of: &dyn Fn(&TierReport) -> Option<f64>| {
        let cells = tiers.map(|tier| format!("{:.digits$} %", 100.0 * of(tier).unwrap()));
        format!("| {name} | {} |", cells.join(" | "))
    };
    let mut rows = vec![
        row("all rows", 1, &|tier| tier.errors.step_seconds.mean_error),
        row("families weighted equally", 1, &|tier| tier.errors.families),
        row("measured inside the interval", 0, &|tier| tier.errors.step_seconds.inside_interval),
        row("inside ±0.19", 0, &|tier| {
            tier.half_width.inside_of_seen.or(tier.errors.step_seconds.inside_interval)
        }),
        row("half-width that 90 % of the rows require", 1, &|tier| tier.half_width.required),
    ];
    let begins = |line: &&str, name: &str| line.starts_with(&format!("| {name} "));
    for (family, words) in [
        ("llm-foundry", "llm-foundry (FSDP)"),
        ("fms-fsdp", "fms-fsdp (FSDP)"),
        ("korthikanti", "korthikanti (3D over nodes)"),
        ("bloom", "bloom (3D over nodes)"),
        ("vtrain-multi", "vtrain-multi (3D over nodes)"),
        ("vtrain-single", "vtrain-single (one node)"),
        ("deepspeed-azure", "deepspeed-azure (ZeRO-3)"),
        ("deepspeed-a800", "deepspeed-a800 (ZeRO-2 and 3)"),
        ("torchtitan", "torchtitan"),
    ] {
        assert!(page.lines().any(|line| begins(&line, family)), "{family}");
        rows.push(row(words, 1, &|tier| tier.errors.by_family[family].mean_error));
    }
    let width = format!("{:.1} % of the prediction", 100.0 * tiers[2].half_width.median.unwrap());
    assert!(page.contains(&width), "data/README.md lacks the half-width of tier C, {width}");
    for row in rows {
        assert!(page.lines().any(|line| line == row), "data/README.md lacks `{row}`");
    }
    // Memory is judged by the shipped constants, which are rounded.
    let summary = &study.verdict.summary;
    let (memory, oom) = (summary.peak_memory_bytes, summary.oom);
    let [mean, median, inside] =
        [memory.mean_error, memory.median_error, memory.inside_interval].map(|share| 100.0 * share.unwrap());
    let within = (inside / 100.0 * memory.rows as f64).round();
    let text = format!(
        "Peak memory: {} rows, mean {mean:.1} %, median {median:.1} %, {inside:.1} % inside the interval ({within} of {}). Of {} rows that ran out of memory {} are predicted not to fit; of {} that ran, {} are.",
        memory.rows, memory.rows, oom.rows, oom.caught, oom.ran, oom.wrong
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&page).contains(&text), "data/README.md lacks `{text}`");
}
