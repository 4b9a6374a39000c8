"""torchrun as a command, with options of its own and a flag."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode

command = """torchrun --nnodes=$SM_HOST_COUNT --nproc_per_node=8 --node_rank=$SM_CURRENT_HOST_RANK
    --master_addr=$SM_MASTER_ADDR --master_port=$SM_MASTER_PORT
    train.py --model_name_or_path Qwen/Qwen3-0.6B --per_device_train_batch_size 1 --bf16 true --max_steps 1000 --max_length 2048 --packing"""
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="scripts", requirements="requirements.txt", command=command),
    base_job_name="dpo",
    compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=2),
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://acme-data/dpo/")], wait=False)
