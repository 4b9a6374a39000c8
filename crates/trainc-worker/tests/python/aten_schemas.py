"""Compares src/aten/schemas.tsv with PyTorch's own list of operators, which each wheel contains.

    aten_schemas.py 2.15=native_functions.yaml ...    compares; exit code 1 if a schema differs
    aten_schemas.py --write 2.10=... 2.15=...         writes the table from one file for each version, oldest first

The file is torchgen/packaged/ATen/native/native_functions.yaml of an installed PyTorch or of its wheel.
"""

import pathlib
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "src/aten/schemas.tsv"
HEAD = "# Schemas of the operators that the worker calls, by versions of PyTorch: native_functions.yaml of its wheels.\n"


def operators(path):
    """Returns {name: schema} of a native_functions.yaml."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("- func: "):
            schema = " ".join(line.removeprefix("- func: ").split())
            found[schema.split("(")[0]] = schema
    return found


def rows():
    return [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]


def number(version):
    return tuple(int(part) for part in version.split("."))


def main(arguments):
    write = "--write" in arguments
    given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    files = {version: operators(path) for version, path in given.items()}
    if write:
        names = list(dict.fromkeys(row[2].split("(")[0] for row in rows()))
        lines = []
        for name in names:
            run = []
            for version, known in files.items():
                if run and known[name] == run[-1][2]:
                    run[-1][1] = version
                else:
                    run.append([version, version, known[name]])
            lines += ["\t".join(row) for row in run]
        TABLE.write_text(HEAD + "\n".join(lines) + "\n")
        return 0
    wrong = 0
    for version, known in files.items():
        compared = 0
        for first, last, schema in rows():
            if number(first) <= number(version) <= number(last):
                compared += 1
                name = schema.split("(")[0]
                if known.get(name) != schema:
                    wrong += 1
                    print(f"{version} {name}: {known.get(name)}\n  the table has {schema}")
        print(f"PyTorch {version}: {compared} schemas compared")
        wrong += compared == 0
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
