use crate::judge::{fit_and_judge, judge};
use crate::{Table, read};
use trainc_predict::memory::{MeasuredAs, MemoryConstants, peak_by_instrument};
use trainc_predict::{Constants, GpuKind};

fn shipped_table() -> Table {
    read(include_str!("../data/runs.csv")).unwrap()
}

#[test]
fn every_row_is_judged_or_gives_a_reason() {
    let table = shipped_table();
    let verdict = judge(&table, Constants::shipped());
    assert_eq!(verdict.rows.len(), table.runs.len());
    for row in &verdict.rows {
        let judged = row.step_seconds.is_some() || row.peak_memory_bytes.is_some() || row.fits.is_some();
        assert!(judged || row.skipped.is_some(), "{}", row.id);
        assert!(row.tier.is_none(), "nothing was fitted");
    }
    assert!(verdict.summary.step_seconds.rows >= 380, "{}", verdict.summary.step_seconds.rows);
}

#[test]
fn a_text_without_the_required_columns_is_not_a_table() {
    assert!(read("a,b\n1,2\n").unwrap_err().to_string().contains("`id`"));
    assert!(read("").is_err());
}

/// Three runs, a tenth slower than predicted, adjust the constants without replacing them.
#[test]
fn a_few_runs_adjust_the_constants() {
    let mut table = shipped_table();
    table.runs.retain(|run| run.id.starts_with("lf-7b-a10040-"));
    table.runs.truncate(3);
    let shipped = Constants::shipped();
    for run in &mut table.runs {
        let predicted = trainc_predict::predict(run.layout.as_ref().unwrap(), shipped).speed.unwrap();
        run.step_seconds = Ok(1.1 * predicted.step_seconds);
    }
    let (constants, verdict) = fit_and_judge(&table, shipped).unwrap();
    let before = judge(&table, shipped).summary.step_seconds.mean_error.unwrap();
    let after = judge(&table, &constants).summary.step_seconds.mean_error.unwrap();
    assert!((before - 0.1 / 1.1).abs() < 1e-6 && after < 0.8 * before, "{before} {after}");
    for (key, name) in trainc_predict::constants::Name::ALL {
        let moved = constants.get(*name) / shipped.get(*name);
        // The length at which attention is half as fast is known to a factor of two.
        let most = if *key == "kernels.flash_length" { 2.0 } else { 1.25 };
        assert!((1.0 / most..most).contains(&moved), "{key}: {moved}");
    }
    // Without their only source nothing is left to fit: the constants do not change.
    let c = &verdict.summary.by_tier["C"].step_seconds;
    assert!((c.mean_error.unwrap() - before).abs() < 1e-6, "{c:?}");
    table.runs.clear();
    assert!(fit_and_judge(&table, shipped).is_none());
    let kind = GpuKind::A100;
    assert!(constants.gpu(kind).unwrap().rows > shipped.gpu(kind).unwrap().rows);
}

/// Runs that agree narrow the interval of their GPU type only; runs that scatter widen it.
#[test]
fn own_runs_that_agree_narrow_the_interval() {
    let shipped = Constants::shipped();
    let table = |scatter: f64| {
        let mut table = shipped_table();
        table.runs.retain(|run| {
            run.id.starts_with("lf-") && run.id.contains("-a10040-") && run.step_seconds.is_ok()
        });
        table.runs.truncate(30);
        assert_eq!(table.runs.len(), 30);
        for (at, run) in table.runs.iter_mut().enumerate() {
            let predicted = trainc_predict::predict(run.layout.as_ref().unwrap(), shipped).speed.unwrap();
            // A tenth slower than predicted, with a fixed scatter.
            let off = [0.0, 1.0, -1.0, 0.5, -0.5][at % 5] * scatter;
            run.step_seconds = Ok(predicted.step_seconds * 1.1 * (1.0 + off));
        }
        table
    };
    let half = |constants: &Constants, layout: &trainc_predict::Layout| {
        let found = trainc_predict::predict(layout, constants).speed.unwrap();
        (found.interval.high / found.step_seconds).ln()
    };
    let close = table(0.01);
    let (constants, verdict) = fit_and_judge(&close, shipped).unwrap();
    let here = close.runs[0].layout.as_ref().unwrap();
    assert!(half(&constants, here) < half(shipped, here), "{}", half(&constants, here));
    assert!(verdict.summary.step_seconds.inside_interval.unwrap() >= 0.9);
    let mut other = here.clone();
    other.hardware.gpu = Some(GpuKind::H100);
    assert!((half(&constants, &other) - half(shipped, &other)).abs() < 0.01);
    // A file of constants preserves it.
    let again = Constants::parse(&constants.to_toml()).unwrap();
    assert!((half(&again, here) - half(&constants, here)).abs() < 1e-3);
    let (wide, _) = fit_and_judge(&table(0.4), shipped).unwrap();
    assert!(half(&wide, here) > half(shipped, here), "{}", half(&wide, here));
    // Eight are too few.
    let mut few = table(0.01);
    few.runs.truncate(8);
    assert!((half(&fit_and_judge(&few, shipped).unwrap().0, here) / half(shipped, here) - 1.0).abs() < 0.05);
}

/// A model that is named is read from the catalogue, with its experts.
#[test]
fn a_row_with_a_model_id_has_the_dimensions_of_the_model() {
    let head = "id,family,engine,hidden,heads,ffn,seq,gpu,gpus_per_node,nodes,precision,micro_batch,recompute,oom,layers,model_id";
    let read_with = |id: &str, count: &str| {
        let cells = "a,own,FSDP,4096,32,16384,2048,A100-40GB,8,1,bf16,1,full,0";
        read(&format!("{head}\n{cells},{count},{id}\n")).unwrap().runs.remove(0).layout
    };
    let model = read_with("Qwen/Qwen3-30B-A3B", "48").unwrap().model;
    assert_eq!((model.experts, model.active_experts, model.ffn), (128.0, 8.0, 768.0));
    assert!(model.active_parameters < 0.2 * model.parameters);
    // It takes precedence over the columns; an id that the catalogue lacks leaves them.
    assert_eq!(read_with("Qwen/Qwen3-30B-A3B", "47").unwrap().model.layers, 48.0);
    assert_eq!(read_with("Qwen/Qwen9-1T", "40").unwrap().model.layers, 40.0);
    assert!(read_with("Qwen/Qwen9-1T", "").unwrap_err().contains("not in the catalogue"));
    let dense = read_with("", "48").unwrap().model;
    assert_eq!(dense.experts, 0.0);
}

const GIB: f64 = 1_073_741_824.0;

/// Returns the peak in GiB that an instrument would show for a row: a common part, and cells of its own.
fn peak_of_cells(cells: &[(&'static str, &'static str)], kind: MeasuredAs) -> f64 {
    let common = [("nodes", "1"), ("gpus_per_node", "8"), ("flash", "1"), ("micro_batch", "1"), ("ep", "1")];
    let cells = common.iter().chain(cells).copied().collect();
    let layout = crate::layout_of_cells(cells, None).unwrap();
    peak_by_instrument(&layout, kind, &MemoryConstants::from_constants(Constants::shipped())) / GIB
}

/// Llama 3.1 8B of NVIDIA/dgxc-benchmarking v25.04 (llama3.1/README.md): 65.97 GiB allocated, with the
/// gradients in bf16 of NeMo's recipes.
#[test]
fn recipes_of_nemo_keep_gradients_in_16_bit() {
    let cells = [
        ("code", "nemo"),
        ("engine", "Megatron TP+PP+SP ZeRO-1"),
        ("model_id", "llama-3.1-8b"),
        ("gpu", "H100-80GB"),
        ("seq", "8192"),
        ("precision", "bf16"),
        ("cp", "2"),
        ("shard_degree", "4"),
        ("zero_stage", "1"),
        ("recompute", "none"),
        ("year", "2025"),
    ];
    let peak = peak_of_cells(&cells, MeasuredAs::Allocated);
    assert!((peak / 65.97 - 1.0).abs() < 0.05, "{peak}");
    let wide = [&cells[..], &[("grad_dtype", "fp32")]].concat();
    assert!((peak_of_cells(&wide, MeasuredAs::Allocated) - peak - 2.0 * 8.03e9 / GIB).abs() < 0.1);
}

/// LoRA of Llama 2 70B on eight B200 and on 64 (mlcommons/training_results_v5.0, NVIDIA and Oracle): 168.83
/// and 82.32 GiB reserved, with weights in 8 bit alone.
#[test]
fn frozen_weights_may_be_in_8_bit() {
    for (context, nodes, measured) in [("1", "1", 168.83), ("8", "8", 82.32)] {
        let cells = [
            ("code", "nemo"),
            ("engine", "Megatron TP+PP+SP LoRA"),
            ("model_id", "llama-2-70b"),
            ("gpu", "B200"),
            ("gpu_mem_gib", "180"),
            ("nodes", nodes),
            ("seq", "8192"),
            ("precision", "fp8"),
            ("cp", context),
            ("recompute", "none"),
            ("year", "2025"),
        ];
        let narrow = [&cells[..], &[("weight_dtype", "fp8")]].concat();
        let peak = peak_of_cells(&narrow, MeasuredAs::Reserved);
        assert!((peak / measured - 1.0).abs() < 0.1, "{peak} of {measured}");
        assert!(peak_of_cells(&cells, MeasuredAs::Reserved) > 1.5 * measured);
    }
}

/// LoRA of Llama 2 70B under FSDP ran on eight H100 of 80 GB (NVIDIA/dgxc-benchmarking v24.11.1, PyTorch 2.x
/// with PEFT): frozen units are freed. They were not before PyTorch 2.1, and are not where a unit has
/// adapters too.
#[test]
fn frozen_units_are_freed_by_version_and_code() {
    let cells = [
        ("engine", "FSDP FULL_SHARD LoRA"),
        ("model_id", "llama-2-70b"),
        ("gpu", "H100-80GB"),
        ("seq", "2048"),
        ("micro_batch", "8"),
        ("precision", "bf16"),
        ("recompute", "full"),
        ("lora_rank", "8"),
    ];
    let with = |more: &[(&'static str, &'static str)]| {
        peak_of_cells(&[&cells[..], more].concat(), MeasuredAs::Whole)
    };
    let freed = with(&[("year", "2024")]);
    assert!(freed < 80.0, "{freed}");
    assert_eq!(with(&[("framework", "PyTorch 2.1.0"), ("year", "2023")]), freed);
    let kept = with(&[("year", "2023")]);
    assert!(kept > 140.0, "{kept}");
    assert_eq!(with(&[("framework", "PyTorch 2.0.1"), ("year", "2024")]), kept);
    assert!(with(&[("framework", "litgpt / torch 2.1"), ("code", "litgpt"), ("year", "2024")]) > 130.0);
}
