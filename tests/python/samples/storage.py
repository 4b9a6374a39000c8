"""A job with a role, a file system, a secret and a member that the SDK lacks; placeholders as in offline output."""

# not supported by the SDK: StoppingCondition.MaxPendingTimeInSeconds
import pathlib

import boto3
import sagemaker
from sagemaker.inputs import FileSystemInput, TrainingInput
from sagemaker.pytorch import PyTorch

session = sagemaker.Session(boto3.Session(region_name="us-west-2"))
estimator = PyTorch(
    entry_point="train.py",
    source_dir=str(pathlib.Path(__file__).resolve().parent.parent / "source"),
    role="${role_arn}",
    framework_version="2.7.1",
    py_version="py312",
    instance_type="ml.p4d.24xlarge",
    instance_count=8,
    max_run=432000,
    use_spot_instances=True,
    max_wait=604800,
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"lr": 0.0003, "model": "huggyllama/llama-7b"},
    environment={"NCCL_DEBUG": "WARN"},
    metric_definitions=[{"Name": "train:loss", "Regex": "loss=([0-9.]+)"}],
    subnets=["subnet-0123456789abcdef0"],
    security_group_ids=["sg-0123456789abcdef0"],
    checkpoint_s3_uri="s3://example-runs/llama/checkpoints/",
    output_path="s3://example-runs/llama/output/",
    code_location="s3://sagemaker-us-west-2-${account}",
    disable_profiler=True,
    debugger_hook_config=False,
    tags={"team": "nlp"},
    sagemaker_session=session,
)
estimator.fit(
    {
        "train": FileSystemInput("${fsx.corpus.id}", "FSxLustre", "/${fsx.corpus.mount}/train", "ro"),
        "eval": TrainingInput("s3://example-corpus/eval/"),
    },
    wait=True,
    job_name="storage-0123abcd",
)
