//! Errors on held-out rows, as claimed by the page on measured runs.

use crate::{read, shipped_table};
use trainc_calibrate::held_out::{HeldOut, Tier};
use trainc_calibrate::judge::judge;
use trainc_calibrate::verdict::Summary;
use trainc_predict::Constants;
use trainc_research::stored::{self, Stale};
use trainc_research::study::Study;
use trainc_research::tiers::TierReport;

const STORED: &str = "crates/trainc-research/data/held_out.csv";

/// The page states what the stored times of held-out rows say, which are those of the shipped constants.
#[test]
fn the_page_states_the_stored_errors() {
    let (table, constants) = (shipped_table(), Constants::shipped());
    let command = format!("`cargo run -p trainc-research -- crates/trainc-calibrate/data/runs.csv {STORED}`");
    let held_out = stored::from_text(&read(STORED), &table, constants)
        .unwrap_or_else(|Stale(why)| panic!("{STORED}: {why}; {command} writes it again"));
    let reports = Tier::ALL.map(|tier| TierReport::new(tier, &held_out, constants));
    assert_page(reports.each_ref(), &judge(&table, constants).summary);
}

#[test]
fn stored_errors_of_other_constants_or_runs_are_stale() {
    let (table, text) = (shipped_table(), read(STORED));
    let mut other = Constants::shipped().clone();
    *other.value_mut("kernels.hiding").unwrap() *= 1.01;
    assert_eq!(
        stored::from_text(&text, &table, &other).unwrap_err(),
        Stale("the constants, the runs or the cost model have changed")
    );
    let mut fewer = table.clone();
    fewer.runs.pop();
    assert!(stored::from_text(&text, &fewer, Constants::shipped()).is_err());
    let cut = text.lines().take(100).collect::<Vec<_>>().join("\n");
    assert_eq!(
        stored::from_text(&cut, &table, Constants::shipped()).unwrap_err(),
        Stale("its rows are not those of the table")
    );
}

/// The stored times and the shipped constants are those of a fit.
#[test]
#[ignore = "fits the constants some forty times, a minute: `just nightly` runs it"]
fn a_fit_finds_the_shipped_constants_and_the_stored_errors() {
    let table = shipped_table();
    let held_out = HeldOut::new(&table, Constants::shipped());
    let stored = stored::from_text(&read(STORED), &table, Constants::shipped()).unwrap();
    for tier in Tier::ALL {
        let (new, old) = (held_out.predicted_seconds(tier), stored.predicted_seconds(tier));
        for ((a, b), sample) in new.iter().zip(old).zip(held_out.samples()) {
            assert!((a / b - 1.0).abs() < 0.002, "{tier:?} {}: {a}, stored {b}", sample.family);
        }
    }
    let study = Study::with_held_out(&table, Constants::shipped(), &held_out);
    // The shipped constants are those of a fit.
    let constants = study.fitted.as_ref().unwrap();
    for (key, name) in trainc_predict::constants::Name::ALL {
        let (shipped, fitted) = (Constants::shipped().get(*name), constants.get(*name));
        assert!((shipped / fitted - 1.0).abs() < 0.01, "{key}: {shipped}, fitted {fitted}");
    }
    let (fitted, shipped) = (constants.settings(), Constants::shipped().settings());
    assert_eq!(fitted.len(), shipped.len());
    for ((own, runs), (setting, written)) in fitted.iter().zip(shipped) {
        assert!(own == setting && (runs.rows - written.rows).abs() < 0.5, "{setting:?}");
        assert_eq!(runs.positions.len(), written.positions.len(), "{setting:?}");
    }
    assert_printed_as_calibration(&study.render());
}

fn assert_printed_as_calibration(shown: &str) {
    let (_, ranges) = shown.split_once("over all values that fit: calibration, not evidence\n").unwrap();
    let line = ranges.lines().find(|line| line.contains("bert-squad-8n")).unwrap();
    assert!(line.contains("published 7.33, predicted") && line.contains(": inside"), "{line}");
}

/// Checks the figures of `data/README.md`.
fn assert_page(tiers: [&TierReport; 4], summary: &Summary) {
    let page = read("crates/trainc-calibrate/data/README.md");
    let row = |name: &str, digits: usize, of: &dyn Fn(&TierReport) -> Option<f64>| {
        let cells = tiers.map(|tier| format!("{:.digits$} %", 100.0 * of(tier).unwrap()));
        format!("| {name} | {} |", cells.join(" | "))
    };
    let mut rows = vec![
        row("all rows", 1, &|tier| tier.errors.step_seconds.mean_error),
        row("families weighted equally", 1, &|tier| tier.errors.families),
        row("median half-width of the intervals", 1, &|tier| tier.median_half_width),
        row("measured inside the interval", 0, &|tier| tier.errors.step_seconds.inside_interval),
        row("half-width that 90 % of the rows require", 1, &|tier| tier.required_half_width),
    ];
    for family in tiers[0].errors.by_family.keys() {
        rows.push(row(family, 1, &|tier| tier.errors.by_family[family].mean_error));
    }
    let missing: Vec<&String> = rows.iter().filter(|row| !page.lines().any(|line| line == *row)).collect();
    assert!(
        missing.is_empty(),
        "data/README.md lacks {missing:?} of\n| | A | B | C | D |\n| --- | --- | --- | --- | --- |\n{}",
        rows.join("\n")
    );
    // What `tune` says of models with experts.
    let experts = trainc_predict::held_out::errors_of_experts().unwrap();
    let sources: Vec<&str> = experts.sources.iter().map(String::as_str).collect();
    let found = tiers[2].of_sources(&sources).unwrap().sources;
    assert!((experts.mean_error - found).abs() < 0.0015, "held_out.toml lacks {found:.3}");
    let added = tiers[3]
        .of_sources(&[
            "dgxc",
            "dgxc-gb200",
            "dgxc-moe",
            "mlperf-lora",
            "xtuner",
            "xtuner-moe-h800",
            "ms-swift",
        ])
        .unwrap();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let text = format!(
        "{} rows without states on the host) err by {} in tier D with a bias of {}, with sources weighted \
         equally by {}; {} of the rows lie inside their intervals, whose median half-width is {}",
        added.rows,
        percent(added.mean),
        percent(added.bias),
        percent(added.sources),
        percent(added.inside),
        percent(added.half_width)
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&page).contains(&text), "data/README.md lacks `{text}`");
    // Memory is judged by the shipped constants, which are rounded.
    let (memory, oom) = (summary.peak_memory_bytes, summary.oom);
    let [mean, median, inside] =
        [memory.mean_error, memory.median_error, memory.inside_interval].map(|share| 100.0 * share.unwrap());
    let within = (inside / 100.0 * memory.rows as f64).round();
    let text = format!(
        "Peak memory: {} rows, mean {mean:.1} %, median {median:.1} %, {inside:.1} % inside the interval ({within} of {}). Of {} rows that ran out of memory {} are predicted not to fit; of {} that ran, {} are.",
        memory.rows, memory.rows, oom.rows, oom.caught, oom.ran, oom.wrong
    );
    assert!(words(&page).contains(&text), "data/README.md lacks `{text}`");
}
