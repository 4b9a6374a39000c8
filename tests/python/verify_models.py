#!/usr/bin/env python3
"""Counts the parameters of every row of crates/trainc-catalog/src/data/models.toml with the classes of transformers.

The Rust formulas and this script share only the dimensions of the rows: here the model is built
from a configuration object on torch's meta device (no memory, no network) and its parameters are summed.
It also checks that the class that FSDP wraps exists in the built model under the name that trainc uses.

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/python/verify_models.py [part of a name ...]

With --small it prints crates/trainc-ir/src/architecture/testdata/small.jsonl, one JSON object per line: for each
family a tiny config.json, the parameters of each class that transformers has, and the trainable parameters
of LoRA at rank 8 on each module name (needs peft too). The Rust tests read that file.

Exit code 0: every row agrees. 1: at least one differs; each difference is printed.
Last full run: 2026-11-21, transformers 5.23.0, torch 2.15.0.
"""

import json
import os
import sys
import tomllib
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

ROWS = Path(__file__).resolve().parents[2] / "crates/trainc-catalog/src/data/models.toml"

# Prefix of the class names, and class of one layer: the same facts as crates/trainc-ir/src/architecture/data/model_types.toml.
FAMILIES = {
    "gpt2": ("GPT2", "GPT2Block"),
    "gpt-neo": ("GPTNeo", "GPTNeoBlock"),
    "gptj": ("GPTJ", "GPTJBlock"),
    "gpt-neox": ("GPTNeoX", "GPTNeoXLayer"),
    "gpt-bigcode": ("GPTBigCode", "GPTBigCodeBlock"),
    "llama": ("Llama", "LlamaDecoderLayer"),
    "mistral": ("Mistral", "MistralDecoderLayer"),
    "mixtral": ("Mixtral", "MixtralDecoderLayer"),
    "qwen2": ("Qwen2", "Qwen2DecoderLayer"),
    "qwen3": ("Qwen3", "Qwen3DecoderLayer"),
    "gemma": ("Gemma", "GemmaDecoderLayer"),
    "gemma2": ("Gemma2", "Gemma2DecoderLayer"),
    "phi": ("Phi", "PhiDecoderLayer"),
    "phi3": ("Phi3", "Phi3DecoderLayer"),
    "stablelm": ("StableLm", "StableLmDecoderLayer"),
    "falcon": ("Falcon", "FalconDecoderLayer"),
    "opt": ("OPT", "OPTDecoderLayer"),
    "bloom": ("Bloom", "BloomBlock"),
    "mpt": ("Mpt", "MptBlock"),
    "bert": ("Bert", "BertLayer"),
    "roberta": ("Roberta", "RobertaLayer"),
    "distilbert": ("DistilBert", "TransformerBlock"),
    "t5": ("T5", "T5Block"),
}

CLASSES = {
    "base": "Model",
    "causal-lm": "ForCausalLM",
    "masked-lm": "ForMaskedLM",
    "conditional-generation": "ForConditionalGeneration",
    "sequence-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
}


def config_of(row):
    """Returns the configuration object of one row; sets only the values in the row."""
    family = row["family"]
    get = row.get
    config_class = getattr(transformers, FAMILIES[family][0] + "Config")
    if family in ("gpt2", "gptj", "gpt-bigcode"):
        names = {"hidden": "n_embd", "layers": "n_layer", "heads": "n_head", "ffn": "n_inner", "positions": "n_positions"}
    elif family == "gpt-neo":
        names = {"hidden": "hidden_size", "layers": "num_layers", "heads": "num_heads", "ffn": "intermediate_size"}
        names["positions"] = "max_position_embeddings"
    elif family == "bloom":
        names = {"hidden": "hidden_size", "layers": "n_layer", "heads": "n_head"}
    elif family == "mpt":
        names = {"hidden": "d_model", "layers": "n_layers", "heads": "n_heads", "positions": "max_seq_len"}
    elif family == "distilbert":
        names = {"hidden": "dim", "layers": "n_layers", "heads": "n_heads", "ffn": "hidden_dim"}
        names["positions"] = "max_position_embeddings"
    elif family == "t5":
        names = {"hidden": "d_model", "layers": "num_layers", "heads": "num_heads", "ffn": "d_ff", "head-dim": "d_kv"}
        names |= {"decoder-layers": "num_decoder_layers", "buckets": "relative_attention_num_buckets"}
    else:
        names = {"hidden": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}
        names |= {"ffn": "intermediate_size", "positions": "max_position_embeddings"}
        names |= {"kv-heads": "num_key_value_heads", "head-dim": "head_dim", "types": "type_vocab_size"}
        names |= {"experts": "num_local_experts", "active-experts": "num_experts_per_tok"}
    if family == "falcon":
        names |= {"kv-heads": "num_kv_heads", "ffn": "ffn_hidden_size", "parallel": "parallel_attn"}
        names["layer-norms"] = "num_ln_in_parallel_attn"
    if family == "opt":
        names |= {"ffn": "ffn_dim", "word-embedding": "word_embed_proj_dim", "final-norm": "do_layer_norm_before"}
    if family == "stablelm":
        names |= {"qkv-bias": "use_qkv_bias", "parallel": "use_parallel_residual"}
    values = {theirs: row[ours] for ours, theirs in names.items() if ours in row}
    values["vocab_size"] = row["vocab"]
    if family != "mpt":
        values["tie_word_embeddings"] = row["tied"]
    if family == "falcon":
        kv, heads = get("kv-heads", 1), row["heads"]
        values["new_decoder_architecture"] = kv not in (1, heads)
        values["multi_query"] = kv == 1
        values["alibi"] = get("alibi", False)
        values["bias"] = get("mlp-bias", False)
        if not values["new_decoder_architecture"]:
            values.pop("num_ln_in_parallel_attn", None)
    if family == "gpt-bigcode":
        values["multi_query"] = get("kv-heads", 1) == 1
    if family == "gpt-neo":
        values["attention_types"] = [[["global"], row["layers"]]]  # the window changes no parameter
    if family == "t5":
        values["feed_forward_proj"] = "gated-gelu" if get("gated", False) else "relu"
    values["pad_token_id"] = 0  # some real padding IDs are outside of the small vocabularies
    return config_class(**values)


def count(row):
    """Returns the parameter count of this row's model, and whether it has the wrapped class once per layer."""
    prefix, layer = FAMILIES[row["family"]]
    suffix = CLASSES[row["class"]]
    if prefix == "GPT2" and suffix == "ForCausalLM":
        suffix = "LMHeadModel"
    with torch.device("meta"):
        model = getattr(transformers, prefix + suffix)(config_of(row))
    if row["family"] == "t5" and not row["tied"]:
        # transformers 5 always ties T5's head; the published T5 1.1 and Flan-T5 files have a separate head,
        # which transformers 4 trained separately.
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    # parameters() returns a tied weight once.
    total = sum(parameter.numel() for parameter in model.parameters())
    wrapped = sum(type(module).__name__ == layer for module in model.modules())
    return total, wrapped == row["layers"] + (row.get("decoder-layers", row["layers"]) if prefix == "T5" else 0)


# Tiny models of each family, with values that its models may set differently from the default.
SMALL_USUAL = {"hidden": 64, "layers": 3, "heads": 4, "ffn": 96, "vocab": 320, "positions": 48}
SMALL = [
    {"family": "gpt2", "tied": True},
    {"family": "gpt2", "tied": False},
    {"family": "gpt-neo", "tied": True},
    {"family": "gptj", "tied": False},
    {"family": "gpt-neox", "tied": False},
    {"family": "gpt-bigcode", "tied": True, "kv-heads": 1},
    {"family": "gpt-bigcode", "tied": True, "kv-heads": 4},
    {"family": "llama", "tied": False, "kv-heads": 2},
    {"family": "llama", "tied": True, "kv-heads": 4, "head-dim": 24},
    {"family": "mistral", "tied": False, "kv-heads": 2, "head-dim": 24},
    {"family": "mixtral", "tied": False, "kv-heads": 2, "experts": 5, "active-experts": 3},
    {"family": "qwen2", "tied": True, "kv-heads": 2},
    {"family": "qwen3", "tied": False, "kv-heads": 2, "head-dim": 24},
    {"family": "gemma", "tied": True, "kv-heads": 1, "head-dim": 24},
    {"family": "gemma2", "tied": True, "kv-heads": 2, "head-dim": 24},
    {"family": "phi", "tied": False, "kv-heads": 4},
    {"family": "phi3", "tied": False, "kv-heads": 2},
    {"family": "stablelm", "tied": False, "kv-heads": 2, "qkv-bias": True},
    {"family": "stablelm", "tied": False, "kv-heads": 4, "parallel": True},
    {"family": "falcon", "tied": True, "kv-heads": 1},
    {"family": "falcon", "tied": True, "kv-heads": 2},
    {"family": "falcon", "tied": False, "kv-heads": 2, "layer-norms": 1},
    {"family": "falcon", "tied": True, "kv-heads": 4, "mlp-bias": True, "parallel": False, "alibi": True},
    {"family": "opt", "tied": True},
    {"family": "opt", "tied": True, "word-embedding": 32, "final-norm": False},
    {"family": "bloom", "tied": True, "ffn": 256},
    {"family": "mpt", "tied": True, "ffn": 256},
    {"family": "bert", "tied": True, "types": 2},
    {"family": "roberta", "tied": True, "types": 1},
    {"family": "distilbert", "tied": True},
    {"family": "t5", "tied": True, "head-dim": 24, "buckets": 16},
    {"family": "t5", "tied": True, "head-dim": 24, "gated": True, "decoder-layers": 2},
]


def small():
    """Prints the lines of testdata/small.jsonl."""
    import peft

    for given in SMALL:
        row = SMALL_USUAL | given
        prefix, layer = FAMILIES[row["family"]]
        counts, lora = {}, {}
        for name, suffix in CLASSES.items():
            if prefix == "GPT2" and name == "causal-lm":
                suffix = "LMHeadModel"
            kind = getattr(transformers, prefix + suffix, None)
            if kind is None:
                continue
            config = config_of(row)
            if name in ("sequence-classification", "token-classification"):
                config.num_labels = 3
            model = kind(config)
            counts[name] = sum(parameter.numel() for parameter in model.parameters())
            usual = {"T5": "conditional-generation", "Bert": "base", "Roberta": "base", "DistilBert": "base"}
            if name != usual.get(prefix, "causal-lm"):
                continue
            layers = [module for module in model.modules() if type(module).__name__ == layer]
            linear = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
            leaves = {path.split(".")[-1] for one in layers for path, module in one.named_modules() if isinstance(module, linear)}
            for target in [*sorted(leaves), "all-linear"]:
                names = target if target == "all-linear" else [target]
                adapted = peft.get_peft_model(kind(config), peft.LoraConfig(r=8, target_modules=names))
                lora[target] = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
        says = json.loads(config_of(row).to_json_string(use_diff=True))
        for noise in ("transformers_version", "pad_token_id", "dtype", "attention_layers", "attn_config"):
            says.pop(noise, None)
        print(json.dumps({"layer": layer, "config": says, "counts": counts, "lora": lora}))


def main(parts):
    if parts == ["--small"]:
        small()
        return 0
    rows = tomllib.loads(ROWS.read_text())
    bad = done = 0
    for name, row in rows.items():
        if parts and not any(part in name for part in parts):
            continue
        total, wrapped = count(row)
        done += 1
        if total != row["parameters"] or not wrapped:
            bad += 1
            print(f"{name}: the row says {row['parameters']:,}, the class has {total:,}; layers as named: {wrapped}")
    print(f"{done} rows, {bad} differ; transformers {transformers.__version__}, torch {torch.__version__}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
