"""accelerate launch as a command, and tokens of this machine."""

import os

from huggingface_hub import HfFolder
from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, SourceCode

session = Session()
environment = {"HF_TOKEN": HfFolder.get_token(), "WANDB_API_KEY": os.environ.get("WANDB_API_KEY")}
trainer = ModelTrainer(
    sagemaker_session=session,
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(
        source_dir="scripts/",
        requirements="requirements.txt",
        command="accelerate launch --config_file /opt/ml/input/data/code/fsdp.yaml /opt/ml/input/data/code/train.py \
            --model_name_or_path Qwen/Qwen3-4B \
            --per_device_train_batch_size 2 --max_length 2048 --max_steps 200 \
            --output_dir /opt/ml/model",
    ),
    base_job_name="grpo-trl",
    compute=Compute(instance_count=1, instance_type="ml.p5.48xlarge", keep_alive_period_in_seconds=3600),
    environment=environment,
    checkpoint_config=CheckpointConfig(s3_uri=f"s3://{session.default_bucket()}/grpo-trl/checkpoints/"),
)
trainer.train(wait=False)
