"""The MPI job of x-pt-mpi-plain.json."""

import pathlib

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch

session = sagemaker.Session(boto3.Session(region_name="us-east-1"))
estimator = PyTorch(
    entry_point="train.py",
    source_dir=str(pathlib.Path(__file__).resolve().parent.parent / "source"),
    role="arn:aws:iam::111122223333:role/sagemaker_execution_role",
    framework_version="2.0.1",
    py_version="py310",
    instance_type="ml.p4d.24xlarge",
    instance_count=2,
    distribution={"mpi": {"enabled": True}},
    output_path="s3://sagemaker-us-east-1-111122223333/",
    sagemaker_session=session,
)
estimator.fit(wait=False, job_name="case-1")
