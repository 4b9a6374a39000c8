"""An image of the account's registry, after the usual shell commands that build and push it."""

import subprocess

import boto3
import sagemaker

account = boto3.client("sts").get_caller_identity()["Account"]
region = boto3.Session().region_name
image = f"{account}.dkr.ecr.{region}.amazonaws.com/own-training:latest"
subprocess.run(f"aws ecr get-login-password --region {region} | docker login --password-stdin", shell=True, check=True)
subprocess.check_call(["docker", "push", image])

estimator = sagemaker.estimator.Estimator(
    image,
    "arn:aws:iam::111122223333:role/training",
    1,
    "ml.g5.2xlarge",
    hyperparameters={"epochs": 10, "lr": 0.1},
    container_entry_point=["python3", "/opt/program/train.py"],
    container_arguments=["--verbose"],
    max_run=7200,
)
estimator.fit({"train": "s3://example-bucket/train"})
