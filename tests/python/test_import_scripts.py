"""`trainc import` of Python scripts: the request of the manifest is the one that the script would have sent."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from normalise import differences, show

HERE = pathlib.Path(__file__).parent
SCRIPTS = sorted((HERE / "scripts").glob("*.py"))
V3 = HERE.parent.parent / ".venv-v3/bin/python"
BINARY = os.environ.get("TRAINC_BIN")

pytestmark = pytest.mark.skipif(not BINARY, reason="TRAINC_BIN is not set")


def environment(home):
    """Returns an environment without credentials, configuration and region."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}


@pytest.fixture
def place(tmp_path):
    """Returns a directory with the sources of the scripts, and an empty home outside of it."""
    (tmp_path / "home").mkdir()
    shutil.copytree(HERE / "scripts/src", tmp_path / "work/src")
    return tmp_path / "work"


def trainc(place, *arguments):
    command = [BINARY, *map(str, arguments)]
    env = environment(next(parent / "home" for parent in place.parents if (parent / "home").exists()))
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=place, env=env)


def run_import(place, script, *arguments, text=None):
    """Imports a script with the Python of its SDK."""
    name = script if isinstance(script, str) else script.name
    (place / name).write_text(text if text is not None else script.read_text(encoding="utf-8"), encoding="utf-8")
    python = V3 if name.startswith("v3_") else sys.executable
    return trainc(place, "import", name, "--python", python, *arguments)


def test_all_kinds_are_here():
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.stem != "v2_sweep"], ids=lambda script: script.stem)
def test_same_request(script, place):
    done = run_import(place, script, "--out", "job.kdl", "--request", "request.json", "--region", "us-west-2")
    assert done.returncode == 0, done.stderr
    assert "no AWS call is sent" in done.stderr
    assert "\nwrote job.kdl: the same request" in done.stderr or script.stem == "v2_tuner", done.stderr
    manifest = (place / "job.kdl").read_text(encoding="utf-8")
    emitted = trainc(place, "emit", "job.kdl", "--out", "out")
    assert emitted.returncode == 0, emitted.stderr + manifest
    ours = json.loads((place / "out/sagemaker/training-job.json").read_text(encoding="utf-8"))
    theirs = json.loads((place / "request.json").read_text(encoding="utf-8"))
    if script.stem.startswith("v3_"):
        # The arguments of a command are no hyperparameters of the SDK.
        known = theirs.get("HyperParameters", {})
        ours, theirs = (without_start(one, known) for one in (ours, theirs))
    found = differences(ours, theirs)
    assert not found, show(found, "emitted", "recorded") + "\n" + manifest
    # A tuning job sets further hyperparameters in each of its requests.
    is_tuned = script.stem == "v2_tuner"
    claim = "one training job with its parameters that are not tuned" if is_tuned else "the same request"
    header = manifest.split("job \"", maxsplit=1)[0]
    assert f": produces {claim}" in header.split("\n", maxsplit=1)[0], manifest
    # The role of an environment is replaced.
    assert ("\n// - `RoleArn`: the execution role of your environment" in header) == ("role create=#true" in manifest), manifest
    assert header.split("\n", maxsplit=1)[0].endswith(", but:") == ("\n// - " in header), manifest
    # The home directory is empty again: the recorder is deleted.
    assert not list((place.parent / "home").glob("trainc-import-*"))


def test_several_jobs_need_a_directory(place):
    script = HERE / "scripts/v2_sweep.py"
    done = run_import(place, script, "--region", "us-west-2")
    assert done.returncode == 3
    assert "add `--out DIR`" in done.stderr
    assert done.stdout == ""
    done = run_import(place, script, "--region", "us-west-2", "--out", "jobs", "--request", "requests.json")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (place / "jobs").iterdir()) == ["sweep-2.kdl", "sweep.kdl"]
    assert "hyperparameter \"lr\" 0.0003" in (place / "jobs/sweep-2.kdl").read_text()
    requests = json.loads((place / "requests.json").read_text())
    assert [request["HyperParameters"]["lr"] for request in requests] == ["0.0001", "0.0003"]
    assert trainc(place, "check", "jobs").returncode == 0


def test_a_notebook_that_deploys_is_imported_up_to_there(place):
    script = HERE / "scripts/v2_notebook_deploy.py"
    done = run_import(place, script, "--region", "us-west-2", "--out", "job.kdl")
    assert done.returncode == 0, done.stderr
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if ".deploy(" in text)
    assert f"stopped at line {line}: trainc import reads no objects: s3://" in done.stderr
    # The same without a job before it is a failure.
    text = "import boto3\n\nboto3.client('s3').get_object(Bucket='example-bucket', Key='data.csv')\n"
    assert run_import(place, "job.py", text=text).returncode == 3
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    text += "\nboto3.client('sagemaker-runtime', 'us-west-2').invoke_endpoint(EndpointName='a', Body=b'')\n"
    done = run_import(place, "job.py", text=text)
    assert done.returncode == 0, done.stderr
    assert "trainc import runs no model: InvokeEndpoint of a" in done.stderr


def test_the_manifest_can_name_the_source(place):
    """Outside of a git repository the root is the current directory, if the manifest is in it."""
    script = HERE / "scripts/v2_smddp.py"
    elsewhere = place.parent / f"{place.name}-elsewhere"
    done = run_import(place, script, "--region", "us-west-2", "--out", f"../{elsewhere.name}/")
    assert done.returncode == 2, done.stderr
    assert "src`: it is outside the root directory" in done.stderr
    assert "help: `--out ./`\n" in done.stderr
    assert not elsewhere.exists()
    done = run_import(place, script, "--region", "us-west-2", "--out", "jobs/")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(place / "jobs")
    assert run_import(place, script, "--region", "us-west-2", "--out", "./").returncode == 0
    assert trainc(place, "check", ".").returncode == 0
    (place / ".git").mkdir()
    done = run_import(place, script, "--region", "us-west-2", "--out", "jobs/")
    assert done.returncode == 0, done.stderr
    # From a directory of the repository.
    (place / "runs").mkdir()
    (place / "runs/job.py").write_text(script.read_text().replace('"src"', '"../src"'))
    done = trainc(place / "runs", "import", "job.py", "--python", sys.executable, "--region", "us-west-2", "--out", "job.kdl")
    assert done.returncode == 0, done.stderr
    assert "wrote job.kdl: the same request" in done.stderr


def test_the_source_is_the_directory_of_the_script(place):
    done = run_import(place, HERE / "scripts/v2_smddp.py", "--region", "us-west-2")
    assert done.returncode == 0, done.stderr
    assert 'program "train.py" source="./src"' in done.stdout
    done = run_import(place, HERE / "scripts/v2_git.py", "--region", "us-west-2")
    assert 'git="https://github.com/example/training.git"' in done.stdout, done.stdout


def test_a_script_without_a_source_directory(place):
    """The SDK packs the script alone, and a manifest names directories."""
    text = (HERE / "scripts/v2_smddp.py").read_text(encoding="utf-8").replace('source_dir="src",', "")
    text = text.replace('"train.py"', '"src/train.py"')
    done = run_import(place, "job.py", "--region", "us-west-2", "--out", "job.kdl", text=text)
    assert done.returncode == 0, done.stderr
    manifest = (place / "job.kdl").read_text(encoding="utf-8")
    comment = "// The script packs `train.py` alone; trainc also packs `run_glue.py` and `train_gpt.py`: "
    assert re.search(rf'{re.escape(comment)}[^\n]*\n *program "train.py" source="./src"', manifest), manifest
    assert ": produces the same request." in manifest
    planned = trainc(place, "check", "job.kdl")
    assert planned.returncode == 0, planned.stderr
    # Alone in its directory, and excluded files.
    for name in ("run_glue.py", "train_gpt.py"):
        (place / "src" / name).unlink()
    (place / "src/__pycache__").mkdir()
    done = run_import(place, "job.py", "--region", "us-west-2", text=text)
    assert 'program "train.py" source="./src"' in done.stdout
    assert "The script packs" not in done.stdout
    # A source that trainc does not pack: the archive is not there.
    (place / "src/loop").symlink_to(place / "src")
    done = run_import(place, "job.py", "--region", "us-west-2", text=text)
    assert "// Not uploaded, as the script would have done: write `source=" in done.stdout, done.stdout
    assert "`program source=`: " in done.stderr
    assert "leads in a circle" in done.stderr
    (place / "src/loop").unlink()
    # From a repository.
    text = (HERE / "scripts/v2_git.py").read_text(encoding="utf-8").replace('source_dir="examples/imagenet",', "")
    text = text.replace('"train.py"', '"examples/imagenet/train.py"')
    done = run_import(place, "job.py", "--region", "us-west-2", text=text)
    assert 'dir="examples/imagenet"' in done.stdout, done.stdout
    assert "also packs the other files of the directory" in done.stdout


def test_values_of_no_account_are_placeholders(place):
    done = run_import(place, HERE / "scripts/v2_pytorch_fsdp.py", "--request", "request.json")
    assert done.returncode == 0, done.stderr
    request = json.loads((place / "request.json").read_text())
    assert request["RoleArn"] == "${role_arn}"
    assert request["OutputDataConfig"]["S3OutputPath"] == "s3://sagemaker-us-east-1-${account}/llama/output"
    assert "role create=#true" in done.stdout
    assert "000000000000" not in done.stdout
    # No region is configured.
    assert "`us-east-1` is a placeholder" in done.stderr
    comment = "// Placeholder: no region is configured; import again with `--region`."
    assert f'{comment}\n    region "us-east-1"' in done.stdout, done.stdout
    assert "\n// - `region`: not configured; " in done.stdout
    # That of the client in the script, although its session has none.
    text = "import boto3\nboto3.client('s3').list_buckets()\n" + (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    done = run_import(place, "job.py", text=text)
    assert '{\n    region "eu-west-1"' in done.stdout, done.stdout
    assert "placeholder: run" not in done.stderr


ROLES = {
    "by_name": ("iam.get_role(RoleName='MyRole')['Role']['Arn']", "role/MyRole", "the script names the role alone"),
    "of_the_console": (
        "iam.get_role(RoleName='AmazonSageMaker-ExecutionRole-1')['Role']['Arn']",
        "role/service-role/AmazonSageMaker-ExecutionRole-1",
        "the script names the role alone",
    ),
    "created": (
        "iam.create_role(RoleName='MyRole', Path='/ml/', AssumeRolePolicyDocument='{}')['Role']['Arn']",
        "role/ml/MyRole",
        "the script would have created",
    ),
    "of_the_account": (
        "f\"arn:aws:iam::{boto3.client('sts').get_caller_identity()['Account']}:role/MyRole\"",
        "role/MyRole",
        None,
    ),
}


@pytest.mark.parametrize("case", ROLES)
def test_a_role_without_its_account_is_kept(case, place):
    """`apply` fills in the account."""
    expression, resource, said = ROLES[case]
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    text = text.replace('"arn:aws:iam::111122223333:role/training"', expression).replace("args = ", "iam = boto3.client('iam')\nargs = ")
    done = run_import(place, "job.py", "--out", "job.kdl", text=text)
    assert done.returncode == 0, done.stderr
    manifest = (place / "job.kdl").read_text(encoding="utf-8")
    assert f'role arn="arn:aws:iam::${{account}}:{resource}"' in manifest
    assert ("produces the same request." in manifest) == (case != "created"), manifest
    if said:
        assert said in done.stderr
    assert ("`RoleArn`" in done.stderr) == bool(said), done.stderr
    # The simulated account has every role of a manifest.
    applied = trainc(place, "apply", "job.kdl", "--simulate", "--yes")
    assert applied.returncode == 0, applied.stderr


ACCOUNT = "boto3.client('sts').get_caller_identity()['Account']"


@pytest.mark.parametrize("is_role_known", [True, False])
def test_what_contains_the_account(is_role_known, place):
    """A role names the account for all; a text of the user is no placeholder of it."""
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    text = text.replace("763104351884", f"{{{ACCOUNT}}}")
    text = text.replace('"sagemaker_program"', f"\"shell\": '${{account}}', \"bucket\": {ACCOUNT}, \"sagemaker_program\"")
    if not is_role_known:
        text = text.replace('"arn:aws:iam::111122223333:role/training"', f"f\"arn:aws:iam::{{{ACCOUNT}}}:role/mine\"")
    done = run_import(place, "job.py", "--out", "job.kdl", "--request", "request.json", text=text)
    assert done.returncode == 0, done.stderr
    request = json.loads((place / "request.json").read_text())
    manifest = (place / "job.kdl").read_text(encoding="utf-8")
    assert request["HyperParameters"]["shell"] == "${account}"
    assert "HyperParameters.shell" not in done.stderr
    account = "111122223333" if is_role_known else "000000000000"
    assert f'image uri="{account}.dkr.ecr.eu-west-1.amazonaws.com/' in manifest, manifest
    assert request["HyperParameters"]["bucket"] == (account if is_role_known else "000000000000")
    unknown = "is in the registry of your account, which is not asked: write its ID instead of `000000000000`"
    assert (unknown in done.stderr) != is_role_known, done.stderr
    assert ("// Placeholder: the registry is that of your account" in manifest) != is_role_known, manifest
    emitted = trainc(place, "emit", "job.kdl", "--out", "out")
    assert emitted.returncode == 0, emitted.stderr
    ours = json.loads((place / "out/sagemaker/training-job.json").read_text(encoding="utf-8"))
    assert not differences(ours, request)


def test_the_sdk_expands_a_role(place):
    text = (HERE / "scripts/v2_smddp.py").read_text(encoding="utf-8")
    text = text.replace("arn:aws:iam::111122223333:role/training", "MyRole")
    done = run_import(place, "job.py", "--region", "cn-north-1", text=text)
    assert done.returncode == 0, done.stderr
    assert 'role arn="arn:aws-cn:iam::${account}:role/MyRole"' in done.stdout, done.stdout


# The request of `ModelTrainer` starts drivers; trainc starts the program itself, so that these members differ.
def without_start(request, known):
    """Returns a request without what starts its program, and with the values of the known hyperparameters."""
    request = json.loads(json.dumps(request))
    for name in ("ContainerEntrypoint", "ContainerArguments"):
        request["AlgorithmSpecification"].pop(name, None)
    channels = request.get("InputDataConfig", [])
    request["InputDataConfig"] = [one for one in channels if one["ChannelName"] not in ("code", "sm_drivers")]
    keys = request.get("HyperParameters", {})
    names = [name for name in keys if name in known and not name.startswith("sagemaker_")]
    request["HyperParameters"] = {name: decoded(keys[name]) for name in names}
    return request


def decoded(text):
    """Returns the value of a hyperparameter, whether or not its text is encoded."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else str(value)


def test_a_model_trainer_becomes_its_program(place):
    """Nobody uploads the drivers of SDK v3: the script, the source and the launcher are known."""
    done = run_import(place, HERE / "scripts/v3_torchrun.py", "--region", "us-west-2", "--out", "job.kdl")
    assert done.returncode == 0, done.stderr
    manifest = (place / "job.kdl").read_text(encoding="utf-8")
    assert 'program "train.py" source="./src"' in manifest
    assert 'parallel engine="ddp" launcher="torchrun"' in manifest
    assert "sm_drivers" not in manifest and "/bin/bash" not in manifest, manifest
    assert trainc(place, "check", "job.kdl").returncode == 0


TRAINERS = HERE.parent / "import/trainer"


@pytest.mark.parametrize("script", sorted(TRAINERS.glob("*.py")), ids=lambda script: script.stem)
def test_model_trainers_of_notebooks(script, place):
    """As in public notebooks: each becomes a manifest whose only errors are placeholders."""
    shutil.copytree(TRAINERS, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.record"))
    done = trainc(place, "import", script.name, "--python", V3, "--region", "us-west-2", "--out", "job.kdl", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    errors = {one["code"] for one in found["problems"] if one["severity"] == "error"}
    assert errors <= {"T0760"}, found["problems"]
    assert not found["lost"], found["lost"]
    manifest = (place / "job.kdl").read_text(encoding="utf-8")
    # Several commands are no program: the request stays as the SDK makes it.
    assert ("sm_drivers" in manifest) == (script.stem == "command_of_several"), manifest


def test_files_that_are_not_uploaded_are_named(place):
    # Files of the script itself.
    script = "import sagemaker\nsagemaker.Session().upload_data('src', key_prefix='data')\n"
    script += (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    script = script.replace("s3://example-bucket/imagenet/", "s3://sagemaker-us-west-2-000000000000/data")
    done = run_import(place, "job.py", "--region", "us-west-2", text=script)
    assert "channel `train`: not uploaded to `s3://sagemaker-us-west-2-111122223333/data`: 3 files of `./src`" in done.stderr


def test_arguments_of_the_script(place):
    script = HERE / "scripts/boto3_request.py"
    done = run_import(place, script, "--", "--epochs", "7", "--region", "eu-west-1")
    assert done.returncode == 0, done.stderr
    assert 'hyperparameter "epochs" 7' in done.stdout
    assert 'region "eu-west-1"' in done.stdout


FAILURES = {
    "raises": ("import sys\n\ndef f():\n    raise ValueError('no such thing')\n\nf()\n", "T0691", "ValueError: no such thing"),
    "exits": ("import sys\nsys.exit('usage: job.py --data')\n", "T0691", "usage: job.py --data"),
    "syntax": ("x = (\n", "T0691", "SyntaxError"),
    "module": ("import a_module_that_is_not_there\n", "T0691", "--python"),
    "no_job": ("import boto3\nboto3.client('s3').list_buckets()\n", "T0692", "s3 ListBuckets"),
    "network": ("import socket\nsocket.create_connection(('192.0.2.1', 443))\n", "T0691", "blocks the network: 192.0.2.1"),
    "after_a_job": ("{request}\nraise RuntimeError('too late')\n", "T0691", "too late"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_script_that_fails(case, place):
    text, code, said = FAILURES[case]
    text = text.replace("{request}", (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8"))
    done = run_import(place, "job.py", "--out", "job.kdl", "--request", "request.json", "-v", text=text)
    assert done.returncode == 3, done.stderr
    assert code in done.stderr
    assert said in done.stderr
    assert ("Traceback" in done.stderr) == (code == "T0691" and case != "syntax"), done.stderr
    assert sorted(path.name for path in place.iterdir()) == ["job.py", "src"]


def test_a_script_that_hangs(place):
    text = "import threading\n\ndef wait():\n    threading.Event().wait()\n\nwait()\n"
    done = run_import(place, "job.py", "--out", "job.kdl", "--timeout", "1", text=text)
    assert done.returncode == 3
    assert "T0693" in done.stderr
    assert 'job.py", line 4 in wait' in done.stderr
    assert not (place / "job.kdl").exists()


def test_a_script_does_not_sleep(place):
    """Before it runs, the first lines say so."""
    done = run_import(place, "job.py", text="import time\ntime.sleep(1000)\n")
    assert done.returncode == 3
    assert "and `time.sleep` returns at once" in done.stderr.split("error", maxsplit=1)[0]
    assert "T0692" in done.stderr


def test_a_loop_that_waits_until_a_time_ends(place):
    """In an encoding that the script declares."""
    script = place / "job.py"
    script.write_text(
        "# -*- coding: latin-1 -*-\nimport time\nend = time.time() + 1000\n"
        "while time.time() < end:\n    time.sleep(10)\nraise ValueError('caf\u00e9')\n",
        encoding="latin-1",
    )
    done = trainc(place, "import", "--python", sys.executable, "--timeout", "60", script)
    assert done.returncode == 3
    assert "ValueError: caf\u00e9" in done.stderr


# What stands before and after the request in notebooks that were exported.
NOTEBOOKS = {
    "future": ("import os\nfrom __future__ import annotations\n", ""),
    "commands": (
        "!mkdir -p code\n%%writefile code/a.py\nit's no Python (\n# In[2]:\n!pip install \\\n  'x\nhere = !pwd\nassert here[0]\npip install x\n",
        "assert open('code/a.py').read() == \"it's no Python (\\n\"\n%matplotlib inline\n",
    ),
    "commands_of_timed_cells": ("get_ipython().run_cell_magic('time', '', '! pip install x\\nseen = 1\\n%cd .\\n')\n", "assert seen\n"),
    "variables_of_commands": ("d = 'made'\nget_ipython().system('mkdir -p {d}/a $d/b')\nimport os\nassert len(os.listdir('made')) == 2\n", ""),
    "output_of_a_program": ("out = get_ipython().getoutput('aws configure get region')\nassert out[0] == out.s == 'made-up'\n", ""),
    "value_of_an_invalid_length": ("import boto3\nboto3.client('fsx').describe_file_systems(FileSystemIds=['fs-1'])\n", ""),
    "upload_of_a_missing_file": ("import boto3\nboto3.client('s3').upload_file('data/none.csv', 'example-bucket', 'k')\n", ""),
    "key_of_a_described_job": (
        "",
        "assert sagemaker.describe_training_job(TrainingJobName=name)['OutputDataConfig']['KmsKeyId'] == ''\n",
    ),
    "settings_of_a_described_job": (
        "",
        "assert not {'RetryStrategy', 'VpcConfig'} & set(sagemaker.describe_training_job(TrainingJobName=name))\n",
    ),
    "rules_of_a_described_job": (
        "",
        "assert sagemaker.describe_training_job(TrainingJobName=name)['DebugRuleEvaluationStatuses'][0]['RuleEvaluationStatus'] == 'NoIssuesFound'\n",
    ),
    "status_in_capitals": ("", "assert sagemaker.describe_compilation_job(CompilationJobName='a')['CompilationJobStatus'] == 'COMPLETED'\n"),
}


@pytest.mark.parametrize("case", NOTEBOOKS)
def test_notebooks(case, place):
    before, after = NOTEBOOKS[case]
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    if case.startswith("rules"):
        rule = "DebugRuleConfigurations=[{'RuleConfigurationName': 'Overfit', 'RuleEvaluatorImage': 'x'}],\n    "
        text = text.replace("EnableManagedSpotTraining", rule + "EnableManagedSpotTraining")
    done = run_import(place, "job.py", "--out", "job.kdl", text=f"{before}# In[3]:\n\n{text}{after}")
    assert done.returncode == 0, done.stderr
    assert (place / "job.kdl").exists()


def test_a_job_of_a_training_queue(place):
    """AWS Batch sends the request later."""
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    submit = """import json
def submit(**request):
    boto3.client("batch", args.region).submit_service_job(
        jobName=request.pop("TrainingJobName"),
        jobQueue="queue",
        serviceJobType="SAGEMAKER_TRAINING",
        serviceRequestPayload=json.dumps(request),
    )
submit("""
    text = text.replace("sagemaker.create_training_job(", submit)
    done = run_import(place, "job.py", "--out", "job.kdl", text=text)
    assert done.returncode == 0, done.stderr
    assert "wrote job.kdl: the same request" in done.stderr


def test_statements_that_fail_are_skipped(place):
    """What they would have set is marked, and what failed before the request is in the header."""
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    text = text.replace('"sagemaker_program"', '"classes": frame, "sagemaker_program"')
    text = f"import a_module_that_is_not_there\nframe = len(a_module_that_is_not_there.read())\n{text}\nraise ValueError('late')\n"
    done = run_import(place, "job.py", text=text)
    assert done.returncode == 3
    assert "; `--keep-going` skips the statements that fail" in " ".join(done.stderr.split()), done.stderr
    done = run_import(place, "job.py", "--keep-going", "--out", "job.kdl", text=text)
    assert done.returncode == 0, done.stderr
    assert "failed, and skipped: ValueError: late at line " in done.stderr
    header = (place / "job.kdl").read_text(encoding="utf-8").split('job "', maxsplit=1)[0]
    assert "\n// - lines 1 and 2 of the script failed and were skipped (`--keep-going`): " in header, header
    assert "\n// - `HyperParameters.classes`: `made-up-frame` contains a placeholder, since trainc does not know" in header, header
    # A loop that waits for a result of the job.
    hanging = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8") + "\nwhile True:\n    time.sleep(1)\n"
    done = run_import(place, "job.py", "--keep-going", "--timeout", "5", text=hanging)
    assert done.returncode == 0, done.stderr
    assert f"stopped at line {len(hanging.splitlines())}: the script did not end within 5 s" in done.stderr
    # JumpStart reads the definition of its jobs.
    text = "import boto3\nboto3.client('s3').get_object(Bucket='jumpstart-cache-prod-us-west-2', Key='models_manifest.json')\n"
    for arguments in ((), ("--keep-going",)):
        done = run_import(place, "job.py", *arguments, text=text)
        assert "help: start the job once, and import it by its name: `trainc import JOB" in " ".join(done.stderr.split())
    # A cell that is no Python, and no job.
    done = run_import(place, "job.py", "--keep-going", text="# In[1]:\nx = (\n# In[2]:\nprint('on')\n")
    assert done.returncode == 3
    assert "failed, and skipped: SyntaxError: '(' was never closed at line 1" in done.stderr
    assert "note: 1 statement failed and was skipped" in done.stderr


JOBS = """import boto3
client = boto3.client("sagemaker", "us-west-2")
image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.3.0-gpu-py311"
def load():
    raise OSError("no network")
def send(name, values):
    client.create_training_job(
        TrainingJobName=name,
        HyperParameters={key: str(value) for key, value in values.items()},
        AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"},
        RoleArn="arn:aws:iam::111122223333:role/training",
        OutputDataConfig={"S3OutputPath": "s3://bucket/output"},
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )
rows = load()
half = len(rows) // 2
batch = 4
if rows == "few":
    batch = 8
try:
    mode = load()
except OSError:
    mode = "handled"
with open("missing") as file:
    text = file.read()
def fill(values):
    values["lr"] = load()
    values["after"] = 3
for index in range(2):
    values = {"index": index, "half": half, "batch": batch, "mode": mode, "text": text}
    fill(values)
    send(f"job-{index}", values)
    load()
def read():
    with open("missing") as file:
        return len(file.read())
def main():
    load()
    send("job-main", {"many": 1} if rows else {"few": 1})
    count = read()
    send("job-main", {"count": count})
if __name__ == "__main__":
    main()
"""


def test_each_statement_is_skipped_by_itself(place):
    """In loops, functions and branches; the script's own handlers come first, and no marked text becomes a number."""
    done = run_import(place, "job.py", "--keep-going", "--out", "jobs/", "--request", "request.json", text=JOBS)
    assert done.returncode == 0, done.stderr
    first, second, third = json.loads((place / "request.json").read_text(encoding="utf-8"))
    marked = {name: f"made-up-{name}" for name in ("half", "batch", "text", "lr")}
    assert first["HyperParameters"] == {"index": "0", "mode": "handled", "after": "3", **marked}
    assert second["HyperParameters"] == {**first["HyperParameters"], "index": "1"}
    assert third["HyperParameters"] == {"count": "made-up-count"}
    header = (place / "jobs/job-main.kdl").read_text(encoding="utf-8").split('job "', maxsplit=1)[0]
    failed = ["rows = load", "half = ", "if rows == ", "with open", '    values["lr"]', "    load()"]
    starts = [next(at for at, line in enumerate(JOBS.splitlines(), 1) if line.startswith(start)) for start in failed]
    # With what stands in a branch or block that was not entered.
    lines = [f"{start} to {start + 1}" if text.startswith(("if", "with")) else str(start) for start, text in zip(starts, failed)]
    assert f"- lines {', '.join(lines)}, " in header, header


# Scripts that work without `--keep-going`, each of which sends a job with the value `found`.
WORKING = {
    "comprehension": "n = 3\ndef f():\n    print([n for n in range(5)])\n    return n\nfound = f()\n",
    "branches": "if 20 == 99:\n    found = 0\n" + "".join(f"elif 20 == {at}:\n    found = {at}\n" for at in range(25)),
    "nested": "found = 0\n" + "".join(f"{'    ' * at}for _ in range(1):\n" for at in range(12)) + "    " * 12 + "found += 1\n",
    "iterator": "class S:\n    def __getitem__(self, at):\n        return [1, 2][at]\nfound = sum(1 for _ in S())\n",
    "property": "class C:\n    @property\n    def lr(self):\n        return self.missing\nfound = getattr(C(), 'lr', 0.1)\n",
    "suppress": "import contextlib\nfound = 1\nwith contextlib.suppress(OSError):\n    load()\n    found = 2\n",
    "finally": "def f():\n    try:\n        load()\n        return 1\n    finally:\n        return 2\nfound = f()\n",
    "callers": "def inner():\n    load()\ndef outer():\n    inner()\ntry:\n    outer()\nexcept OSError:\n    found = 5\n",
    "pool": "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n    return load() or x\n"
    "with ThreadPoolExecutor(2) as pool:\n    all = [pool.submit(f, 1) for _ in range(2)]\n"
    "found = sum(1 for one in all if one.exception())\n",
    "cell_in_a_text": 'found = 1\ndef f():\n    """\n# In[1]:\n    """\n    global found\n    found = 2\nf()\n',
}


@pytest.mark.parametrize("case", WORKING)
def test_keep_going_changes_no_script_that_works(case, place):
    text = JOBS.split("rows = ")[0] + WORKING[case] + "send('job', {'found': found})\n"
    requests = []
    for at, arguments in enumerate(((), ("--keep-going",))):
        done = run_import(place, "job.py", "--request", f"{at}.json", *arguments, text=text)
        assert done.returncode == 0 and "skipped: " not in done.stderr, done.stderr
        requests.append(json.loads((place / f"{at}.json").read_text(encoding="utf-8")))
    assert requests[0] == requests[1]


@pytest.mark.parametrize(
    "compute",
    ["len(text)", "text.splitlines()", "text.upper()", "{'a': 1}.get(text, 2)", "f'{text:.3}'", "str(text) == 'x'", "text in {'a'}"],
)
def test_no_result_of_a_marked_value(compute, place):
    text = JOBS.split("rows = ")[0] + f"text = load()\nfound = {compute}\nsend('job', {{'found': found}})\n"
    done = run_import(place, "job.py", "--keep-going", "--request", "request.json", text=text)
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "request.json").read_text())["HyperParameters"] == {"found": "made-up-found"}


def test_output_of_a_program_that_is_not_run(place):
    """Its number of lines is not known."""
    text = JOBS.split("rows = ")[0] + "buckets = !aws s3 ls\nsend('job', {'first': buckets[0]})\n"
    done = run_import(place, "job.py", "--request", "request.json", text=text)
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "request.json").read_text())["HyperParameters"] == {"first": "made-up"}
    done = run_import(place, "job.py", text=text.replace("buckets[0]", "len(buckets)"))
    assert done.returncode == 3 and "ValueError: `made-up` was not set" in done.stderr, done.stderr


def test_a_failure_of_every_pass_ends_the_loop(place):
    text = JOBS.split("rows = ")[0] + "while True:\n    if load() == 'Completed':\n        break\nsend('job', {})\n"
    done = run_import(place, "job.py", "--keep-going", "--out", "job.kdl", text=text)
    assert done.returncode == 0, done.stderr
    # What the script handles itself is recorded once.
    handled = "rows = None\nif load():\n    rows = 1\nfor _ in range(9):\n    try:\n        count = len(rows)\n    except ValueError:\n        count = 5\n"
    done = run_import(place, "job.py", "--keep-going", text=JOBS.split("rows = ")[0] + handled + "send('job', {'count': count})\n")
    assert done.returncode == 0 and done.stderr.count("`made-up-rows` was not set at line 21") == 1, done.stderr


def test_programs_are_not_started(place):
    text = "import os, subprocess\nos.system('touch touched')\nsubprocess.run(['touch', 'touched'], check=True)\n"
    done = run_import(place, "job.py", text=text)
    assert done.returncode == 3
    assert "skipped: touch touched" in done.stderr
    assert not (place / "touched").exists()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_are_recorded(method, place):
    """Jobs that other processes start are recorded too."""
    text = "import multiprocessing\n\ndef job():\n    {body}\n\nif __name__ == '__main__':\n    context = multiprocessing.get_context('fork')\n    process = context.Process(target=job)\n    process.start()\n    process.join()\n"
    body = "exec(open('boto3_request.py').read(), {'__name__': '__main__'})"
    shutil.copy(HERE / "scripts/boto3_request.py", place)
    done = run_import(place, "job.py", text=text.replace("{body}", body).replace("'fork'", repr(method)))
    assert done.returncode == 0, done.stderr
    assert 'job "resnet"' in done.stdout


def test_the_errors_of_a_manifest_are_counted(place):
    """It is written; `check` rejects it."""
    text = (HERE / "scripts/boto3_request.py").read_text(encoding="utf-8")
    text = text.replace('"sagemaker_program": "train.py",', "").replace('"sagemaker_submit_directory"', '"directory"')
    done = run_import(place, "job.py", "--out", "a job.kdl", text=text)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("the manifest has 1 error: edit it, then `trainc check \"a job.kdl\"`\n"), done.stderr
    assert "differences:\n  the manifest has errors, so nothing is sent: T0253\n" in done.stderr
    assert trainc(place, "check", "a job.kdl").returncode != 0


def test_the_help_is_for_what_was_passed(place):
    (place / "job.py").write_text("")
    done = trainc(place, "import", "job.py", "--python", "./none")
    assert done.returncode == 2
    assert "`./none` does not start: no such file\nhelp: `--python` expects an executable" in done.stderr
    done = trainc(place, "import", "src")
    assert done.returncode == 3
    assert "`src` cannot be read: is a directory\nhelp: pass a file in it" in done.stderr


OTHER_FILES = {
    "main.tf": ('resource "aws_sagemaker_endpoint" "x" {\n}\n', "a Terraform configuration"),
    "job.xml": ("<a/>", "an XML document"),
    "job.ipynb": (json.dumps({"cells": [], "metadata": {}, "nbformat": 4}), "jupyter nbconvert --to script"),
    "job.sh": ("#!/bin/bash\naws sagemaker create-training-job --cli-input-json file://request.json\n", "a shell script"),
    "job": ("import boto3\n", "a name that ends in `.py`"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_are_named(name, place):
    text, said = OTHER_FILES[name]
    (place / name).write_text(text, encoding="utf-8")
    done = trainc(place, "import", name)
    assert done.returncode == 3
    assert said in " ".join(done.stderr.split()), done.stderr


REQUEST = """import boto3, botocore, hashlib, os, subprocess, uuid
def start(**more):
    request = dict(
        TrainingJobName="job-1",
        RoleArn="arn:aws:iam::111122223333:role/train",
        AlgorithmSpecification=dict(
            TrainingImage="111122223333.dkr.ecr.us-west-2.amazonaws.com/train:1",
            ContainerEntrypoint=["python", "/opt/train.py"],
            TrainingInputMode="File",
        ),
        OutputDataConfig=dict(S3OutputPath="s3://example-runs/out/"),
        StoppingCondition=dict(MaxRuntimeInSeconds=3600),
        ResourceConfig=dict(InstanceType="ml.g5.xlarge", InstanceCount=1, VolumeSizeInGB=100),
    )
    request.update(more)
    boto3.client("sagemaker").create_training_job(**request)
def channel(uri):
    source = dict(S3DataType="S3Prefix", S3Uri=uri)
    return dict(InputDataConfig=[dict(ChannelName="train", DataSource=dict(S3DataSource=source))])
account = boto3.client("sts").get_caller_identity()["Account"]
s3 = boto3.client("s3")
"""

# Honest scripts whose request depends on what only the account knows: what is named, and the script.
UNKNOWN = {
    "a_host_that_is_not_reached": (
        "connects to `tracking.internal`: trainc blocks it",
        "import socket\n"
        "try:\n    socket.create_connection(('tracking.internal', 443))\n    tracking = 'on'\n"
        "except OSError:\n    tracking = 'off'\n"
        "start(Environment={'TRACKING': tracking})\n",
    ),
    "subnets_of_a_tag": (
        "asks for `ec2 DescribeSubnets`: trainc answers with an empty list",
        "found = [one['SubnetId'] for one in boto3.client('ec2').describe_subnets()['Subnets']]\n"
        "start(**({'VpcConfig': {'Subnets': found, 'SecurityGroupIds': ['sg-0123456789abcdef0']}} if found else {}))\n",
    ),
    "a_key_of_the_bucket": (
        "asks for `s3 GetBucketEncryption`: trainc answers with an empty list",
        "rules = s3.get_bucket_encryption(Bucket='example-runs')['ServerSideEncryptionConfiguration']['Rules']\n"
        "keys = [one['ApplyServerSideEncryptionByDefault']['KMSMasterKeyID'] for one in rules]\n"
        "start(OutputDataConfig=dict(S3OutputPath='s3://example-runs/out/', **(dict(KmsKeyId=keys[0]) if keys else {})))\n",
    ),
    "an_alias": (
        "asks for `kms ListAliases`",
        "aliases = [one['AliasName'] for one in boto3.client('kms').list_aliases()['Aliases']]\n"
        "key = dict(KmsKeyId='alias/train') if 'alias/train' in aliases else {}\n"
        "start(OutputDataConfig=dict(S3OutputPath='s3://example-runs/out/', **key))\n",
    ),
    "a_channel_for_data_that_is_there": (
        "asks for `s3 ListObjectsV2`: trainc answers with an empty list",
        "pages = s3.get_paginator('list_objects_v2').paginate(Bucket='example-data', Prefix='train/')\n"
        "keys = [one['Key'] for page in pages for one in page.get('Contents', [])]\n"
        "start(**(channel('s3://example-data/train/') if keys else {}))\n",
    ),
    "resume_from_a_checkpoint": (
        "asks for `s3 HeadObject`: trainc answers that it does not exist",
        "more = {}\n"
        "try:\n    s3.head_object(Bucket='example-runs', Key='last.pt')\n    more['resume'] = 's3://example-runs/last.pt'\n"
        "except botocore.exceptions.ClientError as error:\n    assert error.response['Error']['Code'] == '404'\n"
        "start(HyperParameters={'epochs': '3', **more})\n",
    ),
    "settings_in_an_object": (
        "asks for `s3 GetObject`: trainc answers that it does not exist",
        "try:\n    rate = s3.get_object(Bucket='example-runs', Key='rate')['Body'].read().decode()\n"
        "except s3.exceptions.NoSuchKey:\n    rate = '0.1'\n"
        "start(HyperParameters={'rate': rate})\n",
    ),
    "a_count_of_images": (
        "asks for `ecr DescribeImages`",
        "images = boto3.client('ecr').describe_images(repositoryName='train')['imageDetails']\n"
        "start(HyperParameters={'version': str(len(images) + 1)})\n",
    ),
    "a_bucket_that_exists": (
        "asks for `s3 HeadBucket`: trainc answers that it exists",
        "try:\n    s3.head_bucket(Bucket='example-data-west')\n    where = 'west'\n"
        "except botocore.exceptions.ClientError:\n    where = 'east'\n"
        "start(**channel(f's3://example-data-{where}/'))\n",
    ),
    "a_waiter": (
        "waits for `ObjectExists`: trainc answers at once",
        "s3.get_waiter('object_exists').wait(Bucket='example-data', Key='ready')\nstart(**channel('s3://example-data/'))\n",
    ),
    "a_parameter_in_small_letters": (
        "asks for `ssm GetParameter`: trainc answers with made-up values",
        "team = boto3.client('ssm').get_parameter(Name='/ml/team')['Parameter']['Value'].lower().replace('-', '')\n"
        "start(OutputDataConfig=dict(S3OutputPath=f's3://{team}-models/out/'))\n",
    ),
    "a_job_of_somebody_else": (
        "asks for `sagemaker DescribeTrainingJob`: trainc answers with made-up values",
        "old = boto3.client('sagemaker').describe_training_job(TrainingJobName='other')\n"
        "start(StoppingCondition=dict(MaxRuntimeInSeconds=3600 * old['BillableTimeInSeconds']))\n",
    ),
    "a_model_of_another_name": (
        "asks for `sagemaker DescribeModel`",
        "client = boto3.client('sagemaker')\nclient.create_model(ModelName='a', ExecutionRoleArn='arn:aws:iam::111122223333:role/train')\n"
        "start(EnableNetworkIsolation=client.describe_model(ModelName='b')['EnableNetworkIsolation'])\n",
    ),
    "digits_of_the_account": (
        "computes with a part of the account ID",
        "start(OutputDataConfig=dict(S3OutputPath=f's3://ml-{account[-4:]}-artifacts/out/'))\n",
    ),
    "digits_of_an_arn": (
        "computes with a part of the account ID",
        "role = boto3.client('iam').get_role(RoleName='train')['Role']['Arn']\n"
        "start(OutputDataConfig=dict(S3OutputPath=f\"s3://ml-{role.split(':')[4][:6]}-artifacts/out/\"))\n",
    ),
    "a_number_of_the_account": (
        "computes with a part of the account ID",
        "start(HyperParameters={'seed': str(int(account) % 7)})\n",
    ),
    "a_stage_of_the_account": (
        "computes with a part of the account ID",
        "stage = {'111122223333': 'prod'}.get(account, 'dev')\nstart(HyperParameters={'stage': stage})\n",
    ),
    "a_digest_of_the_account": (
        "computes a digest of the account ID",
        "digest = hashlib.sha256(f'{account}-us-west-2'.encode()).hexdigest()[:8]\n"
        "start(OutputDataConfig=dict(S3OutputPath=f's3://ml-{digest}/out/'))\n",
    ),
    "a_digest_in_parts": (
        "computes a digest of the account ID",
        "digest = hashlib.new('md5')\ndigest.update(('%s' % account).encode())\n"
        "start(OutputDataConfig=dict(S3OutputPath=f's3://ml-{digest.hexdigest()[:8]}/out/'))\n",
    ),
    "an_identifier_of_the_account": (
        "computes a digest of the account ID",
        "name = uuid.uuid5(uuid.NAMESPACE_DNS, f'{account}.example.com')\n"
        "start(OutputDataConfig=dict(S3OutputPath=f's3://ml-{name}/out/'))\n",
    ),
    "the_output_of_a_program": (
        "reads the output of `make tag`: trainc does not run it",
        "tag = subprocess.check_output(['make', 'tag'], text=True).strip() or 'latest'\nstart(HyperParameters={'tag': tag})\n",
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_answer_that_only_the_account_knows_is_named(case, place):
    """The header does not claim the same request, and names the line."""
    what, script = UNKNOWN[case]
    done = run_import(place, "job.py", "--region", "us-west-2", "--out", "job.kdl", text=REQUEST + script)
    assert done.returncode == 0, done.stderr
    header = (place / "job.kdl").read_text(encoding="utf-8").split('job "', maxsplit=1)[0]
    assert "produces the same request" not in header, header
    assert f"// - line {{}} {what}".format(line_of(script, header)) in header, header
    assert "wrote job.kdl: a request that may differ" in done.stderr, done.stderr
    assert f" {what}" in done.stderr.split("wrote", maxsplit=1)[0], done.stderr
    shown = run_import(place, "job.py", "--region", "us-west-2", "-o", "json", text=REQUEST + script)
    document = json.loads(shown.stdout)
    assert document["same_request"] is False and any(what in line for line in document["unknown"]), document


def line_of(script, header):
    """Returns the line that the header names, which is one of the script's own after the shared part."""
    line = int(re.search(r"// - line (\d+) ", header)[1])
    first = REQUEST.count("\n") + 1
    assert first <= line < first + script.count("\n"), (line, first)
    return line


# What is known without the account.
KNOWN = {
    "the_account": "start(OutputDataConfig=dict(S3OutputPath=f's3://ml-{account}-us-west-2/out/'))\n",
    "the_account_of_an_arn": "arn = boto3.client('sts').get_caller_identity()['Arn']\n"
    "start(OutputDataConfig=dict(S3OutputPath='s3://ml-' + arn.split(':')[4] + '/out/'))\n",
    "a_role_by_name": "start(RoleArn=boto3.client('iam').get_role(RoleName='train')['Role']['Arn'])\n",
    "an_object_of_the_script": "s3.put_object(Bucket='example-runs', Key='rate', Body=b'0.1')\n"
    "s3.head_object(Bucket='example-runs', Key='rate')\n"
    "start(HyperParameters={'rate': s3.get_object(Bucket='example-runs', Key='rate')['Body'].read().decode()})\n",
    "a_bucket_of_the_script": "s3.create_bucket(Bucket='example-new')\ns3.head_bucket(Bucket='example-new')\n"
    "start(HyperParameters={'files': str(s3.list_objects_v2(Bucket='example-new')['KeyCount'])})\n",
    "a_model_of_the_script": "client = boto3.client('sagemaker')\n"
    "client.create_model(ModelName='a', ExecutionRoleArn='arn:aws:iam::111122223333:role/train')\n"
    "client.describe_model(ModelName='a')\nstart()\n",
    "a_question_after_the_request": "start()\nboto3.client('ec2').describe_subnets()\n",
    "a_digest_without_the_account": "start(HyperParameters={'digest': hashlib.sha256(b'a').hexdigest()})\n",
    "a_program_whose_output_is_not_read": "subprocess.run(['make', 'all'], check=True)\nstart()\n",
}


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_known_stays_the_same_request(case, place):
    done = run_import(place, "job.py", "--region", "us-west-2", "--out", "job.kdl", text=REQUEST + KNOWN[case])
    assert done.returncode == 0, done.stderr
    header = (place / "job.kdl").read_text(encoding="utf-8").split('job "', maxsplit=1)[0]
    assert ": produces the same request" in header, header


def test_a_shell_starts_what_a_script_may_start(place):
    """A program is allowed, or skipped, with a shell as without it."""
    for line in (
        "subprocess.run('mkdir -p made', shell=True, check=True)",
        "subprocess.run(['mkdir -p made'], shell=True, check=True)",
        "subprocess.run(['sh', '-c', 'mkdir -p made'], check=True)",
        "assert os.system('mkdir -p made') == 0",
        "os.popen('mkdir -p made').read()",
    ):
        done = run_import(place, "job.py", "--region", "us-west-2", text=f"{REQUEST}{line}\nassert os.path.isdir('made')\nstart()\n")
        assert done.returncode == 0, (line, done.stderr)
        (place / "made").rmdir()
    read = "assert 'job.py' in subprocess.check_output('ls *.py', shell=True, text=True)\nstart()\n"
    assert run_import(place, "job.py", "--region", "us-west-2", text=REQUEST + read).returncode == 0
    for line in (
        "subprocess.run('touch touched', shell=True)",
        "subprocess.run('ls\\ntouch touched', shell=True)",
        "subprocess.run('ls && touch touched', shell=True)",
        "subprocess.run('ls $(touch touched)', shell=True)",
        "subprocess.run(['sh', '-c', 'ls | touch touched'])",
        "subprocess.run(['bash', '-c', 'ls', 'touched', '-c', 'touch touched'])",
        "os.system('touch touched')",
    ):
        done = run_import(place, "job.py", "--region", "us-west-2", text=f"{REQUEST}{line}\nstart()\n")
        assert done.returncode == 0 and "skipped: " in done.stderr, (line, done.stderr)
        assert not (place / "touched").exists(), line


def test_no_credential_is_written(place):
    """A token in the environment of the script, and a password by its name."""
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    text = f"import os\nprint('with {token}')\n{REQUEST}" + (
        f"subprocess.run(['curl', '-H', 'Bearer {token}'], stdout=subprocess.PIPE)\n"
        f"start(Environment={{'HF_TOKEN': '{token}', 'DB_PASSWORD': 'geheim-7'}}, HyperParameters={{'token': '{token}'}})\n"
    )
    outputs = []
    for arguments in (("--out", "job.kdl", "--request", "job.json"), ("-o", "json"), ("-o", "markdown"), ()):
        done = run_import(place, "job.py", "--region", "us-west-2", *arguments, text=text)
        assert done.returncode == 0, done.stderr
        outputs += [done.stdout, done.stderr]
    manifest, request = ((place / name).read_text(encoding="utf-8") for name in ("job.kdl", "job.json"))
    failed = run_import(place, "job.py", text=f"{text}raise ValueError('{token}')\n")
    assert failed.returncode == 3 and "the script printed:" in failed.stderr, failed.stderr
    for shown in (*outputs, manifest, request, failed.stderr):
        assert token not in shown and "geheim-7" not in shown, shown
    for name in ("HF_TOKEN", "DB_PASSWORD", "TOKEN"):
        assert re.search(rf'// A credential, [^\n]*\n *secret "{name}" from="arn:aws:secretsmanager:[^"]*:secret:made-up-{name}"', manifest), manifest
        assert f'`secret "{name}"`' in manifest, manifest
    assert json.loads(request)["Environment"] == {"HF_TOKEN": "***", "DB_PASSWORD": "***"}
    assert "does not produce the same request" in manifest
    checked = trainc(place, "check", "job.kdl")
    assert checked.returncode == 3 and "T0760" in checked.stdout, checked.stdout
