"""Every `aws` command in a message, a page or a README exists in the CLI.

The CLI derives its commands from botocore's models: an operation is a command, a member of its input an option. The
test reads these models, without an account. `aws s3`, `aws configure` and `aws sso` are specific to the CLI.
"""

import pathlib
import re

import botocore.session
import pytest
from botocore import xform_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
# awscli 1.46, `aws s3 help`, `aws configure help`, `aws sso help`
OWN = {
    "s3": {"cp", "ls", "mb", "mv", "presign", "rb", "rm", "sync", "website"},
    "configure": {"list", "set", "get", "sso", "sets"},
    "sso": {"login", "logout"},
}
GLOBAL = {"region", "query", "output", "profile", "endpoint-url", "no-cli-pager", "cli-input-json"}
COMMAND = re.compile(r"\baws ([a-z0-9][a-z0-9-]*) ([a-z0-9][a-z0-9-]*)((?: (?!&&)[^`\"\n]+)?)")
OPTION = re.compile(r"(?<!\S)--([a-z][a-z-]*)")
SESSION = botocore.session.get_session()
SERVICES = set(SESSION.get_available_services())


def texts():
    for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        lines = path.read_text(encoding="utf-8").splitlines()
        said = [line for line in lines if not line.lstrip().startswith("//")]
        yield path, re.sub(r"\\\n\s*", "", "\n".join(said)).replace("\\n", "\n").replace('\\"', "'")
    for pattern in ("crates/*/src/**/*.toml", "crates/*/src/codes/*.md", "README.md", "examples/**/*.md"):
        for path in sorted(ROOT.glob(pattern)):
            yield path, path.read_text(encoding="utf-8")


def commands():
    found = {}
    for path, text in texts():
        for service, operation, rest in COMMAND.findall(text):
            if service in SERVICES or service in OWN:
                rest = re.split(r" && | > | \| |; |\\n", rest)[0]
                found.setdefault((service, operation, rest), path.relative_to(ROOT))
    return sorted((*key, str(path)) for key, path in found.items())


COMMANDS = commands()


def test_there_are_some():
    assert len(COMMANDS) > 15, COMMANDS


@pytest.mark.parametrize("service, operation, rest, path", COMMANDS, ids=[" ".join(row[:2]) for row in COMMANDS])
def test_a_command_is_one_of_the_cli(service, operation, rest, path):
    if service in OWN:
        assert operation in OWN[service], path
        return
    model = SESSION.get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    if operation.endswith("-"):
        # The code inserts the rest of the name.
        assert any(name.startswith(operation) for name in names), path
        return
    assert operation in names, f"{path}: aws {service} has no {operation}"
    shape = model.operation_model(names[operation]).input_shape
    members = {xform_name(name, "-"): name for name in (shape.members if shape else {})}
    options = set(OPTION.findall(rest))
    unknown = options - set(members) - GLOBAL
    assert not unknown, f"{path}: aws {service} {operation} has no --{', --'.join(sorted(unknown))}"
    if options - GLOBAL and "cli-input-json" not in options:
        missing = {xform_name(name, "-") for name in (shape.required_members if shape else [])} - options
        assert not missing, f"{path}: aws {service} {operation} lacks --{', --'.join(sorted(missing))}"
