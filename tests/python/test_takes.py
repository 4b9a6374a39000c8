"""What `takes=` passes, parsed by the real classes: each value is the manifest's.

TRAINC_ENGINES_PYTHON names a Python with transformers (tests/engines/environment.py makes one), and TRL for its classes.
"""

import json
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = os.environ.get("TRAINC_ENGINES_PYTHON")
TRAINC = os.environ.get("TRAINC_BIN")
pytestmark = pytest.mark.skipif(
    not (PYTHON and TRAINC), reason="TRAINC_ENGINES_PYTHON names no Python with transformers"
)

SCRIPT = """
from transformers import HfArgumentParser, TrainingArguments
(arguments,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
"""

JOB = """
job "takes" {{
    region "us-east-1"
    account "111122223333"
    model "Qwen/Qwen2.5-0.5B"
    cluster "ml.p4d.24xlarge" nodes=1 {{
        max-run "1d"
    }}
    parallel engine="ddp" launcher="torchrun"
    train {{
        {train}
        dataset sequences=40_000
    }}
    program "train.py" source="./src" takes="TrainingArguments"
    image "huggingface" transformers="4.56.2" pytorch="2.8.0" python="py312"
    output s3="s3://example-runs/takes/"
    role arn="arn:aws:iam::111122223333:role/training"
}}
"""

# What the manifest writes, and what the class must have then; written by hand from the fields' documentation.
CASES = [
    (
        """precision "bf16"
        sequence-length 2048
        micro-batch 2
        accumulation 4
        activation-checkpointing #true
        optimizer "adamw" lr=2e-5 betas="0.9,0.95" eps=1e-6 weight-decay=0.1 clip=0.5 warmup="30 steps" schedule="cosine"
        epochs 2
        seed 7""",
        {
            "bf16": True,
            "fp16": False,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "gradient_checkpointing": True,
            "optim": "adamw_torch",
            "learning_rate": 2e-5,
            "adam_beta1": 0.9,
            "adam_beta2": 0.95,
            "adam_epsilon": 1e-6,
            "weight_decay": 0.1,
            "max_grad_norm": 0.5,
            "warmup_steps": 30,
            "lr_scheduler_type": "cosine",
            "num_train_epochs": 2.0,
            "seed": 7,
        },
    ),
    (
        """precision "fp16"
        sequence-length 1024
        micro-batch 4
        global-batch 64
        activation-checkpointing #false
        optimizer "adafactor" lr=1e-4 warmup=0.1 schedule="constant"
        steps 500
        compile #true""",
        {
            "bf16": False,
            "fp16": True,
            "gradient_checkpointing": False,
            "optim": "adafactor",
            "learning_rate": 1e-4,
            "warmup_ratio": 0.1,
            "lr_scheduler_type": "constant_with_warmup",
            "max_steps": 500,
            "torch_compile": True,
        },
    ),
    (
        """precision "fp32"
        sequence-length 512
        micro-batch 1
        optimizer "paged-adamw-8bit" lr=1e-4
        tokens 40_960_000""",
        {
            "bf16": False,
            "fp16": False,
            "per_device_train_batch_size": 1,
            "optim": "paged_adamw_8bit",
            "learning_rate": 1e-4,
            "max_steps": 10_000,
        },
    ),
]


@pytest.fixture(scope="module")
def version():
    """Returns the version of transformers that is asked."""
    command = [PYTHON, "-c", "import transformers; print(transformers.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.strip()


@pytest.mark.parametrize(("train", "expected"), CASES)
def test_the_class_reads_the_manifests_values(tmp_path, version, train, expected):
    if tuple(map(int, version.split(".")[:2])) >= (5, 15) and "warmup_ratio" in expected:
        # The option was removed: `warmup_steps` below 1 is a fraction.
        expected = expected | {"warmup_steps": expected["warmup_ratio"]}
        del expected["warmup_ratio"]
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(SCRIPT)
    (tmp_path / "src/requirements.txt").write_text(f"transformers=={version}\n")
    (tmp_path / "job.kdl").write_text(JOB.format(train=train))
    command = [TRAINC, "emit", "--quiet", str(tmp_path / "job.kdl"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    request = json.loads(next((tmp_path / "out").rglob("training-job.json")).read_text())
    passed = {name: text for name, text in request["HyperParameters"].items() if not name.startswith("sagemaker_")}
    asker = HERE / "parsed_arguments.py"
    command = [PYTHON, asker, "transformers:TrainingArguments"]
    asked = subprocess.run(command, input=json.dumps(passed), capture_output=True, text=True, check=False, timeout=300)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    assert {name: found[name] for name in expected} == expected
    plan = json.loads(next((tmp_path / "out").rglob("plan.json")).read_text())
    batch = plan["batch"]
    assert found["per_device_train_batch_size"] == batch["micro"]
    assert found["gradient_accumulation_steps"] == batch["accumulation"]
    # Nothing is passed that the manifest does not write.
    assert set(passed) <= set(expected) | {"per_device_train_batch_size", "gradient_accumulation_steps", "warmup_steps"}
