#!/usr/bin/env python3
"""Records the memory of PyTorch: bytes that layers of transformers save for the backward pass, and bytes of
parameters, gradients and optimizer states of each rank under FSDP and DDP. On CPU, no network, no GPU.

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/python/saved_tensors.py > crates/trainc-predict/src/memory/testdata/pytorch.json

The Rust tests of crates/trainc-predict/src/memory read that file: formulas of activations must be within 10 % of the
saved bytes, states and DDP's buckets within 2 %. Saved tensors are counted once per storage, without parameters and
without dropout, whose masks have one byte per element on a GPU but the width of the activations on a CPU.
"""

import json
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402


def saved_bytes(layer, inputs, **kwargs):
    """Returns the bytes of distinct storages that the forward pass saves, without parameters and the given masks."""
    own = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    own |= {b.untyped_storage().data_ptr() for b in layer.buffers()}
    own |= {t.untyped_storage().data_ptr() for t in torch.utils._pytree.tree_leaves(kwargs) if torch.is_tensor(t)}
    seen, alive = {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = layer(inputs, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    out.sum().backward()
    return sum(seen.values())


def layer_case(family, attention, dtype, hidden, heads, ffn, kv_heads=None, batch=2, sequence=256):
    torch.manual_seed(0)
    kwargs = {}
    if family == "llama":
        config = transformers.LlamaConfig(
            hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv_heads or heads,
            intermediate_size=ffn, num_hidden_layers=1, vocab_size=64, attn_implementation=attention)
        from transformers.models.llama import modeling_llama as module
        layer = module.LlamaDecoderLayer(config, 0)
        rotary = module.LlamaRotaryEmbedding(config)
        position = torch.arange(sequence)[None]
        kwargs["position_embeddings"] = rotary(torch.zeros(batch, sequence, hidden, dtype=dtype), position)
    else:
        config = transformers.GPT2Config(
            n_embd=hidden, n_head=heads, n_inner=ffn, n_layer=1, vocab_size=64, n_positions=sequence,
            resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0, attn_implementation=attention)
        from transformers.models.gpt2 import modeling_gpt2 as module
        layer = module.GPT2Block(config, 0)
    layer = layer.to(dtype).train()
    if attention == "eager":
        mask = torch.full((sequence, sequence), torch.finfo(dtype).min, dtype=dtype).triu(1)
        kwargs["attention_mask"] = mask.expand(batch, 1, sequence, sequence)
    inputs = torch.randn(batch, sequence, hidden, dtype=dtype, requires_grad=True)
    return {
        "family": family, "attention": attention, "width": dtype.itemsize, "hidden": hidden, "heads": heads,
        "kv_heads": kv_heads or heads, "ffn": ffn, "batch": batch, "sequence": sequence,
        "saved_bytes": saved_bytes(layer, inputs, **kwargs),
    }


def model_case(attention="sdpa", layer=0, sequence=256, batch=2, **config):
    """Returns a config in bf16 and the bytes that one of its decoder layers saves."""
    torch.manual_seed(0)
    config = {"vocab_size": 64, "pad_token_id": 0, **config}
    made = transformers.CONFIG_MAPPING[config["model_type"]](
        attn_implementation=attention, **{key: value for key, value in config.items() if key != "model_type"})
    model = transformers.AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16).train().model
    inputs = torch.randn(batch, sequence, made.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    kinds = {"layer_type": made.layer_types[layer]} if config["model_type"] == "gemma3_text" else {}
    kwargs = {"position_embeddings": model.rotary_emb(inputs, torch.arange(sequence)[None], **kinds)}
    if attention == "eager":
        mask = torch.full((sequence, sequence), torch.finfo(torch.bfloat16).min, dtype=torch.bfloat16).triu(1)
        kwargs["attention_mask"] = mask.expand(batch, 1, sequence, sequence)
    return {
        "config": config, "attention": attention, "batch": batch, "sequence": sequence,
        "saved_bytes": saved_bytes(model.layers[layer], inputs, **kwargs),
    }


def model_cases():
    heads = {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "num_hidden_layers": 1}
    experts = {"moe_intermediate_size": 256, "num_experts_per_tok": 4}
    latent = {"num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 96, "kv_lora_rank": 64,
              "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_group": 1, "topk_group": 1}
    deepseek = {"model_type": "deepseek_v3", "hidden_size": 256, "num_hidden_layers": 1, "intermediate_size": 688,
                "n_routed_experts": 16, "n_shared_experts": 1, **experts, **latent}
    return [
        model_case(model_type="qwen3", intermediate_size=688, **heads),
        model_case(model_type="qwen3_moe", num_experts=16, **experts, **heads),
        model_case(model_type="gemma3_text", intermediate_size=688, **{**heads, "num_hidden_layers": 6}),
        # Without a kernel for values of another width, attention on a CPU keeps the scores.
        model_case("eager", first_k_dense_replace=0, **deepseek),
        model_case("eager", first_k_dense_replace=1, **deepseek),
    ]


def optimizer_of(name, parameters):
    """Returns the optimizer for a name of the language; Adafactor in the versions of torch and of transformers."""
    return {
        "adam": lambda: torch.optim.Adam(parameters, lr=1e-3),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-3),
        "sgd": lambda: torch.optim.SGD(parameters, lr=1e-3),
        "sgd-momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
        "adafactor": lambda: torch.optim.Adafactor(parameters, lr=1e-3),
        "adafactor-transformers": lambda: transformers.optimization.Adafactor(
            parameters, lr=1e-3, relative_step=False, scale_parameter=False),
    }[name]()


def sharded_or_not(model, engine, precision, shard, replicas):
    """Returns the model under an engine; mixed precision has 32-bit weights and 16-bit multiplications."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    if engine == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if engine == "none":
        return model
    hybrid = init_device_mesh("cpu", (replicas, shard), mesh_dim_names=("replica", "shard"))
    kwargs = {"mesh": hybrid if replicas > 1 else hybrid["shard"]}
    if precision == "mixed":
        kwargs["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in model:
        fully_shard(part, **kwargs)
    return fully_shard(model, **kwargs)


def states_of(case):
    """Returns a rank's bytes of parameters, gradients and optimizer states after two steps, and of DDP's buckets."""
    dtype = torch.bfloat16 if case["precision"] == "bf16" else torch.float32
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256, dtype=dtype) for _ in range(4)])
    count = sum(p.numel() for p in model.parameters())
    model = sharded_or_not(model, case["engine"], case["precision"], case["shard_degree"], case["replicas"])
    optimizer = optimizer_of(case["optimizer"], list(model.parameters()))
    autocast = case["precision"] == "mixed" and case["engine"] != "fsdp"
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(torch.randn(4, 256, dtype=dtype)).sum()
        loss.backward()
        optimizer.step()
    kept = [p for p in model.parameters()] + [p.grad for p in model.parameters()]
    for state in optimizer.state.values():
        # Scalars in the state (steps, a root mean square) do not grow with the parameters.
        kept += [v for v in state.values() if torch.is_tensor(v) and v.dim() > 0]
    local = [getattr(t, "to_local", lambda t=t: t)() for t in kept]
    found = {**case, "bytes_per_parameter": sum(t.numel() * t.itemsize for t in local) / count}
    if case["engine"] == "ddp":
        sizes = str(model._get_ddp_logging_data()["bucket_sizes"])
        found["bucket_bytes_per_parameter"] = sum(int(size) for size in sizes.split(",")) / count
    return found


def states_of_rank(rank, world, cases, out):
    """Runs one rank of a group through all cases with its world size."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    found = [states_of(case) for case in cases]
    if rank == 0:
        with open(out, "w") as file:
            json.dump(found, file)
    torch.distributed.destroy_process_group()


def states(wanted):
    """Runs all cases, grouped by world size."""
    names = ("engine", "precision", "optimizer", "shard_degree", "replicas")
    cases = [dict(zip(names, (*case, 1, 1)[:5])) for case in wanted]
    found = []
    for world in (1, 2, 4):
        own = [case for case in cases if case["shard_degree"] * case["replicas"] == world]
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + world))
        with tempfile.NamedTemporaryFile("r+") as file:
            torch.multiprocessing.spawn(states_of_rank, args=(world, own, file.name), nprocs=world)
            found += json.load(open(file.name))
    return found


def main():
    b16, f32 = torch.bfloat16, torch.float32
    layers = [
        layer_case("llama", "sdpa", b16, 256, 8, 688),
        layer_case("llama", "sdpa", b16, 256, 8, 896, kv_heads=4),
        layer_case("llama", "sdpa", f32, 256, 8, 688),
        layer_case("llama", "eager", b16, 256, 8, 688),
        layer_case("gpt2", "eager", b16, 256, 8, 1024),
        layer_case("gpt2", "eager", f32, 256, 8, 1024),
        layer_case("gpt2", "sdpa", b16, 256, 8, 1024),
    ]
    wanted = [
        ("fsdp", "fp32", "adamw", 2), ("fsdp", "bf16", "adamw", 2),
        ("fsdp", "fp32", "adamw", 4), ("fsdp", "bf16", "adamw", 4), ("fsdp", "mixed", "adamw", 4),
        ("fsdp", "fp32", "adam", 4), ("fsdp", "bf16", "adam", 4),
        ("fsdp", "fp32", "sgd", 4), ("fsdp", "bf16", "sgd", 4),
        ("fsdp", "fp32", "sgd-momentum", 4), ("fsdp", "bf16", "sgd-momentum", 4),
        ("fsdp", "mixed", "sgd-momentum", 4),
        # Hybrid sharding: shards over two ranks, two replicas.
        ("fsdp", "fp32", "adamw", 2, 2), ("fsdp", "mixed", "adamw", 2, 2),
        ("ddp", "fp32", "adamw", 1, 2), ("ddp", "mixed", "adamw", 1, 2), ("ddp", "bf16", "adamw", 1, 2),
        ("ddp", "fp32", "adamw", 1, 4), ("ddp", "fp32", "sgd", 1, 2), ("ddp", "fp32", "sgd-momentum", 1, 2),
        ("ddp", "fp32", "adafactor", 1, 2),
        ("none", "fp32", "adamw"), ("none", "bf16", "adam"), ("none", "fp32", "adafactor"),
        ("none", "bf16", "adafactor"), ("none", "fp32", "adafactor-transformers"),
        ("none", "bf16", "adafactor-transformers"),
    ]
    found = states(wanted)
    json.dump({"torch": torch.__version__, "transformers": transformers.__version__, "layers": layers,
               "models": model_cases(), "states": found}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
