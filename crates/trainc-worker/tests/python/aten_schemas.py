"""Compares src/aten/schemas.tsv with PyTorch's own list of operators, and the typed functions of GPUs in src/aten/ffi.rs
with their declarations; each wheel contains both.

    aten_schemas.py 2.15=native_functions.yaml ...    compares; exit code 1 if a schema differs
    aten_schemas.py --write 2.10=... 2.15=...         writes the table from one file for each version, oldest first

The file is torchgen/packaged/ATen/native/native_functions.yaml of an installed PyTorch or of its wheel.
"""

import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "src/aten/schemas.tsv"
FUNCTIONS = TABLE.with_name("ffi.rs")
HEADER = "torch/include/torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h"
C_TYPES = {"AtenTensorHandle": "Handle", "int32_t": "i32", "int64_t": "i64", "double": "f64"}
HEAD = "# Schemas of the operators that the worker calls, by versions of PyTorch: native_functions.yaml of its wheels.\n"


def operators(path):
    """Returns {name: schema} of a native_functions.yaml."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("- func: "):
            schema = " ".join(line.removeprefix("- func: ").split())
            found[schema.split("(")[0]] = schema
    return found


def typed_functions():
    """Returns {name: types of its arguments} of the functions that the worker takes from libtorch_cuda.so."""
    block = re.search(r"functions!\(TorchCuda \{(.*?)\n\}\);", FUNCTIONS.read_text(), re.S)[1]
    found = re.findall(r"(\w+):\s*fn\(([^)]*)\)\s*->\s*i32;", block)
    return {name: [re.sub(r"\*(mut|const) ", "*", part.strip()) for part in types.split(",")] for name, types in found}


def declared(header):
    """Returns the same of a header."""
    found = {}
    for name, arguments in re.findall(r"AOTITorchError (\w+)\((.*?)\);", pathlib.Path(header).read_text()):
        kinds = [part.strip().rsplit(" ", 1)[0] for part in arguments.split(",")]
        found[name] = ["*" * kind.count("*") + C_TYPES.get(kind.rstrip("*"), kind) for kind in kinds]
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
        functions = declared(pathlib.Path(given[version]).parents[4] / HEADER)
        for name, types in typed_functions().items():
            compared += 1
            if functions.get(name) != types:
                wrong += 1
                print(f"{version} {name}: {functions.get(name)}\n  ffi.rs has {types}")
        print(f"PyTorch {version}: {compared} schemas and functions compared")
        wrong += compared == 0
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
