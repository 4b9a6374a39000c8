"""Tests of the tests: they pass on a correct artefact tree and find every planted mistake."""

import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from artefacts import PlaceholderError, fill, fill_json
from normalise import differences, show
from sdk_capture import capture
from validate import problems

HERE = pathlib.Path(__file__).parent
SAMPLES = HERE / "samples"
GOLDEN = HERE.parent / "golden-requests"


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["request"]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")


def good(root):
    """Creates an emitted directory: the captured requests as eight jobs, and two written by hand."""
    for file in sorted(GOLDEN.glob("*.json")):
        case = json.loads(file.read_text(encoding="utf-8"))
        if "manifest" in case:
            request = {**case["request"], "TrainingJobName": file.stem, "Tags": [{"Key": "trainc:job", "Value": "x"}]}
            write(root / file.stem / "sagemaker/training-job.json", request)
    bert = (SAMPLES / "git.py").read_text(encoding="utf-8")
    write(root / "bert-squad-smddp/sagemaker/estimator.py", bert)
    plain = root / "plain"
    write(plain / "sagemaker/training-job.json", {**golden("x-pt-mpi-plain"), "TrainingJobName": "case-1"})
    shutil.copy(SAMPLES / "plain.py", plain / "sagemaker/estimator.py")
    shutil.copytree(SAMPLES / "scripts", plain / "source")
    storage = root / "nested/storage"
    write(storage / "sagemaker/training-job.json", (SAMPLES / "storage.json").read_text(encoding="utf-8"))
    shutil.copy(SAMPLES / "storage.py", storage / "sagemaker/estimator.py")
    shutil.copytree(SAMPLES / "scripts", storage / "source")
    write(storage / "iam/policy.json", (SAMPLES / "storage-policy.json").read_text(encoding="utf-8"))
    arn = "arn:aws:sagemaker:us-west-2:${account}:training-job/storage-*"
    statement = {
        "Sid": "SageMakerTraining",
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": "${account}"}, "ArnLike": {"aws:SourceArn": arn}},
    }
    trust = {"Version": "2012-10-17", "Statement": [statement]}
    write(storage / "iam/trust-policy.json", trust)
    role = {
        "RoleName": "trainc-storage-01234567",
        "Path": "/trainc/",
        "AssumeRolePolicyDocument": json.dumps(trust),
        "Tags": [{"Key": "trainc:job", "Value": "storage"}],
    }
    write(storage / "iam/create-role.json", role)
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250}
    system = {
        "ClientRequestToken": "storage-0123abcd",
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 4800,
        "SubnetIds": ["subnet-0123456789abcdef0"],
        "LustreConfiguration": lustre,
    }
    write(storage / "fsx/corpus.json", system)
    link = {"FileSystemId": "${fsx.corpus.id}", "FileSystemPath": "/", "DataRepositoryPath": "s3://example-corpus/t/"}
    write(storage / "fsx/corpus.associations.json", [link])
    return root


def run(root, *files):
    """Runs the tests on the directory; returns {test ID: passed} and the output."""
    env = {**os.environ, "TRAINC_EMITTED": str(root)}
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "-v", "--tb=short", *files]
    done = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    found = re.findall(r"^(\S+?\.py::\S+) (PASSED|FAILED|ERROR|SKIPPED)", done.stdout, re.MULTILINE)
    return {name: outcome == "PASSED" for name, outcome in found}, text


SUITE = ["test_requests.py", "test_estimators.py", "test_golden.py", "test_policies.py", "test_iam_decisions.py"]

# Only these may fail for the correct tree, which has the script of only one golden git job.
NO_SCRIPT = re.compile(r"test_there_is_a_script\[|test_git_as_captured\[roberta-mnli-pipeline\]")


@pytest.fixture(scope="module")
def good_run(tmp_path_factory):
    return run(good(tmp_path_factory.mktemp("good")), *SUITE)


@pytest.fixture(scope="module")
def bad_run(tmp_path_factory):
    """Runs the tests on the correct tree with planted mistakes."""
    root = good(tmp_path_factory.mktemp("bad"))

    def edit(path, change):
        value = json.loads((root / path).read_text(encoding="utf-8"))
        change(value)
        write(root / path, value)

    storage = "nested/storage"
    edit("plain/sagemaker/training-job.json", lambda r: r.update(TrainingJobName="under_score"))
    edit("plain/sagemaker/training-job.json", lambda r: r["ResourceConfig"].update(InstanceCount=4))
    script = root / "plain/sagemaker/estimator.py"
    write(script, script.read_text(encoding="utf-8").replace('/ "source"', '/ "other"'))
    shutil.copytree(SAMPLES / "scripts", root / "plain/other")
    write(root / "plain/other/extra.py", "")
    edit("neox-20b-fsdp/sagemaker/training-job.json", lambda r: r.update(Environment={"A": "${home}"}))
    edit(f"{storage}/fsx/corpus.json", lambda r: r.update(StorageCapacity="4800"))
    edit(f"{storage}/iam/create-role.json", lambda r: r.update(Path="trainc"))
    edit("gpt2-30b-sharded/sagemaker/training-job.json", lambda r: r["HyperParameters"].update(max_steps='"100"'))
    edit(f"{storage}/iam/trust-policy.json", lambda p: p["Statement"][0].pop("Condition"))

    def break_policy(policy):
        statements = {s["Sid"]: s for s in policy["Statement"]}
        statements["StorageRead"]["Action"] = "fsx:DescribeFileSystem"
        statements["ImagePull"]["Resource"] = "arn:aws:s3:::x"
        statements["ImageToken"]["Sid"] = "Metrics"
        statements["LogStreams"]["Resource"] = "arn:aws:logs:us-west-2:${account}:log-group:*:log-stream:*"

    edit(f"{storage}/iam/policy.json", break_policy)
    return run(root, *SUITE)


def test_good_tree_passes(good_run):
    results, text = good_run
    assert len(results) > 50, text
    failed = [name for name, passed in results.items() if not passed and not NO_SCRIPT.search(name)]
    assert not failed, text
    assert "nested/storage: StoppingCondition.MaxPendingTimeInSeconds" in text, "what is unsayable must be listed"


@pytest.mark.parametrize(
    "test",
    [
        "test_requests.py::test_training_job[plain]",
        "test_requests.py::test_training_job[neox-20b-fsdp]",
        "test_requests.py::test_create_role[nested/storage]",
        "test_requests.py::test_file_systems[nested/storage]",
        "test_estimators.py::test_same_request[plain]",
        "test_estimators.py::test_same_source[plain]",
        "test_golden.py::test_request_as_captured[gpt2-30b-sharded]",
        "test_policies.py::test_parliament[nested/storage]",
        "test_policies.py::test_cfn_lint[nested/storage]",
        "test_policies.py::test_trust_policy[nested/storage]",
        "test_policies.py::test_size_and_sids[nested/storage]",
        "test_iam_decisions.py::test_decisions[nested/storage]",
    ],
)
def test_planted_mistake_is_found(bad_run, good_run, test):
    assert good_run[0].get(test) is True, good_run[1]
    assert bad_run[0].get(test) is False, bad_run[1]


def test_a_mistake_stays_where_it_is(bad_run):
    assert bad_run[0]["test_requests.py::test_training_job[bert-squad-smddp]"]
    assert bad_run[0]["test_golden.py::test_request_as_captured[bert-squad-smddp]"]


def test_nothing_emitted_is_an_error(tmp_path):
    results, text = run(tmp_path, *SUITE)
    assert not results and "nothing to test" in text, text
    results, text = run(tmp_path / "missing", SUITE[0])
    assert not results and "is no directory" in text, text


def test_capture_is_the_captured_request():
    """A script produces exactly the captured request, also in a run of two scripts."""
    script = (SAMPLES / "plain.py").read_text(encoding="utf-8")
    script = script.replace("case-1", "case-2026-01-01-00-00-00-000")
    source = script.replace('parent.parent / "source"', 'parent / "scripts"')
    first, second = capture([(SAMPLES / "plain.py", source)] * 2)
    assert first.request == golden("x-pt-mpi-plain")
    assert second.request == first.request
    assert first.uploads[0]["members"] == ["train.py"]


def test_capture_refuses_the_network(tmp_path):
    script = "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 443))\nexcept OSError:\n    pass\n"
    write(tmp_path / "quiet.py", script)
    write(tmp_path / "process.py", "import subprocess\nsubprocess.run(['/bin/true'])\n")
    write(tmp_path / "broken.py", "raise ValueError('planted')\n")
    network, process, broken = capture([tmp_path / "quiet.py", tmp_path / "process.py", tmp_path / "broken.py"])
    for one, word in ((network, "network"), (process, "other programs"), (broken, "planted")):
        with pytest.raises(AssertionError, match=word):
            _ = one.request


def test_normalise_forgives_the_documented():
    ours = golden("gptj-6b-tensor")
    theirs = copy.deepcopy(ours)
    theirs["TrainingJobName"] = "another"
    theirs["RoleArn"] = "arn:aws:iam::111122223333:role/another"
    theirs["Tags"] = [{"Key": "trainc:job", "Value": "gptj"}]
    theirs["EnableManagedSpotTraining"] = False
    theirs["InputDataConfig"].reverse()
    theirs["HyperParameters"]["lr"] = "2e-4"
    parameters = json.loads(ours["HyperParameters"]["mp_parameters"])
    parameters.update(pipeline="interleaved", microbatches=1, placement_strategy="DPT", active_microbatches=3)
    theirs["HyperParameters"]["mp_parameters"] = json.dumps(dict(sorted(parameters.items())))
    found = differences(ours, theirs)
    assert not found, show(found)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("HyperParameters.seed", lambda r: r["HyperParameters"].update(seed="12345.0")),
        ("HyperParameters.seed", lambda r: r["HyperParameters"].update(seed='"12345"')),
        ("HyperParameters.fp16", lambda r: r["HyperParameters"].update(fp16="true")),
        ("HyperParameters.extra", lambda r: r["HyperParameters"].update(extra="1")),
        ("HyperParameters.sagemaker_job_name", lambda r: r["HyperParameters"].pop("sagemaker_job_name")),
        ("HyperParameters.mp_parameters.partitions", lambda r: parameters(r, partitions=2)),
        ("HyperParameters.mp_parameters.pipeline", lambda r: parameters(r, pipeline="simple")),
        ("HyperParameters.mp_parameters.bf16", lambda r: parameters(r, bf16=True)),
        ("StoppingCondition.MaxRuntimeInSeconds", lambda r: r["StoppingCondition"].update(MaxRuntimeInSeconds=1)),
        ("InputDataConfig.train.DataSource.S3DataSource.S3Uri", lambda r: channel(r, S3Uri="s3://b/x")),
        ("Tags", lambda r: r.update(Tags=[{"Key": "team", "Value": "nlp"}])),
        ("ProfilerConfig.DisableProfiler", lambda r: r.update(ProfilerConfig={})),
        ("RoleArn", lambda r: r.pop("RoleArn")),
        ("DebugHookConfig", lambda r: r.update(DebugHookConfig={"S3OutputPath": "s3://b"})),
        ("CheckpointConfig.LocalPath", lambda r: r["CheckpointConfig"].update(LocalPath="/x")),
    ],
)
def test_normalise_finds(path, change):
    ours = golden("gptj-6b-tensor")
    theirs = copy.deepcopy(ours)
    change(theirs)
    places = [place for place, _, _ in differences(ours, theirs)]
    assert path in places, places


def parameters(request, **changes):
    values = json.loads(request["HyperParameters"]["mp_parameters"])
    request["HyperParameters"]["mp_parameters"] = json.dumps({**values, **changes})


def channel(request, **changes):
    request["InputDataConfig"][0]["DataSource"]["S3DataSource"].update(changes)


@pytest.mark.parametrize("name", sorted(p.stem for p in GOLDEN.glob("*.json") if p.stem != "refused"))
def test_validator_accepts_what_the_sdk_sent(name):
    assert not problems("sagemaker", "CreateTrainingJob", golden(name))


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("does not match", lambda r: r.update(TrainingJobName="under_score")),
        ("does not match", lambda r: r.update(TrainingJobName="two\nlines")),
        ("does not match", lambda r: r["HyperParameters"].update(a="two\nlines")),
        ("does not match", lambda r: r.update(Environment={"1A": "x"})),
        ("is not one of", lambda r: r["ResourceConfig"].update(InstanceType="ml.p9.huge")),
        ("2501 characters, at most 2500", lambda r: r["HyperParameters"].update(a="x" * 2501)),
        ("entries, at most 100", lambda r: r.update(HyperParameters={str(i): "" for i in range(101)})),
        ("is outside", lambda r: r["ResourceConfig"].update(KeepAlivePeriodInSeconds=30000)),
        ("Unknown parameter", lambda r: r.update(Colour="red")),
        ("Missing required", lambda r: r.pop("RoleArn")),
        ("Invalid type", lambda r: r["ResourceConfig"].update(InstanceCount="2")),
        ("stands twice", lambda r: r.update(Tags=[{"Key": "a", "Value": ""}, {"Key": "a", "Value": ""}])),
    ],
)
def test_validator_refuses(word, change):
    request = golden("x-pt-mpi-plain")
    change(request)
    found = problems("sagemaker", "CreateTrainingJob", request)
    assert any(word in line for line in found), found


def test_placeholders():
    assert fill("s3://b-${account}/x") == "s3://b-111122223333/x"
    assert fill_json({"a": ["/${fsx.one.mount}"]}) != fill_json({"a": ["/${fsx.two.mount}"]})
    for text in ("${HOME}", "${fsx.a.name}", "${", "${aws:username}"):
        with pytest.raises(PlaceholderError):
            fill(text)
