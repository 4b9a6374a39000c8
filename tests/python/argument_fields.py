"""Prints the options that HfArgumentParser makes of argument classes: argument_fields.py MODULE:CLASS …

Run by a Python that has the libraries. Prints the options of each class: the default of the field, and how the parser
reads and requires it; null for a class whose module needs a library that is not installed.
"""

import contextlib
import dataclasses
import enum
import importlib
import json
import sys
import typing

from transformers import HfArgumentParser


def plain(value):
    """Returns a value as JSON has it; `"*"` for others and for what was computed when the class was made."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or value == {} or isinstance(value, (bool, int, float, str)) else "*"


def is_enum(kind):
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def default_of(field):
    if field.default is not dataclasses.MISSING:
        return plain(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return plain(field.default_factory())
    return "!"


def types_of(cls):
    """Returns the types of the fields; one of a library that is not installed is `object`."""
    missing = {}
    while True:
        try:
            return typing.get_type_hints(cls, localns=missing)
        except NameError as error:
            missing[error.name] = object


def read(cls):
    found, types = {}, types_of(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        parser = HfArgumentParser([])
        field.type = types[field.name]
        row = {"default": default_of(field), "parser": None}
        # What it refuses is no option of a command line.
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            HfArgumentParser._parse_dataclass_field(parser, field)
            action = next(action for action in parser._actions if action.dest == field.name)
            row["parser"] = {
                "type": "str" if is_enum(action.type) else getattr(action.type, "__name__", "other"),
                "many": action.nargs == "+",
                "required": action.required,
                "choices": [plain(choice) for choice in action.choices or []],
            }
        found[field.name] = row
    return found


def main(*classes):
    found = {}
    for place in classes:
        module, _, name = place.partition(":")
        try:
            found[name] = read(getattr(importlib.import_module(module), name))
        except ImportError:
            found[name] = None
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
