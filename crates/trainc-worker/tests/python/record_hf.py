"""Records results of `transformers` and `peft` for small models, and checks that they load the worker's files.

    python3 -m venv .venv-hf && .venv-hf/bin/pip install torch transformers peft
    cargo build -p trainc-worker
    .venv-hf/bin/python crates/trainc-worker/tests/python/record_hf.py target/debug/trainc-worker

For each case it makes a model with random weights, saves it (`save_pretrained`, in the case's number format) with its
logits into crates/trainc-worker/tests/recorded/hf/<case>; lets the worker read it, train one step at learning rate 0 and write it;
loads that with `transformers` and compares the logits; and records the digests of the worker's files, which the Rust
tests compare with what they write. Adapters: `peft` trains, the worker trains, `peft` loads the worker's adapters.
"""
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from record_shared import mix, tokens

HERE = pathlib.Path(__file__).resolve().parent.parent
OUT = HERE / "recorded" / "hf"
WORKER = pathlib.Path(sys.argv[1]).resolve()
SEQUENCE, VOCAB = 24, 61

LLAMA = {"family": "llama", "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "layers": 2, "heads": 4,
         "kv_heads": 2, "head_dim": 8, "sequence_length": SEQUENCE, "norm": {"kind": "rms", "eps": 1e-5},
         "activation": "swiglu", "biases": "none",
         "positions": {"kind": "rotary", "theta": 10000.0, "fraction": 1.0, "scaling": None},
         "parallel_residual": False, "tied_embeddings": False, "initializer_range": 0.08, "weights": None, "adapter": None}
GPT2 = LLAMA | {"family": "gpt2", "kv_heads": 4, "norm": {"kind": "layer", "eps": 1e-5}, "activation": "gelu-tanh",
                "biases": "all", "positions": {"kind": "learned", "theta": None, "fraction": None, "scaling": None},
                "tied_embeddings": True}
NEOX = LLAMA | {"family": "gpt-neox", "kv_heads": 4, "norm": {"kind": "layer", "eps": 1e-5}, "activation": "gelu",
                "biases": "all", "positions": {"kind": "rotary", "theta": 10000.0, "fraction": 0.25, "scaling": None},
                "parallel_residual": True}


def scaled(kind, theta, factor, low=None, high=None, original=None):
    return LLAMA | {"positions": {"kind": "rotary", "theta": theta, "fraction": 1.0, "scaling": {
        "kind": kind, "factor": factor, "low_frequency_factor": low, "high_frequency_factor": high,
        "original_positions": original}}}


def llama(**more):
    base = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rms_norm_eps=1e-5, initializer_range=0.3)
    return transformers.LlamaConfig(**(base | more))


def neox(**more):
    return transformers.GPTNeoXConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32, layer_norm_eps=1e-5, hidden_act="gelu", initializer_range=0.3,
        hidden_dropout=0.0, attention_dropout=0.0, **more)


def rope(theta, **more):
    return {"rope_parameters": {"rope_theta": theta} | more}


CASES = {
    "llama-sharded": (llama(), LLAMA, torch.float32, "12KB"),
    "llama3-tied-bf16": (
        llama(tie_word_embeddings=True, **rope(500.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                               high_freq_factor=4.0, original_max_position_embeddings=16)),
        scaled("llama3", 500.0, 8.0, 1.0, 4.0, 16) | {"tied_embeddings": True}, torch.bfloat16, "5GB"),
    "llama-linear-f16": (llama(**rope(10000.0, rope_type="linear", factor=2.5)), scaled("linear", 10000.0, 2.5),
                         torch.float16, "5GB"),
    "llama-dynamic": (llama(max_position_embeddings=16, **rope(10000.0, rope_type="dynamic", factor=4.0)),
                      scaled("dynamic", 10000.0, 4.0, None, None, 16), torch.float32, "5GB"),
    "mistral": (transformers.MistralConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, sliding_window=None, initializer_range=0.3,
        max_position_embeddings=64), LLAMA, torch.float32, "5GB"),
    "gpt2": (transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_inner=48, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, initializer_range=0.3), GPT2, torch.float32, "5GB"),
    "gpt-neox": (neox(), NEOX, torch.float32, "5GB"),
    "gpt-neox-sequential": (neox(use_parallel_residual=False, **rope(10000.0, rope_type="default", partial_rotary_factor=0.5)),
                            NEOX | {"parallel_residual": False, "positions": NEOX["positions"] | {"fraction": 0.5}},
                            torch.bfloat16, "5GB"),
}
ADAPTERS = {
    "llama-sharded": ["q_proj", "v_proj", "down_proj"],
    "gpt2": ["c_attn", "mlp.c_proj"],
    "gpt-neox": ["query_key_value", "dense"],
}
LORA = {"kind": "lora", "rank": 3, "alpha": 12.0, "dropout": 0.0}
STEPS = 12


def config(model, place, **more):
    base = {
        "schema": "trainc.worker/v1", "job": "test", "digest": "0" * 64,
        "cluster": {"instance": "local", "nodes": 1, "gpus_per_node": 0},
        "mesh": {"shard_degree": 2, "data_parallel_replicas": 1}, "model": model,
        "precision": {"compute": "f32", "reduce": "f32"},
        "memory": {"recompute": "none", "prefetch": 1, "reshard_after_forward": True, "offload": "none"},
        "batch": {"micro": 4, "accumulation": 1, "global_sequences": 8},
        "optimizer": {"learning_rate": 0.0, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1,
                      "clip_norm": 1.0},
        "schedule": {"kind": "constant", "warmup_steps": 0, "steps": 1, "minimum_learning_rate": 0.0},
        "data": {"train": str(place / "data"), "validation": None, "seed": 17, "epochs": None, "shuffle": False,
                 "document_mask": False},
        "checkpoint": {"directory": str(place / "checkpoints"), "every_seconds": None, "every_steps": None, "keep": 2,
                       "grace_seconds": 100.0, "resume": "never"},
        "output": {"model": str(place / "model"), "data": str(place / "out"), "failure": str(place / "failure")},
        "log": {"every_steps": 1, "evaluate_every_steps": None},
        "communication": {"backend": "auto", "rendezvous_port": 7777, "join_seconds": 60.0, "peer_dead_seconds": 30.0,
                          "collective_seconds": 60.0, "environment": {}},
        "limits": {"max_seconds": None, "max_loss": None},
    }
    for path, value in more.items():
        part, name = path.split("__")
        base[part][name] = value
    return base


def write_data(place):
    """Writes the format of `trainc data pack`, implemented independently from its description."""
    import zlib
    place.mkdir(parents=True)
    data = tokens(40, SEQUENCE, VOCAB, 1).tolist()
    record = (SEQUENCE + 1) * 2 + 3 + 4 + 4
    head = b"trainc.tokens/v1" + b"".join(n.to_bytes(4, "little") for n in (2, SEQUENCE, record, 0)) + bytes(28)
    body = head + zlib.crc32(head).to_bytes(4, "little")
    for row in data:
        one = b"".join(t.to_bytes(2, "little") for t in row) + b"\xff\xff\xff" + bytes(4)
        body += one + zlib.crc32(one).to_bytes(4, "little")
    (place / "tokens-00000.bin").write_bytes(body)
    index = {"form": "trainc.tokens/v1", "dtype": "u16", "sequence_length": SEQUENCE, "sequences": 40,
             "vocab_size": VOCAB, "masked": False,
             "files": [{"name": "tokens-00000.bin", "sequences": 40, "sha256": hashlib.sha256(body).hexdigest()}]}
    (place / "index.json").write_text(json.dumps(index))


def worker(model, place, **more):
    if not (place / "data").exists():
        write_data(place / "data")
    path = place / "worker.json"
    path.write_text(json.dumps(config(model, place, **more)))
    ran = subprocess.run([WORKER, "launch", path], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return path


def logits(model):
    data = tokens(40, SEQUENCE, VOCAB, 1)[:2, :-1]
    with torch.no_grad():
        return model.double().eval()(data).logits


def digests(place):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(place.iterdir())}


def case(name, hf, ours, dtype, shard):
    torch.manual_seed(hash_of(name))
    model = transformers.AutoModelForCausalLM.from_config(hf)
    for parameter in model.parameters():  # norms and biases too, so that errors in their order are detected
        if parameter.dim() == 1:
            parameter.data += torch.randn_like(parameter) * 0.2
    model = model.to(dtype)
    place = OUT / name
    place.mkdir(parents=True, exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    model.save_pretrained(place, max_shard_size=shard)
    expected = logits(transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float64))
    save_file({"logits": expected.float().contiguous()}, place / "expected.safetensors")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        worker(ours | {"weights": str(place)}, scratch)
        again = transformers.AutoModelForCausalLM.from_pretrained(scratch / "model", dtype=torch.float64)
        error = (logits(again) - expected).abs().max().item()
        assert error < 1e-9, (name, error)
        fresh = scratch / "fresh"
        fresh.mkdir()
        worker(ours, fresh)
        line = next(json.loads(t) for t in (fresh / "out" / "metrics.jsonl").read_text().splitlines() if "loss" in t)
        made, how = transformers.AutoModelForCausalLM.from_pretrained(fresh / "model", dtype=torch.float64, output_loading_info=True)
        assert not how["missing_keys"] and not how["unexpected_keys"], how
        batch = tokens(40, SEQUENCE, VOCAB, 1)[:8]
        with torch.no_grad():
            out = made.eval()(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), batch[:, 1:].flatten()).item()
        assert abs(loss / line["loss"] - 1) < 2e-6, (name, loss, line)
        record = {"transformers": transformers.__version__, "model": ours, "loaded_error": error,
                  "files": digests(scratch / "model"), "fresh_files": digests(fresh / "model"), "fresh_loss": loss}
        (place / "recorded.json").write_text(json.dumps(record, indent=1) + "\n")
    print(name, "logits again within", error, "fresh loss", loss)


def hash_of(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")


def even(seed, name, n, bound):
    key = int.from_bytes(hashlib.sha256(seed.to_bytes(8, "little") + name.encode()).digest()[:8], "little")
    u = ((mix(np.uint64(key) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11))
         .astype(np.float64) + 0.5) / 2.0**53
    return (bound * (2 * u - 1)).astype(np.float32).astype(np.float64)


def adapters(name, targets):
    place, ours = OUT / name, CASES[name][1]
    base = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float64)
    made = peft.get_peft_model(base, peft.LoraConfig(
        r=LORA["rank"], lora_alpha=LORA["alpha"], target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM",
        fan_in_fan_out=name == "gpt2"))
    made = made.double()
    layers = {"llama-sharded": "model.layers", "gpt2": "transformer.h", "gpt-neox": "gpt_neox.layers"}[name]
    trained = []
    for path, parameter in made.named_parameters():
        if not parameter.requires_grad:
            continue
        trained.append(parameter)
        if "lora_A" in path:
            layer, module = path.split(layers + ".")[1].split(".lora_A")[0].split(".", 1)
            value = even(17, f"adapter.{layer}.{module}.a", parameter.numel(), 1 / math.sqrt(parameter.shape[1]))
            parameter.data = torch.tensor(value).view_as(parameter)
        else:
            assert not parameter.any()
    adamw = torch.optim.AdamW(trained, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    data, losses, norms = tokens(40, SEQUENCE, VOCAB, 1), [], []
    for step in range(STEPS):
        batch = data[[(step * 8 + i) % 40 for i in range(8)]]
        out = made(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, 1.0).item())
        losses.append(loss.item())
        adamw.step()
        adamw.zero_grad()
    expected = logits(made)
    model = ours | {"weights": str(place), "adapter": LORA | {"targets": targets}}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        path = worker(model, scratch, optimizer__learning_rate=1e-2, schedule__steps=STEPS)
        base = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float64)
        found = logits(peft.PeftModel.from_pretrained(base, scratch / "model"))
        ran = subprocess.run([WORKER, "export", path, "--out", scratch / "merged", "--merge"], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        merged = logits(transformers.AutoModelForCausalLM.from_pretrained(scratch / "merged", dtype=torch.float64))
        scale = expected.abs().max().item()
        errors = [(a - expected).abs().max().item() / scale for a in (found, merged)]
        assert max(errors) < 1e-4, (name, errors)
        card = json.loads((scratch / "model" / "adapter_config.json").read_text())
        names = sorted(load_file(scratch / "model" / "adapter_model.safetensors"))
    save_file({"logits": expected.float().contiguous()}, place / "adapted.safetensors")
    card.pop("base_model_name_or_path")
    record = {"peft": peft.__version__, "targets": targets, "losses": losses, "grad_norms": norms, "errors": errors,
              "adapter_config": card, "tensors": names}
    (place / "adapted.json").write_text(json.dumps(record, indent=1) + "\n")
    print(name, "adapters:", losses[0], losses[-1], "logits within", errors)


torch.set_num_threads(1)
for name, (hf, ours, dtype, shard) in CASES.items():
    case(name, hf, ours, dtype, shard)
for name, targets in ADAPTERS.items():
    adapters(name, targets)
