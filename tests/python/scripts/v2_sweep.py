"""Two jobs without waiting, then a wait for both."""

import time

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch

client = boto3.client("sagemaker")
names = []
for lr in (1e-4, 3e-4):
    estimator = PyTorch(
        entry_point="train.py",
        source_dir="src",
        base_job_name="sweep",
        role="arn:aws:iam::111122223333:role/training",
        framework_version="2.3.0",
        py_version="py311",
        instance_count=1,
        instance_type="ml.g5.2xlarge",
        hyperparameters={"lr": lr},
    )
    estimator.fit({"train": "s3://example-bucket/train"}, wait=False)
    names.append(estimator.latest_training_job.name)
for name in names:
    while client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "InProgress":
        time.sleep(60)
client.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName=names[0])
