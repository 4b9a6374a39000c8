#!/usr/bin/env python3
"""Counts the forward FLOP of small models with torch's FlopCounterMode, and prints testdata/flops.jsonl of trainc-ir.

Eager attention and eager experts: FlopCounterMode does not count grouped matrix products. One sequence on the CPU.

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/python/count_flops.py > crates/trainc-ir/src/architecture/testdata/flops.jsonl

Last run: 2026-11-25, transformers 5.23.0, torch 2.15.0.
"""

import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from transformers import CONFIG_MAPPING  # noqa: E402

USUAL = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
         "vocab_size": 520, "max_position_embeddings": 64, "pad_token_id": 0}
CASES = {
    "llama": ("LlamaForCausalLM", {}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 56, "head_dim": 20}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {"num_key_value_heads": 6, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
                                              "moe_intermediate_size": 56, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
                                              "q_lora_rank": 28, "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 20}),
}
TOKENS = 32

for model_type, (name, given) in CASES.items():
    torch.manual_seed(0)
    values = USUAL | given
    config = CONFIG_MAPPING[model_type](**values)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=torch.randint(1, 520, (1, TOKENS)), use_cache=False)
    print(json.dumps({"tokens": TOKENS, "flops": counter.get_total_flops(), "config": {"model_type": model_type} | values}))
