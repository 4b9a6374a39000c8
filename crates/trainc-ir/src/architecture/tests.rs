//! Counts compared with transformers and PEFT (testdata, written by `tests/python/verify_models.py --small`) and with
//! published figures, and rejected input.

use super::*;
use serde_json::{Value, json};

fn family(name: &str) -> Family {
    Family::from_name(name).unwrap()
}

fn dimensions(hidden: u64, layers: u64, heads: u64) -> Dimensions {
    Dimensions { hidden: Some(hidden), layers: Some(layers), heads: Some(heads), ..Dimensions::default() }
}

/// The model of the published SageMaker runs on GPT-2 with 30 billion parameters.
fn gpt2_30b() -> Architecture {
    let written = Dimensions { vocab: Some(50_257), positions: Some(2_048), ..dimensions(7_168, 48, 64) };
    Architecture::from_dimensions(Family::GPT2, &written).unwrap().0
}

fn llama_7b() -> Architecture {
    Architecture::from_dimensions(Family::LLAMA, &dimensions(4_096, 32, 32)).unwrap().0
}

#[test]
fn configs_classes_and_lora_as_transformers_and_peft_count_them() {
    for line in include_str!("testdata/small.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let config = &case["config"];
        let a =
            Architecture::from_hf_config(config).unwrap_or_else(|problems| panic!("{config}: {problems:?}"));
        assert_eq!(a.family.wrap_class(), case["layer"], "{config}");
        let counts = case["counts"].as_object().unwrap();
        for name in Class::NAMES {
            let class = Class::from_name(name).unwrap().with_labels(3);
            match a.parameters_for_class(class) {
                Some(ours) => {
                    assert_eq!(Some(ours.total), counts.get(name).and_then(Value::as_u64), "{name} {config}");
                }
                // transformers also has a decoder head for encoders, and T5's encoder with labels, which are not supported here.
                None => assert!(
                    !counts.contains_key(name)
                        || name == "causal-lm" && !a.family.is_causal()
                        || name == "token-classification" && a.decoder_layers > 0,
                    "{name} {config}"
                ),
            }
        }
        let modules = a.linear_modules();
        for (leaf, expected) in case["lora"].as_object().unwrap() {
            if leaf == "all-linear" {
                // For experts PEFT adapts transformers 5's fused tensors, which have other shapes.
                let ours = a.lora_trainable(8, &[leaf]).ok();
                assert!(a.experts > 0 || ours == expected.as_u64(), "{ours:?} {config}");
                continue;
            }
            assert_eq!(a.lora_trainable(8, &[leaf]).ok(), expected.as_u64(), "{leaf} {config}");
            assert!(modules.iter().any(|module| module.name == leaf), "{leaf}");
        }
        if a.experts == 0 {
            // transformers 5 fuses experts into tensors that are no linear modules.
            let known = case["lora"].as_object().unwrap();
            assert!(modules.iter().all(|module| known.contains_key(module.name)), "{config}");
        }
    }
}

#[test]
fn gpt2_30b_and_its_parts() {
    let count = gpt2_30b().parameters();
    assert_eq!(count.total, 29_974_418_432);
    assert_eq!(count.embedding, (50_257 + 2_048) * 7_168);
    assert_eq!(count.per_layer, 12 * 7_168 * 7_168 + 13 * 7_168);
    assert_eq!((count.final_norm, count.head, count.expert), (2 * 7_168, 0, 0));
    assert_eq!(count.active, count.total);
    assert_eq!(count.linear, 48 * 12 * 7_168 * 7_168);
}

#[test]
fn heads_of_tasks() {
    let bert = Architecture::from_dimensions(family("bert"), &dimensions(768, 12, 12)).unwrap().0;
    let total = |a: &Architecture, class| a.parameters_for_class(class).map(|count| count.total);
    assert_eq!(total(&bert, Class::Base), Some(109_482_240));
    assert_eq!(total(&bert, Class::SequenceClassification { labels: 2 }), Some(109_483_778));
    assert_eq!(total(&bert, Class::MaskedLm), Some(109_514_298));
    assert_eq!(total(&bert, Class::CausalLm), None);
    let roberta = Dimensions { vocab: Some(50_265), positions: Some(514), ..dimensions(1_024, 24, 16) };
    let roberta = Architecture::from_dimensions(family("roberta"), &roberta).unwrap().0;
    assert_eq!(total(&roberta, Class::SequenceClassification { labels: 3 }), Some(355_362_819));
    assert_eq!(roberta.sequence_limit(), Some(512));
}

#[test]
fn defaults_are_said() {
    let (llama, defaulted) =
        Architecture::from_dimensions(Family::LLAMA, &dimensions(4_096, 32, 32)).unwrap();
    assert_eq!((llama.ffn, llama.kv_heads, llama.head_dim, llama.vocab), (11_008, 32, 128, 32_000));
    let fields: Vec<&str> = defaulted.iter().map(|default| default.field).collect();
    assert_eq!(fields, ["kv-heads", "ffn", "vocab", "positions", "tied"]);
    assert_eq!(llama.parameters().total, 6_738_415_616);
    for (hidden, ffn) in [(5_120, 13_824), (6_656, 17_920), (8_192, 22_016)] {
        let written = dimensions(hidden, 1, 64);
        assert_eq!(Architecture::from_dimensions(Family::LLAMA, &written).map(|(a, _)| a.ffn), Ok(ffn));
    }
}

#[test]
fn experts_share() {
    let written = Dimensions { kv_heads: Some(8), positions: Some(32_768), ..dimensions(4_096, 32, 32) };
    let count = Architecture::from_dimensions(family("mixtral"), &written).unwrap().0.parameters();
    assert_eq!(count.total, 46_702_792_704);
    assert_eq!(count.expert, 32 * 8 * 3 * 4_096 * 14_336);
    assert_eq!(count.active, count.total - count.expert / 8 * 6);
}

#[test]
fn lora_on_llama_and_unknown_targets() {
    let llama = llama_7b();
    // 8 x (4096 + 4096) x 2 matrices x 32 layers.
    assert_eq!(llama.lora_trainable(8, &["q_proj", "v_proj"]), Ok(4_194_304));
    assert_eq!(llama.lora_trainable(8, &["q_proj", "self_attn.q_proj"]), Ok(2_097_152));
    let all = llama.lora_trainable(8, &["all-linear"]).unwrap();
    assert_eq!(all, 8 * 32 * (4 * 8_192 + 3 * (4_096 + 11_008)));
    let Err(LoraProblem::UnknownTargets { unknown, known }) =
        llama.lora_trainable(8, &["query_key_value", "q_proj"])
    else {
        panic!("accepted");
    };
    assert_eq!(unknown, ["query_key_value"]);
    assert_eq!(
        known,
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
    );
    assert_eq!(llama.lora_trainable(0, &["q_proj"]), Err(LoraProblem::ZeroRank));
    // A name that two matrices of a layer share, and a path that distinguishes them.
    let gpt2 = gpt2_30b();
    let both = gpt2.lora_trainable(1, &["c_proj"]).unwrap();
    assert_eq!(both, 48 * (2 * 7_168 + 5 * 7_168));
    assert_eq!(gpt2.lora_trainable(1, &["mlp.c_proj"]), Ok(48 * 5 * 7_168));
}

/// Published: 181.05 and 73.52 samples/s on 128 and 256 GPUs; the figures are TFLOPS per GPU.
#[test]
fn conventions_on_the_published_runs() {
    let model = gpt2_30b();
    let check = |samples: f64, tokens: u64, gpus: f64, expected: [f64; 4]| {
        let rate = samples * tokens as f64 / gpus;
        let conventions =
            [Convention::EightN, Convention::MegatronRecompute, Convention::SixN, Convention::Palm];
        for (convention, tflops) in conventions.into_iter().zip(expected) {
            let ours = rate * model.flops_per_token(convention, tokens) / 1e12;
            assert!((ours - tflops).abs() < 0.000_51, "{}: {ours} {tflops}", convention.name());
            assert_eq!(Convention::from_name(convention.name()), Some(convention));
        }
    };
    check(181.05, 512, 128.0, [173.660, 175.068, 130.245, 131.776]);
    check(73.52, 2_048, 256.0, [141.038, 147.155, 105.779, 110.752]);
}

#[test]
fn counted_flops_agree_with_the_closed_form() {
    let model = gpt2_30b();
    let tokens = 2_048;
    let forward = model.flops_forward_per_sequence(tokens);
    let per_token = |flops: f64| flops / tokens as f64;
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    // SC21's formula equals the counted FLOP of a GPT-2 without, with full and with selective recomputation.
    let megatron = |convention| model.flops_per_token(convention, tokens);
    assert!(close(per_token(forward.model()), megatron(Convention::Megatron)));
    let selective = per_token(forward.hardware(FlopsRecompute::Selective));
    assert!(close(selective, megatron(Convention::Selective)));
    // With full recomputation it excludes a second forward pass of the head too: 96 Lh² (1 + s/6h + V/16Lh).
    let full = per_token(forward.hardware(FlopsRecompute::Full));
    assert!(close(full, megatron(Convention::MegatronRecompute)));
    assert!(close(forward.hardware(FlopsRecompute::None), forward.model()));
    let (palm, six) =
        (model.flops_per_token(Convention::Palm, tokens), model.flops_per_token(Convention::SixN, tokens));
    assert!(close(model.flops_per_token(Convention::Causal, tokens) - six, (palm - six) / 2.0));
}

#[test]
fn flops_of_grouped_gated_and_mixed() {
    let (h, f, s) = (4_096.0, 14_336.0, 4_096.0);
    let written = Dimensions { kv_heads: Some(8), ffn: Some(14_336), ..dimensions(4_096, 32, 32) };
    let llama =
        Architecture::from_dimensions(Family::LLAMA, &written).unwrap().0.flops_forward_per_sequence(4_096);
    let mixtral = Architecture::from_dimensions(family("mixtral"), &written)
        .unwrap()
        .0
        .flops_forward_per_sequence(4_096);
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
    close(llama.projections, 32.0 * 2.0 * s * h * (2.0 * 4_096.0 + 2.0 * 1_024.0));
    close(llama.attention_core, 32.0 * 4.0 * s * s * 4_096.0);
    close(llama.feed_forward, 32.0 * 2.0 * s * h * f * 3.0);
    close(llama.head, 2.0 * s * h * 32_000.0);
    close(mixtral.feed_forward, 32.0 * (2.0 * 2.0 * s * h * f * 3.0 + 2.0 * s * h * 8.0));
}

#[test]
fn names_of_families() {
    for family in Family::named() {
        assert_eq!(Family::from_name(family.name()), Some(family));
        assert_eq!(Family::from_name(family.model_type()), Some(family));
        let class = family.default_class();
        let name = family.class_name(class).unwrap();
        assert_eq!(family.class_from_name(&name), Some(class));
    }
    assert_eq!(Family::from_name("gpt_neox"), Some(Family::GPT_NEOX));
    assert_eq!(Family::from_name("gpt3"), None);
    assert_eq!(trainc_diag::text::nearest("gpt-neoxx", Family::names()), Some("gpt-neox"));
}

#[track_caller]
fn assert_refused(config: &Value, expected: &[&str]) {
    let problems = Architecture::from_hf_config(config).expect_err("accepted");
    let keys: Vec<&str> = problems.iter().map(ArchitectureProblem::key).collect();
    assert_eq!(keys, expected, "{problems:?}");
}

#[test]
fn configs_that_cannot_be() {
    assert_refused(&json!([1, 2]), &["config.json"]);
    assert_refused(&json!({"hidden_size": 64}), &["model_type"]);
    assert_refused(&json!({"model_type": 7}), &["model_type"]);
    assert_refused(
        &json!({"model_type": "llama"}),
        &["hidden_size", "num_hidden_layers", "num_attention_heads"],
    );
    let config = |key: &str, value: Value| {
        let mut config = json!({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4});
        config[key] = value;
        config
    };
    assert!(Architecture::from_hf_config(&config("intermediate_size", json!(null))).is_ok());
    for value in [
        json!(0),
        json!(-1),
        json!("two"),
        json!(1.5),
        json!(1_000_001),
        json!(u64::MAX),
        json!(1e300),
        json!([2]),
    ] {
        assert_refused(&config("num_hidden_layers", value), &["num_hidden_layers"]);
    }
    assert_refused(&config("num_attention_heads", json!(7)), &["num_attention_heads"]);
    assert_refused(&config("num_key_value_heads", json!(3)), &["num_key_value_heads"]);
    assert_refused(&config("hidden_act", json!("tanhshrink")), &["hidden_act"]);
    assert_refused(&config("tie_word_embeddings", json!("yes")), &["tie_word_embeddings"]);
    assert_refused(&config("vocab_size", json!(1_u64 << 40)), &["vocab_size"]);
    // Each figure could be, all together could not: no overflow, one problem.
    let all = json!({"model_type": "llama", "hidden_size": 1_048_576, "num_hidden_layers": 1_000_000,
        "num_attention_heads": 1_048_576, "intermediate_size": 16_777_216});
    assert_refused(&all, &["num_hidden_layers"]);
    let phi = json!({"model_type": "phi", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "qk_layernorm": true});
    assert_refused(&phi, &["qk_layernorm"]);
}

#[test]
fn classes_of_configs() {
    let config = json!({"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}});
    let bert = Architecture::from_hf_config(&config).unwrap();
    assert_eq!(bert.class_of_hf_config(&config), Some(Class::SequenceClassification { labels: 3 }));
    assert_eq!(bert.class_of_hf_config(&json!({"architectures": ["BertForPreTraining"]})), None);
    // A model type of its own with the formulas of another.
    let exaone = json!({"model_type": "exaone", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4,
        "architectures": ["ExaoneForCausalLM"]});
    let read = Architecture::from_hf_config(&exaone).unwrap();
    assert_eq!(read.class_of_hf_config(&exaone), Some(Class::CausalLm));
}

#[test]
fn dimensions_that_cannot_be() {
    let written = Dimensions { kv_heads: Some(8), experts: Some(4), ..dimensions(64, 2, 16) };
    let problems = Architecture::from_dimensions(Family::GPT2, &written).unwrap_err();
    assert_eq!(problems.iter().map(ArchitectureProblem::key).collect::<Vec<_>>(), ["kv-heads", "experts"]);
    assert_eq!(problems[0].to_string(), "`kv-heads` is 8; expected 16, which is fixed for `gpt2`");
    let problems = Architecture::from_dimensions(family("qwen2"), &Dimensions::default()).unwrap_err();
    assert_eq!(
        problems.iter().map(ArchitectureProblem::key).collect::<Vec<_>>(),
        ["hidden", "layers", "heads", "ffn"]
    );
}

proptest::proptest! {
    #[test]
    fn any_numbers_give_figures_or_problems(
        family in proptest::sample::select(Family::named().collect::<Vec<_>>()),
        numbers in proptest::collection::vec(proptest::option::of(proptest::prelude::any::<u64>()), 11),
        small in proptest::prelude::any::<bool>(),
    ) {
        let at = |n: usize| numbers[n].map(|value| if small { value % 300 } else { value });
        let written = Dimensions {
            hidden: at(0), layers: at(1), heads: at(2), kv_heads: at(3), head_dim: at(4), ffn: at(5),
            vocab: at(6), positions: at(7), experts: at(8), active_experts: at(9), layer_norms: at(10),
            ..Dimensions::default()
        };
        if let Ok((a, _)) = Architecture::from_dimensions(family, &written) {
            let count = a.parameters();
            proptest::prop_assert!(count.active <= count.total && count.total <= 1_000_000_000_000_000_000);
            proptest::prop_assert!(a.flops_forward_per_sequence(4_096).total().is_finite());
            let _ = a.lora_trainable(64, &["all-linear"]);
        }
        let config = serde_json::json!({
            "model_type": family.model_type(), "hidden_size": at(0), "num_hidden_layers": at(1),
            "num_attention_heads": at(2), "n_embd": at(0), "n_layer": at(1), "n_head": at(2), "d_model": at(0),
        });
        let _ = Architecture::from_hf_config(&config);
    }
}

/// Published configs of 70 models and what transformers 5.23.0 counts (`tests/python/count_models.py`).
#[test]
fn published_configs_as_transformers_counts_them() {
    let mut wrong = Vec::new();
    for line in include_str!("testdata/published.jsonl").lines() {
        let case = parse_hf_config(line).unwrap();
        let (id, config) = (case["id"].as_str().unwrap(), &case["config"]);
        match Architecture::from_hf_config(config) {
            Ok(a) => {
                let class = a.class_of_hf_config(config).unwrap_or_else(|| a.default_class());
                let count = a.parameters_for_class(class).map(|count| count.total);
                if count != case["parameters"].as_u64() {
                    wrong.push(format!("{id}: {count:?}, not {}", case["parameters"]));
                }
                let active = a.parameters_for_class(class).map(|count| count.active);
                if !case["active"].is_null() && active != case["active"].as_u64() {
                    wrong.push(format!("{id}: {active:?} active, not {}", case["active"]));
                }
            }
            Err(problems) => wrong.push(format!("{id}: {problems:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Small configs of many model types and what transformers 5.24.0 counts (`tests/python/count_models.py`).
#[test]
fn small_configs_of_all_types_as_transformers_counts_them() {
    let mut wrong = Vec::new();
    for line in include_str!("testdata/types.jsonl").lines() {
        let case = parse_hf_config(line).unwrap();
        let config = &case["config"];
        let name = case["class"].as_str().unwrap();
        match Architecture::from_hf_config(config) {
            Ok(a) => {
                let class = a.class_of_hf_config(&json!({"architectures": [name]}));
                let class = class.unwrap_or_else(|| a.default_class());
                let count = a.parameters_for_class(class).map(|count| count.total);
                if count != case["parameters"].as_u64() || a.class_name(class).as_deref() != Some(name) {
                    let difference = case["parameters"].as_i64().unwrap() - count.unwrap_or(0).cast_signed();
                    wrong.push(format!(
                        "{} {name} {:?} {difference} more",
                        config["model_type"],
                        a.class_name(class)
                    ));
                }
            }
            Err(problems) => wrong.push(format!("{}: {problems:?}", config["model_type"])),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Forward FLOP of small models as torch's FlopCounterMode counts them (`tests/python/count_flops.py`).
#[test]
fn forward_flops_as_torch_counts_them() {
    for line in include_str!("testdata/flops.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let a = Architecture::from_hf_config(&case["config"]).unwrap();
        let forward = a.flops_forward_per_sequence(case["tokens"].as_u64().unwrap());
        assert_eq!(Some(forward.total()), case["flops"].as_f64(), "{}", case["config"]["model_type"]);
    }
}

/// A causal mask halves attention, and windows limit it (Megatron-Bridge: w - w(w - 1)/(2s) keys).
#[test]
fn training_flops_of_windows() {
    let config = json!({"model_type": "gpt_oss", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
        "vocab_size": 128, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]});
    let a = Architecture::from_hf_config(&config).unwrap();
    let forward = a.flops_forward_per_sequence(32);
    let per_key = 4.0 * 4.0 * 16.0;
    assert_eq!(forward.attention_core, 2.0 * per_key * 32.0 * 32.0);
    let seen = (8.0 - 8.0 * 7.0 / 64.0) + 33.0 / 2.0;
    assert_eq!(forward.attention_visible, per_key * 32.0 * seen);
    let matrices = forward.total() - forward.attention_core;
    let training = 3.0 * (matrices + forward.attention_visible) / 32.0;
    assert_eq!(a.training_flops_per_token(Class::CausalLm, 32), Some(training));
}

#[test]
fn unknown_types_are_counted_or_name_the_field() {
    let mut config = json!({"model_type": "newer_model", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 96, "vocab_size": 128, "rms_norm_eps": 1e-6, "memory_slots": 0, "pad_token_id": 3});
    let a = Architecture::from_hf_config(&config).unwrap();
    assert_eq!(a.unknown_type.as_deref(), Some("newer_model"));
    assert_eq!(a.parameters().total, 2 * 128 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64);
    config["memory_slots"] = json!(8);
    assert_refused(&config, &["memory_slots"]);
    config["memory_slots"] = json!(0);
    config["hidden_act"] = json!("xielu");
    assert_refused(&config, &["hidden_act"]);
    config["hidden_act"] = json!("silu");
    config["architectures"] = json!(["NewerModelForMaskedLM"]);
    assert_refused(&config, &["architectures"]);
}

/// A tower is counted if its config is known, and an unknown text model is not read as the usual one of its container.
#[test]
fn unknown_towers_and_text_models_are_named() {
    let text = json!({"model_type": "newer_text", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 96, "vocab_size": 128});
    let mut config = json!({"model_type": "llava", "text_config": text, "vision_config": {"model_type": "clip_vision_model"}});
    assert_eq!(Architecture::from_hf_config(&config).unwrap().unknown_type.as_deref(), Some("newer_text"));
    config["text_config"]["model_type"] = json!("llama");
    assert_eq!(Architecture::from_hf_config(&config).unwrap().unknown_type, None);
    config["vision_config"]["model_type"] = json!("newer_vision");
    assert_refused(&config, &["vision_config.model_type"]);
    config["model_type"] = json!("newer_model");
    config["encoder_config"] = json!({"layers": 4});
    assert_refused(&config, &["encoder_config", "vision_config"]);
}

/// Models whose code is in their own repository, with the parameters of their published files (recalled 2026-11-26).
#[test]
fn models_with_code_of_their_own() {
    for (config, total) in [
        (
            json!({"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "num_attention_heads": 32,
                "num_hidden_layers": 32, "kv_channels": 128, "no_bias": true, "vocab_size": 151_936,
                "architectures": ["QWenLMHeadModel"]}),
            7_721_324_544,
        ),
        (
            json!({"model_type": "minicpm", "hidden_size": 2304, "intermediate_size": 5760, "num_attention_heads": 36,
                "num_hidden_layers": 40, "vocab_size": 122_753}),
            2_724_880_896,
        ),
        (
            json!({"model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
                "first_k_dense_replace": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                "num_attention_heads": 16, "num_hidden_layers": 28, "vocab_size": 102_400}),
            16_375_728_128,
        ),
        (
            json!({"model_type": "internlm2", "bias": false, "hidden_size": 4096, "intermediate_size": 14336,
                "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 92_544}),
            7_737_708_544,
        ),
        (
            json!({"model_type": "chatglm", "add_bias_linear": false, "add_qkv_bias": true, "ffn_hidden_size": 13696,
                "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2,
                "num_attention_heads": 32, "num_layers": 40, "padded_vocab_size": 151_552}),
            9_399_951_360_u64,
        ),
    ] {
        let a = Architecture::from_hf_config(&config).unwrap();
        assert_eq!((a.parameters().total, &a.unknown_type), (total, &None), "{config}");
    }
}

/// The published total of Llama 4 Scout: 107,769,861,120 of the text model, 871,932,416 of vision tower and projector.
#[test]
fn llama_4_with_its_tower() {
    let config = json!({"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"],
        "text_config": {"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
            "num_key_value_heads": 8, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "interleave_moe_layer_step": 1,
            "num_local_experts": 16, "vocab_size": 202_048},
        "vision_config": {"model_type": "llama4_vision_model", "hidden_size": 1408, "image_size": 336, "intermediate_size": 5632,
            "num_attention_heads": 16, "num_hidden_layers": 34, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
            "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096}});
    let count = Architecture::from_hf_config(&config).unwrap().parameters();
    assert_eq!((count.total, count.towers), (108_641_793_536, 871_932_416));
}

/// Parameters of published files, buffers included: the class, and what files hold in addition. Of DeepSeek-V3 without the
/// scales of its FP8 blocks (totals of the Hub's metadata, read 2026-11-23).
#[test]
fn files_hold_the_class_and_the_uncounted_parts() {
    let files = [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 81_324_862_720),
        ("Qwen/Qwen3.5-9B", 9_653_104_368),
        ("Qwen/Qwen3.5-27B", 27_781_427_952),
        ("Qwen/Qwen3.5-35B-A3B", 35_951_822_704),
        ("Qwen/Qwen3.5-122B-A10B", 125_086_497_008),
        ("zai-org/GLM-5", 753_864_139_008),
        ("zai-org/GLM-5.2", 753_329_940_480),
        ("deepseek-ai/DeepSeek-V3", 684_489_830_400 + 59 * 256),
        ("google/gemma-4-E4B", 7_996_156_490),
        ("deepseek-ai/DeepSeek-V4-Flash", 290_944_616_402),
        ("deepseek-ai/DeepSeek-V4-Pro", 1_598_839_674_782_u64),
    ];
    let mut wrong = Vec::new();
    for line in include_str!("testdata/published.jsonl").lines() {
        let case = parse_hf_config(line).unwrap();
        let Some((id, total)) = files.iter().find(|(id, _)| case["id"] == **id) else { continue };
        let a = Architecture::from_hf_config(&case["config"]).unwrap();
        let class = a.class_of_hf_config(&case["config"]).unwrap();
        let ours: u64 = a.parts(class).iter().map(|part| part.parameters).sum();
        if ours != *total {
            wrong.push(format!("{id}: {} more, {:?}", i128::from(*total) - i128::from(ours), a.uncounted));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
