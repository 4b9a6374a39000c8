"""PyTorch FSDP under torchrun, with the role, the bucket and the session of the environment."""

import sagemaker
from sagemaker.inputs import TrainingInput
from sagemaker.pytorch import PyTorch

session = sagemaker.Session()
role = sagemaker.get_execution_role()
bucket = session.default_bucket()

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role=role,
    framework_version="2.3.0",
    py_version="py311",
    instance_type="ml.p4d.24xlarge",
    instance_count=2,
    volume_size=500,
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"epochs": 3, "lr": 1e-4, "model_name": "meta-llama/Llama-2-7b-hf", "bf16": True},
    environment={"NCCL_DEBUG": "INFO"},
    output_path=f"s3://{bucket}/llama/output",
    max_run=24 * 3600,
    disable_profiler=True,
    debugger_hook_config=False,
)
estimator.fit({"train": TrainingInput(f"s3://{bucket}/llama/train", input_mode="FastFile")})
print(estimator.model_data)
