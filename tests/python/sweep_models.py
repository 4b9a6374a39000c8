#!/usr/bin/env python3
"""Compares the parameters of configs with one changed field: trainc's tables against the classes of transformers.

For each model type it builds the class with the default configuration on torch's meta device, then once for each number and
flag of the configuration with another value, and compares the counts with `count_configs`. A type is printed as

    exact     all counts are equal
    refused   some configs are refused, with the first message
    WRONG     some counts differ, with the field and the difference

    python -m venv venv && venv/bin/pip install torch transformers
    cargo build -p trainc-ir --example count_configs
    venv/bin/python tests/python/sweep_models.py target/debug/examples/count_configs [model type ...]

Without model types, all types of transformers with a text model are swept, which takes about an hour. Last full run: 2026-11-26,
transformers 5.24.0, torch 2.15.0. Exit code 1: at least one type is WRONG.
"""

import copy
import json
import os
import subprocess
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import CONFIG_MAPPING  # noqa: E402

from count_models import class_of, without_noise  # noqa: E402

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "depth")
NESTED = ("text_config", "vision_config", "audio_config", "attn_config", "ffn_config", "perceiver_config")
# Fields that the class derives from others, or that change no parameter.
DERIVED = ("is_gated_act", "is_encoder_decoder", "is_decoder", "num_labels", "use_cache", "qk_head_dim")


def fields(config, path=()):
    """Yields the path and value of each number and flag of a config."""
    for key, value in config.items():
        if isinstance(value, dict):
            if key in NESTED:
                yield from fields(value, path + (key,))
        elif key not in DERIVED and not key.endswith(("_token_id", "_token_index")) and isinstance(value, (bool, int)):
            yield path + (key,), value


def changed(config, path, value):
    config = copy.deepcopy(config)
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return config


def build(model_type, config):
    """Returns the parameters of the class, and the config as the class understood it."""
    values = {key: value for key, value in config.items() if key != "model_type"}
    made = CONFIG_MAPPING[model_type](**copy.deepcopy(values))
    with torch.device("meta"):
        model = getattr(transformers, class_of(model_type))(made)
    total = sum(parameter.numel() for parameter in model.parameters())
    return total, without_noise(made.to_dict()) | {"model_type": model_type, "architectures": [class_of(model_type)]}


def cases(model_type):
    """Yields the name, parameters and config of each case."""
    total, config = build(model_type, {})
    yield "default", total, config
    # Fewer layers, so that a class is built quickly; lists with one value for each layer then have another length.
    for path, value in list(fields(config)):
        if path[-1] in LAYERS and value > 6:
            smaller = changed(config, path, 6)
            inner = smaller
            for key in path[:-1]:
                inner = inner[key]
            for key in [key for key, item in inner.items() if isinstance(item, list) and len(item) == value]:
                inner[key] = None
            try:
                config = build(model_type, smaller)[1]
            except Exception:  # noqa: BLE001 - a class may not accept fewer layers
                continue
    for path, value in list(fields(config)):
        others = [not value] if isinstance(value, bool) else [value * 2, value + 1, max(value // 2, 1)]
        for other in others:
            try:
                total, made = build(model_type, changed(config, path, other))
            except Exception:  # noqa: BLE001 - a class may not accept the value
                continue
            yield f"{'.'.join(path)}={other}", total, made
            break


def main(counter, model_types):
    wrong = False
    for model_type in model_types or CONFIG_MAPPING:
        try:
            found = list(cases(model_type))
        except Exception as error:  # noqa: BLE001 - no class with text, or no default
            if model_types:
                print(f"{model_type}: {error!r}"[:200], file=sys.stderr)
            continue
        lines = "\n".join(json.dumps({"config": config}, default=str) for _, _, config in found)
        answers = subprocess.run([counter], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        refused, different = [], []
        for (name, total, _), answer in zip(found, map(json.loads, answers), strict=True):
            if "problems" in answer:
                refused.append(f"{name}: {answer['problems'][0]}")
            elif answer["parameters"] != total:
                different.append(f"{name}: {total - (answer['parameters'] or 0):+}")
        state = "WRONG" if different else "refused" if refused else "exact"
        wrong |= bool(different)
        print(model_type, state, *(different or refused[:1]), sep="\n    ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
