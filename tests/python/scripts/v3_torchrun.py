"""SDK v3: ModelTrainer with Torchrun."""

from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, InputData, SourceCode, StoppingCondition
from sagemaker.train.distributed import Torchrun

session = Session()
trainer = ModelTrainer(
    sagemaker_session=session,
    base_job_name="llama-v3",
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu-py312",
    source_code=SourceCode(source_dir="src", entry_script="train.py"),
    distributed=Torchrun(process_count_per_node=8),
    compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=2, volume_size_in_gb=500),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=86400),
    checkpoint_config=CheckpointConfig(s3_uri="s3://example-bucket/llama/checkpoints"),
    hyperparameters={"epochs": 3, "lr": 1e-4},
    environment={"NCCL_DEBUG": "INFO"},
    role=get_execution_role(),
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source=f"s3://{session.default_bucket()}/train")])
