"""boto3 alone, with arguments."""

import argparse
import time

import boto3

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--region", default="eu-west-1")
args = parser.parse_args()

sagemaker = boto3.client("sagemaker", region_name=args.region)
name = f"resnet-{time.strftime('%Y-%m-%d-%H-%M-%S-000')}"
sagemaker.create_training_job(
    TrainingJobName=name,
    AlgorithmSpecification={
        "TrainingImage": f"763104351884.dkr.ecr.{args.region}.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
        "TrainingInputMode": "FastFile",
        "EnableSageMakerMetricsTimeSeries": True,
    },
    RoleArn="arn:aws:iam::111122223333:role/training",
    InputDataConfig=[
        {
            "ChannelName": "train",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": "s3://example-bucket/imagenet/",
                    "S3DataDistributionType": "ShardedByS3Key",
                }
            },
        }
    ],
    OutputDataConfig={"S3OutputPath": "s3://example-bucket/out/"},
    ResourceConfig={"InstanceType": "ml.g5.12xlarge", "InstanceCount": 2, "VolumeSizeInGB": 200},
    StoppingCondition={"MaxRuntimeInSeconds": 86400},
    HyperParameters={
        "epochs": str(args.epochs),
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": "s3://example-bucket/code/sourcedir.tar.gz",
    },
    EnableManagedSpotTraining=False,
)
while True:
    status = sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
    if status in ("Completed", "Failed", "Stopped"):
        break
    time.sleep(60)
