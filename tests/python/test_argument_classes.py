"""crates/trainc-catalog/argument_classes.py: what it reads from a wheel, and its table against installed classes.

TRAINC_ENGINES_PYTHON names a Python with transformers, whose own parser is asked (tests/engines/environment.py makes
one). TRL's classes are compared if it is installed there as well.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "crates/trainc-catalog/argument_classes.py"
TABLE = ROOT / "crates/trainc-catalog/src/data/argument_classes.tsv"
PYTHON = os.environ.get("TRAINC_ENGINES_PYTHON")

MODULES = {
    "lib/__init__.py": "from .words import Word\n",
    "lib/words.py": """
from enum import Enum
class Word(str, Enum):
    A = "a"
    B = "b"
LENGTH = 4 * 256
if FAST:
    SPEED = 2
else:
    SPEED = 1
""",
    "lib/new/thing_config.py": """
from dataclasses import dataclass, field
@dataclass
class ThingConfig:
    kept: int = 1
""",
    "lib/thing_config.py": """
from dataclasses import dataclass
from .new.thing_config import ThingConfig as _ThingConfig
@dataclass
class ThingConfig(_ThingConfig):
    def __post_init__(self):
        warn("moved")
""",
    "lib/train_config.py": """
from dataclasses import dataclass, field
from typing import ClassVar, Dict, List, Literal, Optional, Union
from . import Word
from .words import LENGTH, SPEED
from transformers import TrainingArguments

@dataclass
class TrainConfig(TrainingArguments):
    needed: str
    switch: bool
    length: int = LENGTH
    speed: int = SPEED
    word: Union[Word, str] = field(default=Word.B)
    mode: Optional[Literal["x", "y"]] = field(default=None, metadata={"help": "m"})
    picked: str = field(default="p", metadata={"choices": ["p", "q"]})
    names: Optional[List[str]] = field(default_factory=lambda: ["n"])
    settings: Union[dict, str, None] = None
    either: "str | list[str] | None" = None
    text: "list[str] | str | None" = None
    weight: float = -1e-5
    now: float = field(default_factory=time.time)
    raw: Dict[str, int] | None = None
    both: Union[bool, str, None] = None
    hidden: int = field(default=1, init=False)
    shared: ClassVar[int] = 3
    half: bool | None = None
    first: int | None = None
    second: int | None = None
    third: int | None = None
    no_annotation = 4

    def __post_init__(self):
        self.half = not (self.other) if self.half is None else self.half
        if self.first is None:
            print("x")
            self.first = self.second = 7
        if self.third is None and self.first:
            self.third = 8

class NoDataclassConfig(TrainConfig):
    lost: int = 1
""",
}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("argument_classes", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["argument_classes"] = module
    spec.loader.exec_module(module)
    return module


def write_wheel(folder, name, version, modules):
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in modules.items():
            wheel.writestr(path, text)


@pytest.fixture
def classes(script, tmp_path):
    write_wheel(tmp_path, "lib", "1.0", MODULES)
    package = script.Package("lib", "1.0", False, ["lib/*_config.py"])
    return script.classes_of(package, script.Release(tmp_path / "lib-1.0-py3-none-any.whl", "1.0"))


def test_fields_are_read_as_the_parser_sees_them(script, classes):
    made = classes["TrainConfig"]
    assert [base for _, base in made.bases] == ["TrainingArguments"]
    columns = {name: "|".join(script.columns(field)) for name, field in made.fields.items()}
    assert columns == {
        "needed": "str|||!|",
        "switch": "bool|||false|",
        "length": "int|||1024|",
        "speed": "int|||*|",
        "word": 'str||["a","b"]|"b"|',
        "mode": 'str|?|["x","y"]|null|',
        "picked": 'str||["p","q"]|"p"|',
        "names": 'list[str]|?||["n"]|',
        "settings": "str|?||null|",
        "either": "other|?||null|",
        "text": "str|?||null|",
        "weight": "float|||-1e-05|",
        "now": "float|||*|",
        "raw": "dict|?||null|",
        "both": "other|?||null|",
        "half": 'bool|?||null|{"value":true,"unless":"other"}',
        "first": "int|?||null|7",
        "second": 'int|?||null|{"value":7,"unless":"first"}',
        "third": "int|?||null|*",
    }


def test_a_class_that_moved_is_the_one_at_its_new_place(classes):
    assert classes["ThingConfig"].file == "lib/new/thing_config.py"
    assert set(classes) == {"ThingConfig", "TrainConfig"}


def test_releases_with_the_same_columns_are_one_range(script, tmp_path):
    head = "from dataclasses import dataclass\n@dataclass\nclass AConfig:\n    "
    for version, body in {"1.0": "x: int = 1", "1.1": "x: int = 1", "2.0": "x: int = 2", "2.1": "y: int = 1"}.items():
        write_wheel(tmp_path, "lib", version, {"lib/a_config.py": head + body})
    package = script.Package("lib", "1.0", False, ["lib/*_config.py"])
    assert list(script.lines_of(package, ["1.0", "1.1", "2.0", "2.1"], tmp_path)) == [
        "class\tAConfig\tlib",
        "definition\tlib/a_config.py\t\t1.0\t",
        "x\tint\t\t\t1\t\t1.0\t2.0",
        "x\tint\t\t\t2\t\t2.0\t2.1",
        "y\tint\t\t\t1\t\t2.1\t",
    ]


class Table:
    """The catalogue's file, read for the versions that are installed."""

    def __init__(self, script, versions):
        self.key, self.versions, self.classes = script.version_key, versions, {}
        for line in TABLE.read_text(encoding="utf-8").splitlines():
            parts = line.split("\t")
            if parts[0] == "class":
                now = {"package": parts[2], "definition": None, "fields": {}}
                self.classes[parts[1]] = now
            elif len(parts) == 5 and self.holds(now["package"], *parts[3:]):
                now["definition"] = parts[1:3]
            elif len(parts) == 8 and self.holds(now["package"], *parts[6:]):
                now["fields"][parts[0]] = parts[1:6]

    def holds(self, package, since, until):
        version = self.versions.get(package)
        if version is None or self.key(version) < self.key(since):
            return False
        return not until or self.key(version) < self.key(until)

    def fields(self, name):
        found = {}
        for base in reversed(self.classes[name]["definition"][1].split()):
            found |= self.fields(base)
        return found | self.classes[name]["fields"]


def expected(row):
    """Returns what the class and the parser of a line of the table are."""
    kind, _, choices, default, _ = row
    values = default if default in ("*", "!") else json.loads(default)
    return values, kind.removeprefix("list[").removesuffix("]"), kind.startswith("list["), json.loads(choices or "[]")


def differences(name, table, real):
    known = table.fields(name)
    for field in sorted(set(known) ^ set(real)):
        yield f"{name}.{field}: in one of them only"
    for field in sorted(set(known) & set(real)):
        default, kind, many, choices = expected(known[field])
        found, parser = real[field]["default"], real[field]["parser"]
        if default != "*" and (default, type(default)) != (found, type(found)) and (default, found) != (False, "!"):
            yield f"{name}.{field}: default {default!r}, but {found!r}"
        if parser is None:
            if kind not in ("other", "dict"):
                yield f"{name}.{field}: {kind}, but the parser refuses it"
            continue
        if kind not in ("other", "dict") and not choices:
            word = {"string_to_bool": "bool"}.get(parser["type"], parser["type"])
            # Python caches `Optional[Union[dict, str]]` in the order in which it was first written, which decides here.
            if word != kind and (kind, word) != ("str", "dict"):
                yield f"{name}.{field}: {kind}, but the parser reads {word}"
        if many != parser["many"] or (default == "!") != parser["required"]:
            yield f"{name}.{field}: {known[field]}, but the parser has {parser}"
        # Choices that are no literals are not in the table.
        if choices and choices != parser["choices"]:
            yield f"{name}.{field}: {choices}, but the parser has {parser['choices']}"


@pytest.mark.skipif(PYTHON is None, reason="TRAINC_ENGINES_PYTHON names no Python with the libraries")
def test_the_table_is_what_the_installed_classes_are(script):
    ask = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    run = subprocess.run([PYTHON, "-c", ask], check=True, capture_output=True, text=True)
    table = Table(script, json.loads(run.stdout))
    places = {
        name: f"{one['definition'][0].removesuffix('.py').replace('/', '.')}:{name}"
        for name, one in table.classes.items()
        if one["definition"]
    }
    asker = pathlib.Path(__file__).parent / "argument_fields.py"
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    run = subprocess.run(
        [PYTHON, asker, *places.values()], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr
    real = json.loads(run.stdout.strip().splitlines()[-1])
    compared = [name for name, fields in real.items() if fields is not None]
    assert {"TrainingArguments", "Seq2SeqTrainingArguments"} <= set(compared)
    print(f"{len(compared)} of {len(places)} classes")
    wrong = [line for name in compared for line in differences(name, table, real[name])]
    assert not wrong, "\n".join(wrong)
