"""Every script of the examples accepts exactly the arguments that its job passes.

The requests are those that `trainc emit --out DIR examples/…` wrote, with DIR in the variable
TRAINC_EMITTED. Without it, the hyperparameters recorded in fixtures/hyperparameters.json are used.

The parser of a script with `takes=` is made of classes of libraries. Its options are recorded in fixtures/options.json;
TRAINC_ENGINES_PYTHON names a Python with the libraries, whose parser is asked as well. TRAINC_BLESS=1 records them.
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
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMITTED = os.environ.get("TRAINC_EMITTED")
RECORDED = pathlib.Path(__file__).parent / "fixtures" / "hyperparameters.json"
OPTIONS = pathlib.Path(__file__).parent / "fixtures" / "options.json"
ENGINES = os.environ.get("TRAINC_ENGINES_PYTHON")
PROGRAM = re.compile(
    r'^\s*program "(?P<entry>[^"]+)" source="(?P<source>[^"]+)"(?: takes="(?P<takes>[^"]+)")?', re.MULTILINE
)
# The program's own file of arguments: `train file=`.
FILE = re.compile(r'^\s*train file="(?P<path>[^"]+)"', re.MULTILINE)
JOB = re.compile(r'^job "(?P<name>[^"]+)"', re.MULTILINE)


def jobs_with_scripts(takes):
    """Returns (job, script) for every manifest of the examples with a local source, with or without `takes=`."""
    found = []
    for manifest in sorted((ROOT / "examples").rglob("*.kdl")):
        text = manifest.read_text(encoding="utf-8")
        job, program = JOB.search(text), PROGRAM.search(text)
        if job and program and bool(program["takes"]) == takes:
            script = (manifest.parent / program["source"] / program["entry"]).resolve()
            found.append(pytest.param(job["name"], script, id=job["name"]))
    return found


JOBS = jobs_with_scripts(takes=False)
# Those with a parser of a library.
LIBRARY_JOBS = jobs_with_scripts(takes=True)
SCRIPTS = sorted((ROOT / "examples").rglob("*.py"))


def scripts(jobs):
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in sorted({job.values[1] for job in jobs})]


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
    assert (len(JOBS), len(LIBRARY_JOBS)) >= (11, 4)
    named = {param.values[1] for param in JOBS + LIBRARY_JOBS}
    assert named == set(SCRIPTS), "a script that no manifest names, or the reverse"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_script_compiles(script, tmp_path):
    py_compile.compile(str(script), cfile=str(tmp_path / "out.pyc"), doraise=True)


def help_without_libraries(script):
    return subprocess.run([sys.executable, "-S", str(script), "--help"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", scripts(JOBS))
def test_help_needs_no_library(script):
    run = help_without_libraries(script)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("script", scripts(LIBRARY_JOBS))
def test_a_missing_library_is_named(script):
    run = help_without_libraries(script)
    assert run.returncode == 1
    assert re.fullmatch(r"missing library: \w+ \(listed in requirements\.txt\)\n", run.stderr), run.stderr


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


def file_of_arguments(script):
    """Returns the file that the manifest beside the script's directory names in `train file=`."""
    manifest = script.parent.parent / "trainc.kdl"
    found = FILE.search(manifest.read_text(encoding="utf-8"))
    return manifest.parent / found["path"] if found else None


def recorded_options(job):
    found = json.loads(OPTIONS.read_text(encoding="utf-8"))[job]
    return {kind: " ".join(lines).split() for kind, lines in found.items()}


@pytest.mark.parametrize(("job", "script"), LIBRARY_JOBS)
def test_the_parser_has_what_the_job_passes(job, script):
    recorded = recorded_options(job)
    passed = {word for word in arguments(job) if word.startswith("--")}
    # TrlParser takes it away before it parses, and reads the keys of the file as arguments.
    if "--config" in passed:
        passed.remove("--config")
        text = file_of_arguments(script).read_text(encoding="utf-8")
        passed |= {"--" + key for key in re.findall(r"^(\w+):", text, re.MULTILINE)}
    assert passed <= set(recorded["options"])
    assert set(recorded["required"]) <= passed


@pytest.mark.skipif(ENGINES is None, reason="TRAINC_ENGINES_PYTHON names no Python with the libraries")
@pytest.mark.parametrize(("job", "script"), LIBRARY_JOBS)
def test_the_library_takes_what_the_job_passes(job, script):
    words = arguments(job)
    if "--config" in words:
        words[words.index("--config") + 1] = str(file_of_arguments(script))
    asker = pathlib.Path(__file__).parent / "script_options.py"
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [ENGINES, str(asker), str(script), *words], capture_output=True, text=True, check=False, env=environment
    )
    if "missing library" in run.stderr:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.strip().splitlines()[-1])
    if os.environ.get("TRAINC_BLESS"):
        record = json.loads(OPTIONS.read_text(encoding="utf-8")) if OPTIONS.exists() else {}
        lines = {kind: textwrap.wrap(" ".join(names), 100, break_on_hyphens=False) for kind, names in found.items()}
        record[job] = lines
        OPTIONS.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert recorded_options(job) == found


def test_a_value_with_a_blank_arrives_whole():
    script = ROOT / "examples" / "neox-20b-fsdp" / "scripts" / "run_clm.py"
    parsed = load(script).build_parser().parse_args(arguments("neox-20b-fsdp"))
    assert parsed.fsdp == "full_shard auto_wrap"
    assert parsed.bf16 is True


def test_false_is_false():
    script = ROOT / "examples" / "gptj-6b-pipeline" / "scripts" / "train_gptj_smp_script.py"
    parsed = load(script).build_parser().parse_args(arguments("gptj-6b-pipeline"))
    assert (parsed.do_train, parsed.do_eval) == (True, False)
