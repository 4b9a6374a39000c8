"""Every script of the examples accepts exactly the arguments that its job passes.

The requests are those that `trainc emit --out DIR examples/…` wrote, with DIR in the variable
TRAINC_EMITTED. Without it, the hyperparameters recorded in fixtures/hyperparameters.json are used.
"""

import functools
import importlib.util
import json
import os
import pathlib
import py_compile
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMITTED = os.environ.get("TRAINC_EMITTED")
RECORDED = pathlib.Path(__file__).parent / "fixtures" / "hyperparameters.json"
PROGRAM = re.compile(r'^\s*program "(?P<entry>[^"]+)" source="(?P<source>[^"]+)"', re.MULTILINE)
JOB = re.compile(r'^job "(?P<name>[^"]+)"', re.MULTILINE)


def jobs_with_scripts():
    """Returns (job, script) for every manifest of the examples with a local source."""
    found = []
    for manifest in sorted((ROOT / "examples").rglob("*.kdl")):
        text = manifest.read_text(encoding="utf-8")
        job, program = JOB.search(text), PROGRAM.search(text)
        if job and program:
            script = (manifest.parent / program["source"] / program["entry"]).resolve()
            found.append(pytest.param(job["name"], script, id=job["name"]))
    return found


JOBS = jobs_with_scripts()
SCRIPTS = sorted((ROOT / "examples").rglob("*.py"))


@functools.cache
def emitted():
    """Returns every emitted request by the job in its tags."""
    found = {}
    for path in sorted(pathlib.Path(EMITTED).rglob("sagemaker/training-job.json")):
        request = json.loads(path.read_text(encoding="utf-8"))
        tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])}
        found[tags.get("trainc:job")] = request
    return found


def hyperparameters(job):
    """Returns the hyperparameters of the job's request, without the keys of the toolkit."""
    if EMITTED:
        requests = emitted()
        assert job in requests, f"no request for job {job} below {EMITTED}"
        values = requests[job]["HyperParameters"]
    else:
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
        assert job in recorded, f"no hyperparameters recorded for job {job} in {RECORDED.name}"
        values = recorded[job]
    return {key: value for key, value in values.items() if not key.startswith("sagemaker_")}


def decoded(value):
    try:
        return json.loads(value)
    except ValueError:
        return value


def as_text(value):
    """Formats a mapping as `key=value,…` sorted by key, and other values as Python prints them."""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def arguments(job):
    """Returns the arguments that the container's toolkit passes: words joined by spaces and parsed by a shell."""
    words = []
    for key, value in sorted(hyperparameters(job).items()):
        words += [("--" if len(key) > 1 else "-") + key, as_text(decoded(value))]
    line = "printf '%s\\0' " + " ".join(words)
    shell = subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True)
    return shell.stdout.split("\0")[:-1]


def load(script):
    spec = importlib.util.spec_from_file_location(f"example_{abs(hash(str(script)))}", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_examples():
    assert len(JOBS) >= 11
    assert {param.values[1] for param in JOBS} == set(SCRIPTS), "a script that no manifest names, or the reverse"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_script_compiles(script, tmp_path):
    py_compile.compile(str(script), cfile=str(tmp_path / "out.pyc"), doraise=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_help_needs_no_library(script):
    run = subprocess.run([sys.executable, "-S", str(script), "--help"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(("job", "script"), JOBS)
def test_script_takes_what_the_job_passes(job, script, capsys):
    try:
        load(script).build_parser().parse_args(arguments(job))
    except SystemExit:
        pytest.fail(f"{script.name} refuses the arguments of {job}: {capsys.readouterr().err}")


@pytest.mark.parametrize(("job", "script"), JOBS)
def test_job_passes_what_the_script_takes(job, script):
    taken = {name for action in load(script).build_parser()._actions for name in action.option_strings}
    passed = {word for word in arguments(job) if word.startswith("-")}
    assert taken - {"-h", "--help"} == passed


def test_a_value_with_a_blank_arrives_whole():
    script = ROOT / "examples" / "neox-20b-fsdp" / "scripts" / "run_clm.py"
    parsed = load(script).build_parser().parse_args(arguments("neox-20b-fsdp"))
    assert parsed.fsdp == "full_shard auto_wrap"
    assert parsed.bf16 is True


def test_false_is_false():
    script = ROOT / "examples" / "gptj-6b-pipeline" / "scripts" / "train_gptj_smp_script.py"
    parsed = load(script).build_parser().parse_args(arguments("gptj-6b-pipeline"))
    assert (parsed.do_train, parsed.do_eval) == (True, False)
