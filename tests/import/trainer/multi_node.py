"""Several hosts, a training plan's network, and spot instances."""

from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, InputData, Networking, SourceCode, StoppingCondition, Tag
from sagemaker.train.distributed import Torchrun

bucket = Session().default_bucket()
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="scripts", entry_script="train.py", requirements="requirements.txt"),
    base_job_name="llama-3-1-8b",
    compute=Compute(instance_type="ml.p5.48xlarge", instance_count=4, volume_size_in_gb=500, enable_managed_spot_training=True),
    networking=Networking(subnets=["subnet-0123456789abcdef0"], security_group_ids=["sg-0123456789abcdef0"]),
    distributed=Torchrun(),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=86400, max_wait_time_in_seconds=172800),
    checkpoint_config=CheckpointConfig(s3_uri=f"s3://{bucket}/llama/checkpoints"),
    hyperparameters={
        "model_name_or_path": "meta-llama/Llama-3.1-8B",
        "per_device_train_batch_size": 2,
        "num_train_epochs": 3,
        "max_seq_length": 4096,
        "bf16": True,
        "gradient_checkpointing": True,
        "fsdp": "full_shard auto_wrap",
    },
    environment={"FI_EFA_USE_DEVICE_RDMA": "1"},
    tags=[Tag(key="team", value="llm")],
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source=f"s3://{bucket}/llama/train")], wait=False)
