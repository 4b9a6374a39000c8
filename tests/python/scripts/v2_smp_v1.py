"""Model parallel library v1 over MPI: pipeline and tensor parallelism of a GPT-J."""

import sagemaker
from sagemaker.pytorch import PyTorch

smp_options = {
    "enabled": True,
    "parameters": {
        "microbatches": 4,
        "pipeline_parallel_degree": 2,
        "tensor_parallel_degree": 4,
        "ddp": True,
        "optimize": "speed",
        "placement_strategy": "cluster",
    },
}
mpi_options = {"enabled": True, "processes_per_host": 8, "custom_mpi_options": "--mca btl_vader_single_copy_mechanism none"}

estimator = PyTorch(
    entry_point="train_gpt.py",
    source_dir="src",
    role="arn:aws:iam::111122223333:role/service-role/AmazonSageMaker-ExecutionRole",
    framework_version="1.13.1",
    py_version="py39",
    instance_type="ml.p4d.24xlarge",
    instance_count=2,
    distribution={"smdistributed": {"modelparallel": smp_options}, "mpi": mpi_options},
    hyperparameters={"max_steps": 100, "seed": 12345, "fp16": 1},
    output_path="s3://example-bucket/gptj",
    sagemaker_session=sagemaker.Session(),
)
estimator.fit({"train": "s3://example-bucket/openwebtext", "test": "s3://example-bucket/openwebtext-test"}, logs=False)
