"""Collects the argument classes of transformers and TRL: dataclasses whose fields are options of a command line.

    python3 crates/trainc-catalog/argument_classes.py --check            # does the file say what the wheels say?
    python3 crates/trainc-catalog/argument_classes.py --write            # reads the same releases again
    python3 crates/trainc-catalog/argument_classes.py --write --newest   # and those published since; review the diff

Source: wheels from PyPI (600 MB), downloaded with pip into a temporary directory or the one of --wheels, where they stay.
Of transformers the last patch of every minor release is read, of TRL every release, since its patches have changed
options. The modules are parsed, never imported. Needs Python 3.11 with pip.

The output, src/data/argument_classes.tsv, is read by src/argument_classes.rs. Exit code: 0, or 3 if --check finds a
difference.
"""

import argparse
import ast
import datetime
import enum
import fnmatch
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

FILE = pathlib.Path(__file__).resolve().parent / "src" / "data" / "argument_classes.tsv"
HEADER = """\
# Options of the argument classes of transformers and TRL, by version. Written from the wheels on PyPI; do not edit.
# Make it again: python3 crates/trainc-catalog/argument_classes.py --write
# Columns are separated by tabs:
#   date, date of the data
#   package, name, the releases that were read
#   class, name, package; the lines below it, up to the next class, are its own:
#   definition, file, bases, since, until
#   NAME OF AN OPTION, type, ? if None is a value, choices, default, what __post_init__ replaces None by, since, until
# Since is the first version with the line, until the first without it (empty: none). Values are JSON; ! is a required
# option, * a value that is computed.
"""


class Package:
    """Where a package defines argument classes."""

    def __init__(self, name, oldest, minors_only, files, excluded=()):
        self.name, self.oldest, self.minors_only, self.files, self.excluded = name, oldest, minors_only, files, excluded

    def has_classes(self, path):
        return any(fnmatch.fnmatch(path, own) for own in self.files) and path not in self.excluded


PACKAGES = [
    Package("transformers", "4.26.0", True, ["transformers/training_args.py", "transformers/training_args_seq2seq.py"]),
    # The excluded file is a program, whose classes are not imported elsewhere.
    Package(
        "trl",
        "0.7.4",
        False,
        ["trl/trainer/*_config.py", "trl/trainer/utils.py", "trl/experimental/*/*_config.py", "trl/scripts/*.py"]
        + ["trl/commands/cli_utils.py", "trl/utils.py"],
        ["trl/scripts/vllm_serve.py"],
    ),
]
PUBLIC = re.compile(r"[A-Z]\w*(Config|Arguments)$")


def version_key(version):
    return [int(part) for part in version.split(".")]


class Special(enum.Enum):
    """What a value is that is no literal, as the file has it."""

    COMPUTED = "*"
    REQUIRED = "!"
    # Nothing replaces None.
    SAME = ""


class Module:
    """A parsed file of a wheel."""

    def __init__(self, release, path, text):
        self.release, self.path = release, path
        self.tree = ast.parse(text)
        self.classes, self.imports, self.assigned = {}, {}, {}
        self.collect(self.tree.body, True)

    def collect(self, body, at_top):
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imports.setdefault(alias.asname or alias.name, (node.level, node.module, alias.name))
            elif isinstance(node, ast.If | ast.Try | ast.With):
                for branch in (node.body, *(getattr(node, name, []) for name in ("orelse", "finalbody"))):
                    self.collect(branch, False)
                for handler in getattr(node, "handlers", []):
                    self.collect(handler.body, False)
            for name, value in assignments(node):
                # A name with several values, or with one that a condition decides, has none that is known.
                self.assigned[name] = value if at_top and name not in self.assigned else None

    def imported(self, name):
        """Returns the module of the same wheel that defines an imported name, and its name there."""
        level, module, original = self.imports[name]
        if level:
            package = self.path.split("/")[:-1]
            parts = package[: len(package) - level + 1] + (module.split(".") if module else [])
        else:
            parts = module.split(".")
        return self.release.module("/".join(parts)), original

    def find(self, name, depth=0):
        """Returns the module of the same wheel where a name is defined, with its name there."""
        if name in self.classes or name in self.assigned:
            return self, name
        if name in self.imports and depth < 8:
            module, original = self.imported(name)
            if module:
                return module.find(original, depth + 1)
            return None, original
        return None, name


def assignments(node):
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


class Release:
    """A wheel, whose modules are parsed when they are asked for."""

    def __init__(self, path, version):
        self.version, self.wheel, self.modules = version, zipfile.ZipFile(path), {}
        self.names = set(self.wheel.namelist())

    def module(self, path):
        """Returns the module at a path without its suffix; `None` if the wheel has none."""
        for name in (f"{path}.py", f"{path}/__init__.py"):
            if name in self.names:
                if name not in self.modules:
                    self.modules[name] = Module(self, name, self.wheel.read(name).decode())
                return self.modules[name]
        return None


def last_name(node):
    """Returns `x` of `x` and of `module.x`."""
    return getattr(node, "id", getattr(node, "attr", ""))


def enum_values(module, node):
    """Returns the values of an enumeration; `None` for another class."""
    if not any(last_name(base).endswith("Enum") for base in node.bases):
        return None
    found = {}
    for statement in node.body:
        for name, value in assignments(statement):
            found[name] = literal(module, value)
    return found if all(is_plain(value) for value in found.values()) else None


def is_plain(value):
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int) or is_list(value)


def is_list(value):
    return isinstance(value, list) and all(is_plain(item) and not isinstance(item, list) for item in value)


def literal(module, node, local=None, depth=0):
    """Evaluates an expression without running it: literals, constants of the package, members of enumerations."""
    again = lambda inner: literal(module, inner, local, depth + 1)  # noqa: E731
    if node is None or depth > 16:
        return Special.COMPUTED
    match node:
        case ast.Constant(value=value) if is_plain(value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            values = [again(item) for item in items]
            return values if is_list(values) else Special.COMPUTED
        case ast.Dict(keys=[]):
            return {}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = again(operand)
            return -value if isinstance(value, int | float) else Special.COMPUTED
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add() as op, right=right):
            left, right = again(left), again(right)
            if isinstance(left, list) and isinstance(right, list) and isinstance(op, ast.Add):
                return left + right
            if not all(isinstance(value, int | float) for value in (left, right)):
                return Special.COMPUTED
            return left * right if isinstance(op, ast.Mult) else left + right
        case ast.Name(id=name):
            if local and name in local:
                return again(local[name])
            place, original = module.find(name)
            return literal(place, place.assigned.get(original), None, depth + 1) if place else Special.COMPUTED
        # A member of an enumeration, or its value.
        case ast.Attribute(value=ast.Attribute() as member, attr="value"):
            return again(member)
        case ast.Attribute(value=ast.Name(id=name), attr=member):
            place, original = module.find(name)
            values = place and original in place.classes and enum_values(place, place.classes[original])
            return values.get(member, Special.COMPUTED) if values else Special.COMPUTED
    return Special.COMPUTED


# A type is a pair: its kind, and for a list its element, for an enumeration or a literal type the values.
OTHER = ("other", None)
BUILTIN = {name: name for name in ("bool", "int", "float", "str", "dict")} | {"Dict": "dict", "Mapping": "dict"}


def union(parts):
    flat = []
    for kind, inner in parts:
        for part in inner if kind == "union" else [(kind, inner)]:
            if part not in flat:
                flat.append(part)
    return flat[0] if len(flat) == 1 else ("union", flat)


def type_of(module, node):
    """Reads an annotation."""
    match node:
        case ast.Constant(value=None):
            return ("none", None)
        case ast.Constant(value=str() as text):
            return type_of(module, ast.parse(text, mode="eval").body)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            if name in BUILTIN:
                return (BUILTIN[name], None)
            place, original = module.find(name) if isinstance(node, ast.Name) else (None, name)
            if place and original in place.classes:
                values = enum_values(place, place.classes[original])
                return ("enum", list(values.values())) if values else OTHER
            return OTHER
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return union([type_of(module, left), type_of(module, right)])
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name == "Optional":
                return union([type_of(module, inner), ("none", None)])
            if name == "Union":
                return union([type_of(module, item) for item in items])
            if name == "Literal":
                values = [literal(module, item) for item in items]
                return ("literal", values) if is_list(values) else OTHER
            if name in ("list", "List"):
                return ("list", type_of(module, inner))
            if name in BUILTIN:
                return (BUILTIN[name], "subscripted")
    return OTHER


def option_type(annotated):
    """Returns the type that HfArgumentParser converts to, and whether the field may be None."""
    kind, parts = annotated
    if kind != "union":
        return annotated, False
    none, text, optional = ("none", None), ("str", None), ("none", None) in parts
    # The parser refuses other unions; TRL's programs never pass them on.
    if text not in parts and not (len(parts) == 2 and optional):
        return OTHER, optional
    if not optional:
        return (parts[0] if parts[1] == text else parts[1]), False
    if ("bool", None) in parts:
        return (("bool", None) if len(parts) == 2 else OTHER), True
    if parts[1] == none:
        return parts[0], True
    # The parser asks whether None is an instance of the second type, which Python refuses to say of a subscripted one.
    return (OTHER if parts[1][0] in ("list", "literal") or parts[1][1] == "subscripted" else parts[1]), True


def named_type(kind, inner):
    """Returns the word for a type in the file."""
    if kind == "list":
        return "list[other]" if inner[0] in ("list", "dict") else f"list[{named_type(*inner)}]"
    if kind in ("enum", "literal"):
        kinds = {type(value) for value in inner}
        return {str: "str", int: "int"}.get(kinds.pop(), "other") if len(kinds) == 1 else "other"
    return kind if kind in ("bool", "int", "float", "str", "dict") else "other"


def keywords(call):
    return {keyword.arg: keyword.value for keyword in call.keywords}


def is_dataclass(node):
    for decorator in node.decorator_list:
        if last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) == "dataclass":
            return True
    return False


def factory_value(module, node, local):
    match node:
        case ast.Name(id="list"):
            return []
        case ast.Name(id="dict"):
            return {}
        case ast.Lambda(body=body):
            return literal(module, body, local)
    return Special.COMPUTED


def read_field(module, statement, local):
    """Returns type, optional, choices and default of an annotated name in a dataclass; `None` for no option."""
    head = statement.annotation.value if isinstance(statement.annotation, ast.Subscript) else statement.annotation
    if last_name(head) in ("ClassVar", "InitVar"):
        return None
    (kind, inner), optional = option_type(type_of(module, statement.annotation))
    choices = inner if kind in ("enum", "literal") else None
    value, default = statement.value, Special.REQUIRED
    if isinstance(value, ast.Call) and last_name(value.func) in ("field", "HfArg"):
        given = keywords(value)
        if "init" in given and literal(module, given["init"]) is False:
            return None
        if "default" in given:
            default = literal(module, given["default"], local)
        elif "default_factory" in given:
            default = factory_value(module, given["default_factory"], local)
        metadata = given.get("metadata")
        if isinstance(metadata, ast.Dict):
            for key, item in zip(metadata.keys, metadata.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "choices" and choices is None:
                    found = literal(module, item, local)
                    choices = found if is_list(found) else None
                if isinstance(key, ast.Constant) and key.value == "aliases":
                    raise SystemExit(f"{module.path}: {statement.target.id} has aliases: the file needs a column")
    elif value is not None:
        default = literal(module, value, local)
    # The parser does not require a switch.
    if kind == "bool" and default is Special.REQUIRED:
        default = None if optional else False
    return {"type": named_type(kind, inner), "optional": optional, "choices": choices, "default": default}


def attribute_of_self(node):
    """Returns `x` of `self.x`."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return None


def none_test(node):
    """Returns `x` of `self.x is None`."""
    match node:
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return attribute_of_self(left)
    return None


def replacement(module, node):
    """Returns a literal; for the negation of a switch, true unless the switch is on."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand) if name := attribute_of_self(operand):
            return {"value": True, "unless": name}
    return literal(module, node)


def replacements(module, statement):
    """Yields field and value of `if self.x is None: self.x = …` and of `self.x = … if self.x is None else self.x`."""
    match statement:
        case ast.If(test=test, body=body, orelse=[]) if tested := none_test(test):
            for inner in body:
                names = list(map(attribute_of_self, inner.targets)) if isinstance(inner, ast.Assign) else []
                if tested in names:
                    value = replacement(module, inner.value)
                    for name in filter(None, names):
                        yield name, value if name == tested else {"value": value, "unless": tested}
        case ast.Assign(targets=[target], value=ast.IfExp(test=test, body=value, orelse=same)):
            name = attribute_of_self(target)
            if name and none_test(test) == name == attribute_of_self(same):
                yield name, replacement(module, value)


def copied_over_none(statement):
    """Yields the fields that a loop over pairs of names sets where they are None: `setattr(self, new, getattr(self, old))`."""
    match statement:
        case ast.For(target=ast.Tuple(elts=variables), iter=ast.Tuple(elts=rows)):
            for inner in ast.walk(statement):
                match inner:
                    case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Name(id=into), ast.Call(func=ast.Name(id="getattr"))]):
                        tested = ast.parse(f"getattr(self, {into}) is None", mode="eval").body
                        if any(ast.dump(part) == ast.dump(tested) for part in ast.walk(statement)):
                            at = [variable.id for variable in variables].index(into)
                            yield from (row.elts[at].value for row in rows)


def substituted(module, node):
    """Returns what `__post_init__` of a class replaces None by, by field."""
    method = next((s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__post_init__"), None)
    found = {}
    for statement in method.body if method else []:
        for name in copied_over_none(statement):
            found.setdefault(name, Special.COMPUTED)
        for name, value in replacements(module, statement):
            plain = value["value"] if isinstance(value, dict) and value else value
            found.setdefault(name, value if is_plain(plain) or plain == {} else Special.COMPUTED)
        for inner in ast.walk(statement):
            targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
            for name in filter(None, map(attribute_of_self, targets)):
                found.setdefault(name, Special.COMPUTED)
    return found


class ArgumentClass:
    """A class of one release."""

    def __init__(self, module, node):
        self.file, self.name, self.fields, self.bases = module.path, node.name, {}, []
        for base in node.bases:
            if isinstance(base, ast.Name):
                place, name = module.find(base.id)
                self.bases.append((place if place and name in place.classes else None, name))
        self.replaced, local = {}, {}
        if not is_dataclass(node):
            return
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign):
                if field := read_field(module, statement, local):
                    self.fields[statement.target.id] = field
            elif isinstance(statement, ast.Assign):
                local |= {name: value if name not in local else None for name, value in assignments(statement)}
            elif isinstance(statement, ast.If | ast.Try):
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.AnnAssign):
                        raise SystemExit(f"{module.path}: {node.name} has conditional fields")
                    local |= {name: None for name, _ in assignments(inner)}
        self.replaced = substituted(module, node)


def classes_of(package, release):
    """Returns the argument classes of a release by name, with their bases in the package."""
    found = {}

    def add(module, name):
        made = ArgumentClass(module, module.classes[name])
        # A class that only warns that its base has moved: the base is meant.
        if not made.fields and len(made.bases) == 1 and made.bases[0][0] and made.bases[0][1] == name:
            return add(*made.bases[0])
        known = found.get(name)
        if known and known.file != made.file:
            raise SystemExit(f"{package.name} {release.version}: {name} is in {known.file} and in {made.file}")
        found[name] = made
        for place, base in made.bases:
            if place and base not in found:
                add(place, base)
        return None

    for path in sorted(filter(package.has_classes, release.names)):
        module = release.module(path.removesuffix(".py"))
        for name, node in module.classes.items():
            if PUBLIC.match(name) and is_dataclass(node):
                add(module, name)
    for made in found.values():
        settle(found, made)
    return found


def settle(found, made):
    """Adds to each field what replaces None. A class that replaces that of a field of its base repeats the field."""
    for name, value in made.replaced.items():
        field = made.fields.get(name) or inherited(found, made, name)
        if field and field["default"] is None and (name in made.fields or value is not Special.COMPUTED):
            made.fields[name] = field | {"after": value}


def inherited(found, made, name):
    for _, base in made.bases:
        if base in found:
            if field := found[base].fields.get(name) or inherited(found, found[base], name):
                return field
    return None


def newest_releases(package):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", package.name], check=True, capture_output=True, text=True
    )
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)[1].split(", ")
    versions = sorted((v for v in listed if re.fullmatch(r"[\d.]+", v)), key=version_key)
    versions = [version for version in versions if version_key(version) >= version_key(package.oldest)]
    if not package.minors_only:
        return versions
    return list({tuple(version_key(version)[:2]): version for version in versions}.values())


def wheel(name, version, folder):
    pattern = f"{name}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        print(f"argument_classes: downloading {name} {version}", file=sys.stderr)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", folder]
            + [f"{name}=={version}"],
            check=True,
        )
    return next(folder.glob(pattern))


def ranges(starts, present):
    """Yields value, first version and first version without it, for each run of releases with the same value."""
    begun = None
    for at, value in enumerate([*present, None]):
        if begun is not None and value != present[begun]:
            yield present[begun], starts[begun], starts[at] if at < len(starts) else ""
            begun = None
        if begun is None and value is not None:
            begun = at


def first_versions(versions):
    """Returns the first version that each release stands for: `4.50` for the only one of its minor that was read."""
    minors = [version_key(version)[:2] for version in versions]
    return [
        ".".join(map(str, minor)) if minors.count(minor) == 1 else version
        for version, minor in zip(versions, minors, strict=True)
    ]


def written(value):
    if isinstance(value, Special):
        return value.value
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def columns(field):
    return (
        field["type"],
        "?" if field["optional"] else "",
        written(field["choices"]) if field["choices"] else "",
        written(field["default"]),
        written(field.get("after", Special.SAME)),
    )


def lines_of(package, versions, folder):
    releases = [classes_of(package, Release(wheel(package.name, v, folder), v)) for v in versions]
    starts = first_versions(versions)
    for name in sorted({name for release in releases for name in release}):
        yield f"class\t{name}\t{package.name}"
        made = [release.get(name) for release in releases]
        shapes = [one and (one.file, " ".join(base for _, base in one.bases)) for one in made]
        for (file, bases), since, until in ranges(starts, shapes):
            yield f"definition\t{file}\t{bases}\t{since}\t{until}"
        for field in sorted({field for one in made if one for field in one.fields}):
            rows = [columns(one.fields[field]) if one and field in one.fields else None for one in made]
            for row, since, until in ranges(starts, rows):
                yield "\t".join((field, *row, since, until))


def recorded(text):
    """Returns the date and the releases that a file was made from."""
    date = re.search(r"^date\t(\S+)$", text, re.MULTILINE)
    packages = re.findall(r"^package\t(\S+)\t(.*)$", text, re.MULTILINE)
    return date and date[1], {name: versions.split() for name, versions in packages}


def generate(date, versions, folder):
    lines = [f"date\t{date}"]
    lines += [f"package\t{package.name}\t{' '.join(versions[package.name])}" for package in PACKAGES]
    for package in PACKAGES:
        lines += lines_of(package, versions[package.name], folder)
    return HEADER + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare the file with the wheels that it was made from")
    action.add_argument("--write", action="store_true", help="write the file")
    parser.add_argument("--newest", action="store_true", help="read the releases that PyPI has today")
    parser.add_argument("--wheels", type=pathlib.Path, help="directory in which wheels stay")
    parser.add_argument("--file", type=pathlib.Path, default=FILE, help="the file, if not the catalogue's")
    parser.add_argument("--today", default=datetime.date.today().isoformat(), help="date of new data")
    args = parser.parse_args()
    text = args.file.read_text(encoding="utf-8") if args.file.exists() else ""
    date, versions = recorded(text)
    if args.newest or not versions:
        date, versions = args.today, {package.name: newest_releases(package) for package in PACKAGES}
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.wheels or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        made = generate(date, versions, folder)
    if args.write:
        args.file.write_text(made, encoding="utf-8")
        return 0
    if made != text:
        old, new = set(text.splitlines()), set(made.splitlines())
        print(*(f"- {line}" for line in sorted(old - new)), *(f"+ {line}" for line in sorted(new - old)), sep="\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
