"""Parses arguments with the parser of a script, and prints what options the parser has: script_options.py SCRIPT [ARGUMENT …]

Run by a Python that has the libraries of which the parser is made. `--config FILE` is TrlParser's own: the file's keys are
defaults.
"""

import importlib.util
import json
import sys


def main(script, *arguments):
    spec = importlib.util.spec_from_file_location("script", script)
    module = importlib.util.module_from_spec(spec)
    # dataclasses ask for the module of a class.
    sys.modules["script"] = module
    spec.loader.exec_module(module)
    parser = module.build_parser()
    actions = [action for action in parser._actions if action.dest != "help"]
    # Each by its first spelling, and before the file of `--config`, whose values take the place of required ones.
    found = {
        "options": sorted(action.option_strings[0] for action in actions),
        "required": sorted(action.option_strings[0] for action in actions if action.required),
    }
    arguments = list(arguments)
    if "--config" in arguments:
        import yaml

        at = arguments.index("--config")
        with open(arguments[at + 1], encoding="utf-8") as file:
            unknown = parser.set_defaults_with_config(**yaml.safe_load(file))
        if unknown:
            parser.error(f"unknown keys of the file: {' '.join(unknown)}")
        del arguments[at : at + 2]
    parser.parse_args(arguments)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
