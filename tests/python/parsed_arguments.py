"""Parses hyperparameters as a program with these classes does: parsed_arguments.py MODULE:CLASS … (JSON on stdin).

Run by a Python that has the libraries. The standard input is an object of hyperparameters, each a JSON text as SageMaker
sends it; the toolkit makes `--name value` of each. Prints the fields of the parsed classes that are single values.
"""

import dataclasses
import enum
import importlib
import json
import os
import sys

os.environ["ACCELERATE_USE_CPU"] = "true"

from transformers import HfArgumentParser


def main():
    classes = []
    for word in sys.argv[1:]:
        module, name = word.split(":")
        classes.append(getattr(importlib.import_module(module), name))
    words = []
    for name, text in json.load(sys.stdin).items():
        value = json.loads(text)
        words += [f"--{name}", value if isinstance(value, str) else str(value)]
    # The classes look for GPUs when they are made: only the parser is asked, so the values are those before that.
    parser = HfArgumentParser(classes)
    namespace = parser.parse_args(words)
    found = {}
    for cls in classes:
        for field in dataclasses.fields(cls):
            value = getattr(namespace, field.name, None)
            value = value.value if isinstance(value, enum.Enum) else value
            if value is None or isinstance(value, (bool, int, float, str)):
                found[field.name] = value
    print(json.dumps(found))


main()
