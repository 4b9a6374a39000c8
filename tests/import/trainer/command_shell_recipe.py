"""A shell script with a recipe, as a command; the token is asked for."""

import os
from getpass import getpass

from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition

session = Session()
hf_token = getpass()
training_env = {"HF_TOKEN": hf_token, "NCCL_DEBUG": "INFO", "FI_PROVIDER": "efa"}
args = ["--config", "recipes/qwen3-4b.yaml"]
name = "Qwen--Qwen3-4B"
output = f"s3://{session.default_bucket()}/{name}"
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="./shell", command=f"bash run_sft.sh {' '.join(args)}"),
    base_job_name=f"{name}-finetune",
    compute=Compute(instance_type="ml.g5.2xlarge", instance_count=1, keep_alive_period_in_seconds=1800, volume_size_in_gb=450),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=18000),
    output_data_config=OutputDataConfig(s3_output_path=output),
    checkpoint_config=CheckpointConfig(s3_uri=os.path.join(output, "checkpoints"), local_path="/opt/ml/checkpoints"),
    role=get_execution_role(),
    environment=training_env,
)
trainer.train(input_data_config=[InputData(channel_name="training", data_source=f"{output}/data/")], wait=True)
