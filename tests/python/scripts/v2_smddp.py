"""Data parallel library."""

from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    base_job_name="bert-smddp",
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::111122223333:role/training",
    framework_version="2.0.1",
    py_version="py310",
    instance_count=4,
    instance_type="ml.p4d.24xlarge",
    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
    debugger_hook_config=False,
)
estimator.fit("s3://example-bucket/squad")
