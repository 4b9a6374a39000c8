"""A notebook that writes the arguments of TRL, uploads them for a channel, and deletes them; the script shards with FSDP."""

import os

from sagemaker.core.helper.session_helper import Session
from sagemaker.core.s3 import S3Uploader
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition
from sagemaker.train.distributed import Torchrun

session = Session()
bucket = session.default_bucket()
model_id = "mistralai/Mistral-7B-v0.1"
with open("args.yaml", "w") as file:
    file.write(f"""model_id: "{model_id}"
output_dir: /opt/ml/model
train_dataset_path: /opt/ml/input/data/train/
attn_implementation: flash_attention_2
bf16: true
learning_rate: 2e-5
num_train_epochs: 10
per_device_train_batch_size: 4
gradient_accumulation_steps: 4
gradient_checkpointing: true
max_seq_length: 2048
weight_decay: 0.01
warmup_steps: 50
save_steps: 100
fsdp: "full_shard auto_wrap"
""")
config = S3Uploader.upload(local_path="args.yaml", desired_s3_uri=f"s3://{bucket}/mistral/config")
os.remove("args.yaml")

name = f"train-{model_id.split('/')[-1].replace('.', '-')}-fsdp"
output = f"s3://{bucket}/{name}"
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="./scripts", requirements="requirements.txt", entry_script="train.py"),
    base_job_name=name,
    compute=Compute(instance_type="ml.p4de.24xlarge", instance_count=1, keep_alive_period_in_seconds=0),
    distributed=Torchrun(),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=18000),
    hyperparameters={"config": "/opt/ml/input/data/config/args.yaml"},
    output_data_config=OutputDataConfig(s3_output_path=output, compression_type="NONE"),
    checkpoint_config=CheckpointConfig(s3_uri=output + "/checkpoint", local_path="/opt/ml/checkpoints"),
)
channels = [
    InputData(channel_name="train", data_source=f"s3://{bucket}/mistral/train"),
    InputData(channel_name="config", data_source=config),
]
trainer.train(input_data_config=channels, wait=False)
