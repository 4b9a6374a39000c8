//! The pick of the search against measured throughput.

#![expect(clippy::print_stdout, reason = "the figures are read with `--no-capture`")]

use crate::shipped_table;
use trainc_predict::Constants;
use trainc_research::picks::{Pick, Room, TRUSTED_NODES, median_share, picks};

/// Returns the median shares up to the trusted number of nodes and beyond, and prints them.
fn medians(what: &str, picks: &[Pick]) -> (f64, f64) {
    let few = median_share(picks, |pick| pick.nodes <= TRUSTED_NODES).unwrap();
    let many = median_share(picks, |pick| pick.nodes > TRUSTED_NODES).unwrap();
    println!("{what}: up to {TRUSTED_NODES} nodes {:.1} %, beyond {:.1} %", 100.0 * few, 100.0 * many);
    (few, many)
}

/// The order of `tune` picks nearly the fastest of the measured layouts: at least 95 % of the best measured
/// throughput in the median of the groups up to 16 nodes, at least 85 % beyond.
#[test]
fn the_pick_is_nearly_the_fastest_measured_layout() {
    let table = shipped_table();
    let picked = picks(&table.runs, Constants::shipped(), Room::Predicted);
    for pick in &picked {
        let (share, nodes) = (100.0 * pick.share, pick.nodes);
        println!(
            "{:<20} {nodes:>3} nodes {:>4} layouts {share:>6.1} %  {}",
            pick.family, pick.layouts, pick.id
        );
    }
    let all = medians("all groups", &picked);
    let ultra: Vec<Pick> = picked.into_iter().filter(|pick| pick.family == "ultra").collect();
    let ultra = medians("ultra", &ultra);
    // Among layouts that surely fit the pick is slower, since the wide upper end of memory excludes fast
    // ones.
    medians("all groups, surely fitting", &picks(&table.runs, Constants::shipped(), Room::Sure));
    for (few, many) in [all, ultra] {
        assert!(few >= 0.95, "up to {TRUSTED_NODES} nodes: {few}");
        assert!(many >= 0.85, "beyond {TRUSTED_NODES} nodes: {many}");
    }
}
