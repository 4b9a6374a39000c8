"""A shell script as the entry script, and variables that are not set."""

import os

from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, SourceCode, StoppingCondition

environment = {
    "HF_TOKEN": os.environ["HF_TOKEN"],
    "WANDB_API_KEY": os.environ["WANDB_API_KEY"],
    "RUN_NAME": "flux",
}
session = Session()
trainer = ModelTrainer(
    sagemaker_session=session,
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="shell/", entry_script="train.sh"),
    base_job_name="flux-fine-tune",
    compute=Compute(instance_count=1, instance_type="ml.p4de.24xlarge", keep_alive_period_in_seconds=3600),
    environment=environment,
    stopping_condition=StoppingCondition(max_runtime_in_seconds=18000),
    checkpoint_config=CheckpointConfig(s3_uri=f"s3://{session.default_bucket()}/flux-fine-tune/checkpoints/"),
)
trainer.train(wait=False)
