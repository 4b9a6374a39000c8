"""Arguments as hyperparameters; the script shards nothing."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import Torchrun

trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="scripts", entry_script="train.py", requirements="requirements.txt"),
    base_job_name="qwen3-06b-sft",
    compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2, volume_size_in_gb=200),
    distributed=Torchrun(process_count_per_node=4),
    hyperparameters={
        "model_id": "Qwen/Qwen3-0.6B",
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_length": 1024,
        "max_steps": 500,
        "learning_rate": 2e-4,
        "bf16": True,
        "dataset": "/opt/ml/input/data/train",
    },
    environment={"NCCL_DEBUG": "WARN"},
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://acme-data/sft/train/")], wait=False)
