"""One GPU: a script without a launcher."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode

trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="scripts", requirements="requirements.txt", entry_script="train.py"),
    base_job_name="unsloth-gemma3-4b-it",
    compute=Compute(instance_count=1, instance_type="ml.g6e.2xlarge", volume_size_in_gb=96, keep_alive_period_in_seconds=3600),
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(wait=False)
