"""A recipe in the source, named by a hyperparameter."""

from sagemaker.train.model_trainer import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode, StoppingCondition
from sagemaker.train.distributed import Torchrun

trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="./scripts/", entry_script="train.py", requirements="requirements.txt"),
    base_job_name="qwen3-8b-lora",
    compute=Compute(instance_type="ml.p5.48xlarge", instance_count=1),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=36000),
    distributed=Torchrun(),
    hyperparameters={"config": "/opt/ml/input/data/code/recipes/qwen3-8b-lora.yaml"},
)
trainer.with_remote_debug_config(__import__("sagemaker.train.configs").train.configs.RemoteDebugConfig(enable_remote_debug=True))
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://acme-data/sft/train/")], wait=False)
