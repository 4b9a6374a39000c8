"""Model parallel library v2 under torchrun, with data on FSx for Lustre in a VPC."""

import sagemaker
from sagemaker.inputs import FileSystemInput
from sagemaker.pytorch import PyTorch

train = FileSystemInput(
    file_system_id="fs-0123456789abcdef0",
    file_system_type="FSxLustre",
    directory_path="/abcdefgh/train",
    file_system_access_mode="ro",
)
estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::111122223333:role/training",
    framework_version="2.2.0",
    py_version="py310",
    instance_type="ml.p5.48xlarge",
    instance_count=4,
    keep_alive_period_in_seconds=1800,
    distribution={
        "torch_distributed": {"enabled": True},
        "smdistributed": {
            "modelparallel": {
                "enabled": True,
                "parameters": {"hybrid_shard_degree": 16, "tensor_parallel_degree": 2, "sm_activation_offloading": True},
            }
        },
    },
    subnets=["subnet-0123456789abcdef0"],
    security_group_ids=["sg-0123456789abcdef0"],
    checkpoint_s3_uri="s3://example-bucket/mixtral/checkpoints",
    checkpoint_local_path="/opt/ml/checkpoints",
    encrypt_inter_container_traffic=True,
    sagemaker_session=sagemaker.Session(),
)
estimator.fit({"train": train}, job_name="mixtral-8x7b-pretrain-01")
