//! Tests: changes near a layout, as the manifest has them once they are written.

use super::law_tests::compile_with;
use trainc_predict::memory::MEAN_ERROR;
use trainc_predict::{Constants, Fit, Memory};
use trainc_tune::nearby::Judge;
use trainc_tune::{Change, Remedy, Space, remedies};

const FSDP: &str = r#"engine="fsdp" { strategy "full-shard"; wrap "LlamaDecoderLayer"; }"#;
const ANYTHING: Judge = Judge { allows: &|_| true, passes: &|_, _, _| true };

/// Sequences enough that the activations alone exceed a GPU.
fn train(micro: u64) -> String {
    format!(
        "precision \"bf16\"; optimizer \"adamw\"; micro-batch {micro}; accumulation 2; \
         flash-attention #true"
    )
}

fn remedies_of(parallel: &str, train: &str, judge: Judge) -> Vec<(Remedy, Vec<String>)> {
    let compiled = compile_with(parallel, train, "", &[]);
    let plan = compiled.plan.unwrap();
    let constants = Constants::shipped();
    let space = Space::around(&plan, &[], constants).unwrap();
    let found = remedies(&space, judge, constants);
    let sets = |one: &Remedy| space.edits_of(&one.changes).iter().map(ToString::to_string).collect();
    found.into_iter().map(|one| (sets(&one), one)).map(|(sets, one)| (one, sets)).collect()
}

/// Written into the manifest, a remedy has the memory and the global batch that were weighed.
#[test]
fn a_remedy_is_the_plan_that_its_edits_make() {
    let mut kinds = Vec::new();
    for parallel in [
        FSDP,
        r#"engine="fsdp" { strategy "no-shard"; wrap "LlamaDecoderLayer"; }"#,
        r#"engine="ddp" launcher="torchrun""#,
        r#"engine="deepspeed" { strategy "zero-1"; }"#,
        r#"engine="accelerate" { replicate-degree 4; shard-degree 2; }"#,
        r#"engine="accelerate" { strategy "full-shard"; }"#,
    ] {
        let mut found = Vec::new();
        for micro in [8_192, 16_384, 24_576, 40_000, 65_536, 400_000] {
            found.extend(remedies_of(parallel, &train(micro), ANYTHING).into_iter().map(|one| (micro, one)));
        }
        assert!(!found.is_empty(), "{parallel}");
        for (micro, (remedy, sets)) in found {
            let written = compile_with(parallel, &train(micro), "", &sets);
            let memory = written.prediction.memory.unwrap();
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            let bytes = |memory: &Memory| memory.per_gpu_bytes;
            assert!(
                close(bytes(&memory), bytes(&remedy.after)),
                "{parallel}, {micro}: {sets:?} needs {} instead of {}",
                bytes(&memory),
                bytes(&remedy.after)
            );
            let global = written.plan.unwrap().batch.unwrap().global_sequences.value;
            assert_eq!(global, remedy.choice.global_sequences, "{parallel}, {micro}: {sets:?}");
            assert_eq!(remedy.after.fits, Some(true));
            kinds.extend(remedy.changes);
        }
    }
    for wanted in [
        |one: &Change| matches!(one, Change::MicroBatch(_)),
        |one: &Change| matches!(one, Change::Checkpointing),
        |one: &Change| matches!(one, Change::Nodes(_)),
        |one: &Change| matches!(one, Change::Degrees(..)),
    ] {
        assert!(kinds.iter().any(wanted), "{kinds:?}");
    }
}

/// The cheapest comes first, several changes only where no single one is enough or as cheap, and each leaves
/// room for the mean error.
#[test]
fn remedies_leave_room_and_are_in_the_order_of_their_price() {
    let found = remedies_of(FSDP, &train(65_536), ANYTHING);
    let has_room = |one: &Remedy| {
        one.after.per_gpu_bytes * (1.0 + MEAN_ERROR) <= one.after.capacity_bytes.unwrap()
            && one.after.fit() != Some(Fit::Never)
    };
    assert!(found.len() > 1 && found.iter().all(|(one, _)| has_room(one)), "{found:?}");
    let same_nodes = |one: &&Remedy| one.choice.nodes == 1;
    let slower: Vec<f64> =
        found.iter().map(|(one, _)| one).filter(same_nodes).map(|one| one.slower.unwrap()).collect();
    assert!(slower.is_sorted_by(|a, b| *a <= b + 0.005), "{slower:?}");
}

/// What another rule rejects is not offered, alone or with something else.
#[test]
fn a_change_that_a_rule_rejects_is_not_offered() {
    let is_recomputed = |change: Change| change == Change::Checkpointing;
    let with = remedies_of(FSDP, &train(65_536), ANYTHING);
    assert!(with.iter().any(|(one, _)| one.changes.contains(&Change::Checkpointing)), "{with:?}");
    let judge = Judge { allows: &|change| !is_recomputed(change), ..ANYTHING };
    let without = remedies_of(FSDP, &train(65_536), judge);
    assert!(!without.is_empty() && !without.iter().any(|(one, _)| one.changes.contains(&Change::Checkpointing)));
    let judge = Judge { passes: &|choice, _, _| choice.nodes == 1, ..ANYTHING };
    let found = remedies_of(FSDP, &train(65_536), judge);
    assert!(!found.is_empty() && found.iter().all(|(one, _)| one.choice.nodes == 1), "{found:?}");
    assert!(remedies_of(FSDP, &train(65_536), Judge { passes: &|_, _, _| false, ..ANYTHING }).is_empty());
}
