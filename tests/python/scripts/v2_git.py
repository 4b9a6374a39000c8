"""The source from a repository."""

from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="train.py",
    source_dir="examples/imagenet",
    git_config={"repo": "https://github.com/example/training.git", "branch": "main"},
    role="arn:aws:iam::111122223333:role/training",
    framework_version="2.1.0",
    py_version="py310",
    instance_count=1,
    instance_type="ml.g5.12xlarge",
)
estimator.fit({"train": "s3://example-bucket/imagenet"})
