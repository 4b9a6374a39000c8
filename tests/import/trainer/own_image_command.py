"""An image of one's own, whose command is a shell script further down."""

import os

import boto3
from dotenv import load_dotenv
from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode

session = Session(boto3.session.Session(region_name="us-west-2"))
load_dotenv()
trainer = ModelTrainer(
    sagemaker_session=session,
    training_image="111122223333.dkr.ecr.us-west-2.amazonaws.com/verl:latest",
    source_code=SourceCode(source_dir="shell", command="bash ./jobs/grpo.sh"),
    base_job_name="verl-grpo-example",
    compute=Compute(instance_count=1, instance_type="ml.p5.48xlarge", volume_size_in_gb=96, keep_alive_period_in_seconds=3600),
    environment={"WANDB_API_KEY": os.getenv("WANDB_API_KEY"), "BASE_MODEL": "Qwen/Qwen2-7B"},
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://acme-data/grpo/")], wait=True)
