"""Hugging Face on spot instances, with checkpoints and metrics; a profile that this machine does not have."""

import boto3
import sagemaker
from sagemaker.huggingface import HuggingFace

session = sagemaker.Session(boto3.Session(profile_name="research", region_name="us-west-2"))

try:
    role = sagemaker.get_execution_role(session)
except ValueError:
    role = boto3.client("iam").get_role(RoleName="sagemaker_execution_role")["Role"]["Arn"]

estimator = HuggingFace(
    entry_point="run_glue.py",
    source_dir="./src",
    base_job_name="bert-glue",
    role=role,
    sagemaker_session=session,
    instance_type="ml.p3.2xlarge",
    instance_count=1,
    transformers_version="4.28.1",
    pytorch_version="2.0.0",
    py_version="py310",
    hyperparameters={"model_name_or_path": "bert-base-cased", "task_name": "mnli", "do_train": True},
    metric_definitions=[{"Name": "loss", "Regex": "'loss': ([0-9\\.]+)"}],
    use_spot_instances=True,
    max_run=3600,
    max_wait=7200,
    checkpoint_s3_uri="s3://example-bucket/bert/checkpoints",
    tags=[{"Key": "team", "Value": "nlp"}],
)
estimator.fit(wait=False)
