#!/usr/bin/env python3
"""Counts the parameters of small models of many types with the classes of transformers, on torch's meta device.

It writes crates/trainc-ir/src/architecture/testdata/types.jsonl: for each `model_type` and variation a config.json, the class
and its parameters. The Rust tests count the same configs with the formulas of data/parts.toml. The configs are those of
transformers' configuration classes with small dimensions, so that a wrong factor is visible.

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/python/count_models.py > crates/trainc-ir/src/architecture/testdata/types.jsonl

A type that cannot be built with the small dimensions is named on stderr. Last run: 2026-11-26, transformers 5.24.0, torch 2.15.0.
"""

import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import CONFIG_MAPPING  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402

SMALL = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2,
         "vocab_size": 520, "max_position_embeddings": 64, "tie_word_embeddings": False, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}
EXPERTS = {"num_experts_per_tok": 3, "moe_intermediate_size": 56}
SHARED = EXPERTS | {"n_routed_experts": 10, "n_shared_experts": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 2}
LATENT = {"kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 20, "num_key_value_heads": 6}
MAMBA = {"mamba_d_state": 16, "mamba_n_heads": 12, "mamba_d_head": 16, "mamba_n_groups": 2}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 20}
MIXED = ["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention", "linear_attention"]
RELATIVE = {"relative_attention": True, "position_buckets": 32, "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p", "position_biased_input": False,
            "type_vocab_size": 0, "tie_word_embeddings": True}
WINDOWS = ["sliding_attention", "full_attention"] * 3

# Model type: what a config sets in addition to SMALL; `None` removes a key.
TYPES = {
    "llama": [{}, {"attention_bias": True, "mlp_bias": True, "head_dim": 20, "tie_word_embeddings": True}],
    "ministral": [{"head_dim": 20}], "ministral3": [{"head_dim": 20}, {}], "smollm3": [{}], "seed_oss": [{"head_dim": 20}],
    "glm": [{"head_dim": 20}], "glm4": [{"head_dim": 20, "attention_bias": True}, {"head_dim": 20, "attention_bias": False}],
    "granite": [{}], "cohere": [{}, {"use_qk_norm": True}], "cohere2": [{}], "olmo": [{}], "olmo2": [{}], "olmo3": [{}],
    "exaone4": [{}], "nemotron": [{"head_dim": 20}], "arcee": [{"head_dim": 20}], "apertus": [{}],
    "starcoder2": [{}, {"use_bias": False}], "ernie4_5": [{"head_dim": 20}, {"head_dim": 20, "use_bias": True}],
    "helium": [{"head_dim": 16}], "cwm": [{"head_dim": 20}], "hunyuan_v1_dense": [{"head_dim": 20}],
    "hyperclovax": [{"head_dim": 16}], "nanochat": [{}], "diffllama": [{"head_dim": 16}], "persimmon": [{"num_key_value_heads": 6}],
    "vaultgemma": [{"head_dim": 20}], "gemma3_text": [{"head_dim": 20}],
    "gemma4_text": [{"head_dim": 20, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 520, "layer_types": WINDOWS,
                     "num_kv_shared_layers": 2, "use_double_wide_mlp": True},
                    {"head_dim": 20, "layer_types": WINDOWS[::-1]}],
    # Without a feed-forward width the class has a constant.
    "bitnet": [{"intermediate_size": None}], "biogpt": [{"intermediate_size": None}],
    "qwen2_moe": [EXPERTS | {"num_experts": 10, "shared_expert_intermediate_size": 72, "decoder_sparse_step": 2, "mlp_only_layers": [3]}],
    "qwen3_moe": [EXPERTS | {"num_experts": 10, "head_dim": 20, "decoder_sparse_step": 1, "mlp_only_layers": [0, 3]}],
    "qwen3_next": [EXPERTS | DELTA | {"num_experts": 10, "shared_expert_intermediate_size": 72, "head_dim": 20, "layer_types": MIXED}],
    "qwen3_5_text": [DELTA | {"head_dim": 20, "layer_types": MIXED}],
    "qwen3_5_moe_text": [EXPERTS | DELTA | {"num_experts": 10, "shared_expert_intermediate_size": 72, "head_dim": 20, "layer_types": MIXED}],
    "olmo_hybrid": [DELTA | {"layer_types": MIXED}],
    "gpt_oss": [{"num_local_experts": 10, "num_experts_per_tok": 3, "head_dim": 20, "layer_types": WINDOWS}],
    "llama4_text": [{"num_local_experts": 10, "head_dim": 20, "intermediate_size_mlp": 200, "interleave_moe_layer_step": 2}],
    "deepseek_v2": [SHARED | LATENT | {"q_lora_rank": None}, SHARED | LATENT | {"q_lora_rank": 28, "mlp_bias": True}],
    "deepseek_v3": [SHARED | LATENT | {"q_lora_rank": 28}, SHARED | LATENT | {"q_lora_rank": 28, "attention_bias": True}],
    "deepseek_v32": [SHARED | LATENT | {"q_lora_rank": 28, "index_n_heads": 4, "index_head_dim": 16}],
    "glm_moe_dsa": [SHARED | LATENT | {"q_lora_rank": 28, "index_n_heads": 4, "index_head_dim": 16}],
    "glm4_moe_lite": [SHARED | LATENT | {"q_lora_rank": 28}], "youtu": [LATENT | {"q_lora_rank": 28}], "minicpm3": [LATENT | {"q_lora_rank": 28}],
    "deepseek_v4": [EXPERTS | {"n_routed_experts": 10, "n_shared_experts": 1, "q_lora_rank": 28, "head_dim": 24, "o_groups": 2, "o_lora_rank": 12,
                               "index_n_heads": 4, "index_head_dim": 16, "hc_mult": 3, "qk_rope_head_dim": 8, "num_key_value_heads": 1, "intermediate_size": None,
                               "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"] * 2}],
    "kimi_linear": [EXPERTS | LATENT | {"num_experts": 10, "num_shared_experts": 2, "q_lora_rank": None, "linear_num_heads": 4, "linear_head_dim": 12,
                                        "layer_types": MIXED, "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 4}],
    "bailing_hybrid": [EXPERTS | LATENT | {"num_experts": 10, "num_shared_experts": 2, "linear_num_heads": 4, "linear_head_dim": 12, "layer_types": MIXED,
                                           "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 4}],
    "longcat_flash": [LATENT | {"num_layers": 3, "num_hidden_layers": None, "ffn_hidden_size": 160, "expert_ffn_hidden_size": 56, "q_lora_rank": 28,
                                "n_routed_experts": 10, "zero_expert_num": 4, "moe_topk": 3, "intermediate_size": None}],
    "glm4_moe": [SHARED | {"head_dim": 20, "use_qk_norm": True, "attention_bias": True}, SHARED | {"head_dim": 20}],
    "solar_open": [SHARED | {"head_dim": 20}], "dots1": [SHARED | {"head_dim": 20}],
    "hy_v3": [EXPERTS | {"num_experts": 10, "num_shared_experts": 2, "head_dim": 20, "mlp_layer_types": ["dense"] + ["sparse"] * 5}],
    "exaone_moe": [EXPERTS | {"num_experts": 10, "num_shared_experts": 2, "n_group": 2, "first_k_dense_replace": 2}],
    "afmoe": [EXPERTS | {"num_experts": 10, "num_shared_experts": 2, "head_dim": 20, "num_dense_layers": 2}],
    "hunyuan_v1_moe": [{"num_experts": 10, "moe_topk": 3, "head_dim": 20}],
    "ernie4_5_moe": [{"moe_num_experts": 10, "moe_k": 3, "moe_intermediate_size": 56, "moe_num_shared_experts": 2, "moe_layer_start_index": 2,
                      "moe_layer_end_index": 4, "moe_layer_interval": 1}],
    "mimo_v2_flash": [EXPERTS | {"num_attention_heads": 8, "n_routed_experts": 10, "head_dim": 20, "v_head_dim": 12, "layer_types": WINDOWS, "mlp_layer_types": ["dense"] + ["sparse"] * 5}],
    "minimax_m2": [{"num_local_experts": 10, "num_experts_per_tok": 3, "head_dim": 20}],
    "minimax_m3_vl_text": [{"num_local_experts": 10, "num_experts_per_tok": 3, "head_dim": 20, "dense_intermediate_size": 200, "shared_intermediate_size": 72,
                            "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 4}],
    "minimax": [{"num_local_experts": 10, "num_experts_per_tok": 3, "head_dim": 20, "layer_types": MIXED}],
    "mixtral": [{"num_local_experts": 10, "num_experts_per_tok": 3}], "olmoe": [{"num_experts": 10, "num_experts_per_tok": 3}],
    "flex_olmo": [{"num_experts": 10, "num_experts_per_tok": 3}], "phimoe": [{"num_local_experts": 10, "attention_bias": True, "lm_head_bias": True}],
    "granitemoe": [{"num_local_experts": 10, "num_experts_per_tok": 3}],
    "granitemoeshared": [{"num_local_experts": 10, "num_experts_per_tok": 3, "shared_intermediate_size": 72}],
    "granitemoehybrid": [MAMBA | {"num_local_experts": 10, "num_experts_per_tok": 3, "shared_intermediate_size": 72, "layer_types": MIXED},
                         MAMBA | {"num_local_experts": 0, "shared_intermediate_size": 72, "layer_types": MIXED}],
    "jetmoe": [{"num_local_experts": 10, "num_experts_per_tok": 3, "kv_channels": 20, "num_attention_heads": None}],
    "mamba": [{"state_size": 16, "intermediate_size": 192, "num_attention_heads": None, "num_key_value_heads": None}],
    "falcon_mamba": [{"state_size": 16, "intermediate_size": 192, "num_attention_heads": None, "num_key_value_heads": None}],
    "mamba2": [{"num_heads": 12, "head_dim": 16, "state_size": 16, "n_groups": 2, "num_attention_heads": None, "num_key_value_heads": None, "intermediate_size": None}],
    "jamba": [{"mamba_d_state": 16, "mamba_dt_rank": 6, "attn_layer_period": 3, "attn_layer_offset": 1, "num_experts": 10}],
    "bamba": [MAMBA | {"attn_layer_indices": [1, 4]}], "falcon_h1": [MAMBA | {"mamba_d_ssm": 192}, MAMBA | {"mamba_d_ssm": 192, "mamba_rms_norm": True}],
    "nemotron_h": [{"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "linear_attention", "moe"], "head_dim": 20,
                    "ssm_state_size": 16, "mamba_num_heads": 12, "mamba_head_dim": 12, "n_groups": 2, "n_routed_experts": 10, "moe_intermediate_size": 56,
                    "moe_shared_expert_intermediate_size": 72, "moe_latent_size": 40, "num_hidden_layers": None}],
    "lfm2": [{"layer_types": ["conv", "full_attention"] * 3, "intermediate_size": 700}],
    "kolibri1": [EXPERTS | {"num_local_experts": 10, "shared_expert_intermediate_size": 72, "head_dim": 20}],
    "lfm2_moe": [EXPERTS | {"num_experts": 10, "num_dense_layers": 2, "layer_types": ["conv", "full_attention"] * 3}],
    "recurrent_gemma": [{"head_dim": 16, "lru_width": 96}],
    "internvl": [{"vision_config": {"hidden_size": 64, "norm_type": "rms_norm", "use_qk_norm": True, "use_mean_pooling": False},
                  "text_config": {"model_type": "qwen3", "num_hidden_layers": 2}, "downsample_ratio": 0.25}],
    "modernbert": [{}, {"decoder_bias": False}], "phi": [{}], "stablelm": [{}], "helium": [{"head_dim": 16}, {"head_dim": 24}],
    "cwm": [{"head_dim": 20, "mlp_bias": True}], "bert": [{}, {"tie_word_embeddings": True}, {"intermediate_size": None}],
    "albert": [{"embedding_size": 40, "num_hidden_groups": 2, "inner_group_num": 3, "tie_word_embeddings": True}],
    "electra": [{"embedding_size": 40, "tie_word_embeddings": True}],
    "deberta-v2": [RELATIVE | {"share_att_key": True}, RELATIVE | {"share_att_key": False, "conv_kernel_size": 3, "embedding_size": 40}],
    "deberta": [RELATIVE, RELATIVE | {"pos_att_type": "c2p"}], "ernie": [{"use_task_id": True, "tie_word_embeddings": True}],
    "longt5": [{"d_model": 96, "d_ff": 160, "num_heads": 6, "encoder_attention_type": "transient-global", "tie_word_embeddings": True}],
    "esm": [{"tie_word_embeddings": True, "mask_token_id": 3, "position_embedding_type": "rotary", "emb_layer_norm_before": True}],
    "zamba2": [{"intermediate_size": 160, "num_mem_blocks": 2, "use_shared_attention_adapter": True, "adapter_rank": 8, "tie_word_embeddings": True, "n_mamba_heads": 12,
                "layers_block_type": ["mamba", "hybrid", "hybrid", "mamba", "hybrid", "mamba"], "num_key_value_heads": 6}],
    "laguna": [EXPERTS | {"num_experts": 10, "shared_expert_intermediate_size": 72, "head_dim": 20, "gating": "per-element",
                          "num_attention_heads_per_layer": [4, 6, 8, 4, 6, 8]}],
}


# The default configuration, written out.
AS_DEFAULT = ["albert", "axk1", "bart", "biogpt", "bitnet", "blenderbot", "blenderbot-small", "camembert", "codegen", "ctrl", "data2vec-text", "deberta", "deit", "dinov2",
              "dinov2_with_registers", "deberta-v2", "electra", "ernie", "eurobert", "flint", "granite_swa", "granitemoe_swa", "gte", "beam", "jais2", "jina_embeddings_v3",
              "kolibri1", "lara_mini", "led", "lfm3", "longformer", "rwkv", "switch_transformers", "xlstm", "zamba", "zamba2",
              "laguna", "longt5", "m2m_100", "marian", "mbart", "megatron-bert", "mellum", "mistral4", "modernbert-decoder", "mpnet", "mt5", "mvp",
              "ibert", "mra", "nomic_bert", "openai-gpt", "pegasus", "pegasus_x", "plbart", "roberta-prelayernorm", "roformer", "umt5", "whisper", "xglm", "xlm-roberta",
              "xlm-roberta-xl"]
WITH_TOWERS = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "gemma3", "mistral3", "minimax_m3_vl",
               "kimi_k25", "llava", "llava_next", "glm4v", "glm4v_moe", "aria", "audioflamingo3", "cohere2_vision", "deepseek_vl", "exaone4_5", "gemma3n",
               "glm46v", "glm_ocr", "idefics2", "idefics3", "internvl", "lfm2_vl", "lighton_ocr", "llama4", "llava_next_video", "llava_onevision",
               "minicpm_ocr", "minicpmv4_6", "minicpmv4_7", "mllama", "musicflamingo", "ovis2", "paddleocr_vl", "paligemma", "qwen2_5_omni_thinker", "qianfan_ocr", "qwen2_audio", "qwen3_asr",
               "qwen3_omni_moe_thinker", "smolvlm", "step3p7", "video_llama_3", "vipllava", "voxtral"]
# A config inside another holds only what differs from the default of its class.
EMPTY = [("llava", "text_config"), ("llava", "vision_config"), ("qwen2_vl", "text_config"), ("qwen2_5_vl", "vision_config"),
         ("qwen3_vl", "text_config"), ("qwen3_vl", "vision_config"), ("qwen3_vl_moe", "text_config"), ("gemma3", "text_config"),
         ("gemma3n", "text_config"), ("paligemma", "text_config"), ("paligemma", "vision_config"), ("mllama", "text_config"),
         ("llama4", "text_config"), ("llama4", "vision_config"), ("mistral3", "text_config"), ("glm4v", "text_config"),
         ("glm4v_moe", "text_config"), ("internvl", "vision_config"), ("idefics3", "vision_config"), ("qwen3_asr", "audio_config"), ("voxtral", "text_config")]

# Heads of other tasks, with small dimensions.
HEADS = {"albert": ["Albert", "QuestionAnswering", "SequenceClassification", "TokenClassification"], "biogpt": ["BioGpt", "SequenceClassification", "TokenClassification"], "deberta-v2": ["DebertaV2", "QuestionAnswering", "TokenClassification"],
         "electra": ["Electra", "QuestionAnswering", "SequenceClassification", "TokenClassification"],
         "eurobert": ["EuroBert", "SequenceClassification", "TokenClassification"], "llama": ["Llama", "TokenClassification"],
         "modernbert": ["ModernBert", "SequenceClassification", "TokenClassification"], "mpnet": ["MPNet", "SequenceClassification"],
         "roberta": ["Roberta", "TokenClassification"]}


def without_noise(value):
    """Returns a config without the keys that every configuration class has."""
    if not isinstance(value, dict):
        return value
    usual = transformers.PretrainedConfig().to_dict()
    kept = {key: without_noise(item) for key, item in value.items() if key == "tie_word_embeddings" or usual.get(key, "") != item}
    return {key: item for key, item in kept.items() if key not in ("transformers_version", "rope_parameters", "_name_or_path")}


def class_of(model_type):
    """Returns the name of the class that is counted."""
    auto = modeling_auto
    masked, seq2seq = auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    decoders = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    # Encoders have a decoder's class too, which is rarely trained.
    order = (seq2seq, decoders) if model_type in seq2seq else (masked, decoders) if model_type in masked else (decoders,)
    speech = auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES
    for names in (auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, speech, *order):
        if model_type in names:
            return names[model_type]
    images = {} if model_type.startswith("dinov2") else auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    for names in (images, auto.MODEL_MAPPING_NAMES):
        if model_type in names:
            found = names[model_type]
            return found if isinstance(found, str) else found[0]
    raise KeyError(model_type)


def main():
    failed = 0
    for model_type, variations in TYPES.items():
        for given in variations:
            values = {key: value for key, value in (SMALL | given).items() if value is not None or key in ("q_lora_rank", "head_dim")}
            try:
                config = CONFIG_MAPPING[model_type](**values)
                name = class_of(model_type)
                with torch.device("meta"):
                    model = getattr(transformers, name)(config)
            except Exception as error:  # noqa: BLE001 - a type may not accept the small dimensions
                failed += 1
                print(f"{model_type}: {error!r}"[:300], file=sys.stderr)
                continue
            total = sum(parameter.numel() for parameter in model.parameters())
            written = {"model_type": model_type} | values
            print(json.dumps({"class": name, "parameters": total, "config": written}))
    for model_type in AS_DEFAULT + WITH_TOWERS:
        config = CONFIG_MAPPING[model_type]()
        name = class_of(model_type)
        with torch.device("meta"):
            model = getattr(transformers, name)(config)
        total = sum(parameter.numel() for parameter in model.parameters())
        print(json.dumps({"class": name, "parameters": total, "config": without_noise(config.to_dict()) | {"model_type": model_type}}))
    for model_type, (prefix, *tasks) in HEADS.items():
        values = SMALL | {"tie_word_embeddings": True, "embedding_size": 40}
        for name in [f"{prefix}For{task}" for task in tasks]:
            with torch.device("meta"):
                model = getattr(transformers, name)(CONFIG_MAPPING[model_type](**values))
            total = sum(parameter.numel() for parameter in model.parameters())
            print(json.dumps({"class": name, "parameters": total, "config": {"model_type": model_type} | values}))
    for model_type, key in EMPTY:
        values = without_noise(CONFIG_MAPPING[model_type]().to_dict())
        values[key] = {"model_type": values[key]["model_type"]}
        with torch.device("meta"):
            model = getattr(transformers, class_of(model_type))(CONFIG_MAPPING[model_type](**values))
        total = sum(parameter.numel() for parameter in model.parameters())
        print(json.dumps({"class": class_of(model_type), "parameters": total, "config": values | {"model_type": model_type}}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
