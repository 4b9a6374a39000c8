//! Losses and gradient norms against what PyTorch computed in float64 (`tests/python/record.py`).

use serde_json::Value;
use trainc_worker::data::tokens;
use trainc_worker::threads::threads_as_ranks;

use crate::cases::{self, Place, llama, mesh, parse, write_data};

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        for (key, value) in from {
            into.insert(key.clone(), value.clone());
        }
    }
}

#[track_caller]
fn check(name: &str, shards: usize, replicas: usize) {
    let place = Place::new(&format!("parity-{name}"));
    let path = format!("{}/tests/recorded/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let change = &recorded["change"];
    let apart = change["documents"].as_bool().unwrap_or(false);
    if apart {
        // As the recording script has it.
        let all = cases::tokens(40, 24, 61, 1);
        let (trained, begins) = (|at: usize| at % 5 != 2, |at: usize| at % 11 == 3);
        tokens::write_masked(&place.0.join("train"), 24, 61, &all, 5, &trained, &begins).unwrap();
    } else {
        write_data(&place.0.join("train"), 40, 24, 61, 1);
    }
    let accumulation = change["accumulation"].as_u64().unwrap_or(1) as usize;
    let mut config = mesh(llama(&place), shards, replicas, accumulation);
    for part in ["model", "optimizer", "schedule"] {
        merge(&mut config[part], &change[part]);
    }
    config["data"]["shuffle"] = false.into();
    config["data"]["document_mask"] = apart.into();
    let (_, lines, _) = threads_as_ranks(&parse(&config)).unwrap();
    let series = |key: &str| -> Vec<f64> {
        recorded[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let (losses, norms) = (series("losses"), series("grad_norms"));
    assert_eq!(lines.len(), losses.len());
    let mut worst = (0.0f64, 0.0f64);
    for ((line, loss), norm) in lines.iter().zip(&losses).zip(&norms) {
        let errors = ((line.loss / loss - 1.0).abs(), (line.grad_norm / norm - 1.0).abs());
        worst = (worst.0.max(errors.0), worst.1.max(errors.1));
        assert!(errors.0 < 2e-6, "{name} step {}: loss {}, PyTorch {loss}", line.step, line.loss);
        assert!(errors.1 < 1e-4, "{name} step {}: norm {}, PyTorch {norm}", line.step, line.grad_norm);
    }
    println!("{name}: losses within {:.1e}, norms within {:.1e}", worst.0, worst.1);
    // The same in bf16, more loosely.
    config["precision"]["compute"] = "bf16".into();
    let (_, lines, _) = threads_as_ranks(&parse(&config)).unwrap();
    let mut worst = (0.0f64, 0.0f64, 0.0f64);
    for ((line, loss), norm) in lines.iter().zip(&losses).zip(&norms) {
        let errors = ((line.loss / loss - 1.0).abs(), (line.grad_norm / norm - 1.0).abs());
        let early = if line.step <= 20 { errors.1 } else { 0.0 };
        worst = (worst.0.max(errors.0), worst.1.max(early), worst.2.max(errors.1));
    }
    println!(
        "{name} in bf16: losses within {:.1e}, norms within {:.1e} over 20 steps, {:.1e} over all",
        worst.0, worst.1, worst.2
    );
    // Weights that were rounded differently go ways of their own: after 40 to 50 steps the norms of PyTorch 2.15 in bf16
    // are up to 2.7e-2 from its own in float64.
    assert!(worst.0 < 1e-2 && worst.1 < 1e-2 && worst.2 < 2.7e-2, "{name} in bf16: {worst:?}");
}

#[test]
fn llama_alone() {
    check("llama", 1, 1);
}

#[test]
fn llama_accumulation_cosine_two_shards() {
    check("llama-accumulation-cosine", 2, 1);
}

#[test]
fn llama_tied_linear_four_shards() {
    check("llama-tied-linear", 4, 1);
}

#[test]
fn llama_unclipped_two_replicas() {
    check("llama-unclipped", 1, 2);
}

#[test]
fn gpt2_two_shards() {
    check("gpt2", 2, 1);
}

#[test]
fn gpt_neox_hybrid() {
    check("gpt-neox", 2, 2);
}

#[test]
fn llama_documents_two_shards() {
    check("llama-documents", 2, 1);
}

#[test]
fn gpt2_documents_hybrid() {
    check("gpt2-documents", 2, 2);
}
