"""A launcher of one's own with the arguments in a channel of local files."""

import os

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode

args = ["--entrypoint", "train.py", "--config", "/opt/ml/input/data/config/qwen3-4b.yaml"]
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="./shell", requirements="requirements.txt", command=f"python launcher.py {' '.join(args)}"),
    base_job_name="gemma-deepspeed",
    compute=Compute(instance_type="ml.g6.12xlarge", instance_count=1),
    role="arn:aws:iam::111122223333:role/training",
)
config = InputData(channel_name="config", data_source=os.path.join("shell", "recipes", "qwen3-4b.yaml"))
trainer.train(input_data_config=[config, InputData(channel_name="train", data_source="s3://acme-data/gemma/")], wait=False)
