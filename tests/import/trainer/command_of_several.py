"""A command of two: nothing but a shell can start it."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode

trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="shell", command="source setup.sh && python launcher.py --config recipes/qwen3-4b.yaml"),
    base_job_name="nemo-rl",
    compute=Compute(instance_type="ml.g6e.12xlarge", instance_count=1),
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(wait=False)
