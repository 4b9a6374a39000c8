"""The artefact trees under test: every directory below $TRAINC_EMITTED that contains sagemaker/training-job.json."""

import dataclasses
import hashlib
import json
import os
import pathlib
import re

import pytest

ACCOUNT = "111122223333"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/trainc/sample-role"
REQUEST = pathlib.PurePath("sagemaker/training-job.json")


class PlaceholderError(Exception):
    """An unknown or unclosed `${…}` placeholder."""


def file_system(name):
    """Returns a valid file system ID derived from the name, so that a mix-up of two file systems is detected."""
    return "fs-" + hashlib.sha256(name.encode()).hexdigest()[:17]


def mount(name):
    return hashlib.sha256(b"mount " + name.encode()).hexdigest()[:8]


def fill(text, where="text"):
    """Replaces the placeholders of offline output by valid values; any other `${` is an error."""

    def value(found):
        name = found[1]
        if name == "account":
            return ACCOUNT
        if name == "role_arn":
            return ROLE
        storage = re.fullmatch(r"fsx\.([^.{}]+)\.(id|mount)", name)
        if storage is None:
            raise PlaceholderError(f"{where}: ${{{name}}} is no placeholder that apply fills in")
        return file_system(storage[1]) if storage[2] == "id" else mount(storage[1])

    out = re.sub(r"\$\{([^{}]*)\}", value, text)
    if "${" in out:
        raise PlaceholderError(f"{where}: a ${{ that does not close")
    return out


def fill_json(value, where="$"):
    """Applies `fill` to every string of a JSON value, including keys."""
    if isinstance(value, str):
        return fill(value, where)
    if isinstance(value, list):
        return [fill_json(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict):
        return {fill(k, where): fill_json(v, f"{where}.{k}") for k, v in value.items()}
    return value


@dataclasses.dataclass(frozen=True)
class Job:
    """An artefact tree. `name` is its path below $TRAINC_EMITTED."""

    name: str
    root: pathlib.Path

    def __str__(self):
        return self.name

    def path(self, relative):
        return self.root / relative

    def has(self, relative):
        return self.path(relative).exists()

    def raw(self, relative):
        return json.loads(self.path(relative).read_text(encoding="utf-8"))

    def json(self, relative):
        """Returns a file's JSON with the placeholders replaced."""
        return fill_json(self.raw(relative), f"{self.name}/{relative}:")

    @property
    def request(self):
        return self.json(REQUEST)

    def files(self, pattern):
        return sorted(str(p.relative_to(self.root)) for p in self.root.glob(pattern))

    def mounts(self):
        """Returns file system ID -> mount name for the file systems in fsx/."""
        names = [pathlib.PurePath(p).stem for p in self.files("fsx/*.json") if not p.endswith(".associations.json")]
        return {file_system(n): mount(n) for n in names}


def emitted():
    """Returns the directory under test; a test run without one is an error, not an empty success."""
    place = os.environ.get("TRAINC_EMITTED")
    if not place:
        raise pytest.UsageError("TRAINC_EMITTED is not set: point it at `trainc emit … --out DIR`, or set TRAINC_BIN")
    root = pathlib.Path(place)
    if not root.is_dir():
        raise pytest.UsageError(f"TRAINC_EMITTED={place} is no directory")
    return root


def jobs():
    root = emitted()
    found = sorted(p.parent.parent for p in root.rglob(str(REQUEST)) if "source" not in p.relative_to(root).parts)
    if not found:
        raise pytest.UsageError(f"no {REQUEST} anywhere under TRAINC_EMITTED={root}: nothing to test")
    return [Job(str(p.relative_to(root)) if p != root else root.name, p) for p in found]
