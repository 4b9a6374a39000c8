use super::*;
use crate::predict::layout::*;
use std::collections::BTreeMap;
fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut rows: Vec<Vec<String>> = vec![vec![]];
    let mut cell = String::new();
    let mut q = false;
    let mut it = text.chars().peekable();
    while let Some(c) = it.next() {
        if q {
            if c == '"' {
                if it.peek() == Some(&'"') {
                    cell.push('"');
                    it.next();
                } else {
                    q = false;
                }
            } else {
                cell.push(c);
            }
        } else if c == '"' {
            q = true
        } else if c == ',' {
            rows.last_mut().unwrap().push(std::mem::take(&mut cell));
        } else if c == '\n' {
            rows.last_mut().unwrap().push(std::mem::take(&mut cell));
            rows.push(vec![]);
        } else if c != '\r' {
            cell.push(c)
        }
    }
    let head = rows.remove(0);
    rows.into_iter()
        .filter(|r| r.len() == head.len())
        .map(|r| head.iter().cloned().zip(r).collect())
        .collect()
}
pub(crate) fn layout(r: &BTreeMap<String, String>) -> Result<Layout, &'static str> {
    let n = |k: &str| r[k].parse::<f64>().ok();
    let req = |k: &'static str| n(k).ok_or(k);
    let (l, h, a, s, b) = (req("layers")?, req("hidden")?, req("heads")?, req("seq")?, req("micro_batch")?);
    let kv = n("kv_heads").unwrap_or(a);
    let v = n("vocab").unwrap_or(51200.0);
    let f = n("ffn").unwrap_or(4.0 * h);
    let d = h / a;
    let att = 2.0 * h * (a + kv) * d;
    let total = n("params").unwrap_or(l * (att + 2.0 * h * f) + v * h);
    let mut best = (f64::MAX, false, false, 0.0);
    for gated in [true, false] {
        for tied in [true, false] {
            let per = att + if gated { 3.0 } else { 2.0 } * h * f;
            let t = l * per + v * h * if tied { 1.0 } else { 2.0 };
            if (t - total).abs() < best.0 {
                best = ((t - total).abs(), gated, tied, per);
            }
        }
    }
    let (_, gated, tied, _) = best;
    let outer = v * h * if tied { 1.0 } else { 2.0 };
    let en = r["engine"].to_lowercase();
    let fw = r["framework"].to_lowercase();
    let code = Code::from_names(&fw, &en);
    let gpn = n("gpus_per_node").unwrap_or(1.0);
    let nodes = n("nodes").unwrap_or(1.0);
    let w = gpn * nodes;
    let (t, p, c) = (n("tp").unwrap_or(1.0), n("pp").unwrap_or(1.0), n("cp").unwrap_or(1.0));
    let system = if en.contains("megatron")
        || matches!(code, Code::Megatron | Code::MegatronDeepSpeed) && !en.contains("zero-3")
    {
        System::Megatron
    } else if en.contains("smp") {
        System::SmpV1
    } else if en.contains("fsdp") {
        System::Fsdp
    } else if en.contains("hsdp") {
        System::Fsdp
    } else if en.contains("zero") || en.contains("colossal") {
        System::DeepSpeed
    } else if en.contains("tp+dp") {
        System::Megatron
    } else {
        System::Ddp
    };
    let z = n("zero_stage");
    let sharding = match z {
        Some(3.0) => Sharding::Full,
        Some(2.0) => Sharding::Gradients,
        Some(1.0) => Sharding::Optimizer,
        Some(_) => Sharding::None,
        None => {
            if en.contains("grad_op") {
                Sharding::Gradients
            } else if system == System::Fsdp || en.contains("zero-3") || en.contains("sharded") {
                Sharding::Full
            } else if en.contains("zero-2") {
                Sharding::Gradients
            } else if en.contains("zero-1") || code == Code::MegatronDeepSpeed {
                Sharding::Optimizer
            } else {
                Sharding::None
            }
        }
    };
    let data = w / t / p;
    let shard = n("shard_degree")
        .map(|x| if x * c <= data { x * c } else { x })
        .unwrap_or(if sharding == Sharding::None { 1.0 } else { data })
        .min(data.max(1.0));
    let prec = r["precision"].as_str();
    let pure = matches!(code, Code::LitGpt | Code::TorchTune);
    let nf4 = prec.contains("nf4");
    let trainable = if en.contains("lora") || en.contains("adapter") {
        Some(Lora {
            trainable: 2.0 * 2.0 * 8.0 * h * l,
            kind: if en.contains("lora") {
                AdapterKind::LowRank
            } else if en.contains("adapter2") {
                AdapterKind::Scaled
            } else {
                AdapterKind::Prompt
            },
        })
    } else {
        None
    };
    let gb = n("global_batch_sequences");
    let passes = n("grad_accum").or(gb.map(|g| g / (b * data / c))).unwrap_or(1.0).max(1.0);
    let passes = if p > 1.0 { gb.map(|g| g / (b * data / c)).unwrap_or(1e9).max(1.0) } else { passes };
    let mem = r["gpu_mem_gib"].parse::<f64>().ok().map(|g| match r["gpu"].as_str() { x if x.starts_with("A10G") => 22.35, x if x.contains("96") => 95.5, _ => g } * GIB);
    Ok(Layout {
        model: Model {
            parameters: total,
            layer_parameters: (total - outer) / l,
            outer_parameters: outer,
            expert_parameters: 0.0,
            active_parameters: total,
            linear_parameters: (total - outer) * 0.999,
            layers: l,
            hidden: h,
            heads: a,
            kv_heads: kv,
            head_dim: d,
            ffn: f,
            ffn_matrices: if gated { 3.0 } else { 2.0 },
            head_vocab: if r["model"].contains("bert") { 0.0 } else { v },
            vocab: v,
            experts: 0.0,
            active_experts: 0.0,
            causal: true,
            dropout: !gated && !matches!(code, Code::LitGpt | Code::Composer),
            parallel_blocks: code == Code::LitGpt && !gated,
            tied,
            rms_norm: gated,
            composite_gelu: false,
        },
        hardware: Hardware {
            gpu: None,
            memory_bytes: mem,
            peak_flops: None,
            memory_bytes_per_second: None,
            gpus_per_node: gpn,
            nodes,
            intra_bytes_per_second: None,
            inter_bytes_per_second: None,
            host_memory_bytes: None,
            efa: false,
        },
        system,
        degrees: Degrees {
            replicas: (data / shard).max(1.0),
            shard,
            tensor: t,
            pipeline: p,
            virtual_stages: if en.contains("int1f1b") { 2.0 } else { 1.0 },
            context: c,
            expert: 1.0,
        },
        sharding,
        work: Work {
            sequence_length: s,
            micro_batch: b,
            passes,
            active_microbatches: None,
            global_sequences: gb.unwrap_or(1.0),
        },
        precision: if prec == "fp32" {
            Precision::Fp32
        } else if pure {
            Precision::Pure16 { bf16: true }
        } else {
            Precision::Mixed { bf16: !prec.contains("fp16") }
        },
        recompute: match r["recompute"].as_str() {
            "none" => Recompute::None,
            "full" => Recompute::Full,
            "selective" => Recompute::Selective,
            _ => return Err("recompute"),
        },
        attention: if r["flash"] == "0" { Attention::Eager } else { Attention::Flash },
        compiled: false,
        sequence_parallel: en.contains("+sp") || code == Code::TorchTitan && t > 1.0,
        offload: Offload {
            activations: r["offload"].contains("activations"),
            horizon: None,
            parameters: r["offload"].contains("param"),
            optimizer: r["offload"].contains("optimizer"),
            paged: false,
        },
        lora: trainable,
        quantisation: nf4.then_some(Quantisation::Nf4 { double: prec.contains("dq") }),
        moments: if en.contains("8-bit") { Moments::TwoInt8 } else { Moments::Two },
        smddp: false,
        code,
        optimizer_copies: false,
        per_parameter_sharding: en.contains("fsdp2"),
    })
}
#[test]
fn open_rows() {
    let text = std::fs::read_to_string("/work/shared/runs/open.csv").unwrap();
    let c = MemoryConstants::shipped();
    let mut fam: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut ran, mut oom) = (0, 0);
    let filter = std::env::var("FAM").unwrap_or_default();
    for r in csv(&text) {
        let Ok(l) = layout(&r) else { continue };
        let Some(kind) = MeasuredAs::from_kind(&r["mem_kind"]) else { continue };
        if r["engine"].contains("padded") {
            continue;
        }
        let m = memory_with(&l, c);
        let g = |x: f64| (x / GIB * 10.0).round() / 10.0;
        if r["oom"] == "1" {
            oom += 1;
            if m.fits == Some(true) {
                println!("MISSED {} {} of {}", r["id"], g(m.per_gpu_bytes), g(m.capacity_bytes.unwrap()));
            }
            continue;
        }
        ran += 1;
        if m.fits == Some(false) {
            println!("FALSE {} {} of {}", r["id"], g(m.per_gpu_bytes), g(m.capacity_bytes.unwrap()));
        }
        if let Ok(peak) = r["peak_mem_gib"].parse::<f64>() {
            let mine = as_measured(&l, kind, c) / GIB;
            let e = mine / peak - 1.0;
            fam.entry(r["family"].clone()).or_default().push(e);
            if r["family"].contains(&filter) {
                println!(
                    "{:52} {:6.2} {:6.2} {:+6.1}%  w{} g{} o{} a{} u{} l{} b{}",
                    r["id"],
                    peak,
                    mine,
                    e * 100.0,
                    g(m.parts.parameters),
                    g(m.parts.gradients),
                    g(m.parts.optimizer),
                    g(m.parts.activations),
                    g(m.parts.gathered),
                    g(m.parts.logits),
                    g(m.parts.buffers)
                );
            }
        }
    }
    let mut all = vec![];
    for (k, v) in &fam {
        let a: f64 = v.iter().map(|x| x.abs()).sum::<f64>() / v.len() as f64;
        println!(
            "{k} {} mean {:.1}% bias {:+.1}%",
            v.len(),
            a * 100.0,
            v.iter().sum::<f64>() / v.len() as f64 * 100.0
        );
        all.extend(v.iter().map(|x| x.abs()));
    }
    let med = {
        let mut s = all.clone();
        s.sort_by(f64::total_cmp);
        s[s.len() / 2]
    };
    println!(
        "all {} {:.2}% median {:.1}%; ran {ran} oom {oom}",
        all.len(),
        all.iter().sum::<f64>() / all.len() as f64 * 100.0,
        med * 100.0
    );
}
