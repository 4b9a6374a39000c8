#!/usr/bin/env python3
"""Records what PyTorch itself keeps: bytes that layers of transformers save for the backward pass, and bytes of
states that FSDP and AdamW leave on each rank. On CPU, no network, no GPU.

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/python/saved_tensors.py > src/predict/memory/testdata/pytorch.json

The Rust tests of src/predict/memory read that file: formulas of activations within 10 % of the saved bytes, states
within 2 %. Saved tensors are counted once for each storage, and parameters are left out. Dropout is left out too: its
masks are a byte wide on a GPU and as wide as the activations on a CPU.
"""

import json
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402


def saved_bytes(layer, inputs, **kwargs):
    """Bytes of distinct storages that the forward pass saves, without parameters and without the masks given."""
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


def states_of_rank(rank, world, dtype, out):
    """One rank: bytes of parameters, gradients and AdamW states after a step under fully_shard."""
    from torch.distributed.fsdp import fully_shard
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256, dtype=dtype) for _ in range(4)])
    count = sum(p.numel() for p in model.parameters())
    for part in model:
        fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(4, 256, dtype=dtype)).sum().backward()
    optimizer.step()
    local = [p.to_local() for p in model.parameters()] + [p.grad.to_local() for p in model.parameters()]
    for state in optimizer.state.values():
        local += [v.to_local() for k, v in state.items() if k != "step"]
    if rank == 0:
        with open(out, "w") as file:
            json.dump(sum(t.numel() * t.itemsize for t in local) / count, file)
    torch.distributed.destroy_process_group()


def states_case(world, dtype):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + world + dtype.itemsize))
    with tempfile.NamedTemporaryFile("r+") as file:
        torch.multiprocessing.spawn(states_of_rank, args=(world, dtype, file.name), nprocs=world) if world > 1 else (
            states_of_rank(0, 1, dtype, file.name))
        return {"shard_degree": world, "width": dtype.itemsize, "bytes_per_parameter": json.load(open(file.name))}


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
    states = [states_case(2, f32), states_case(2, b16)]
    json.dump({"torch": torch.__version__, "transformers": transformers.__version__, "layers": layers,
               "states": states}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
