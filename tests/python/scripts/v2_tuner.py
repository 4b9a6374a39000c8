"""A tuning job: the parameters that are not tuned become a job."""

import sagemaker
from sagemaker.pytorch import PyTorch
from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role=sagemaker.get_execution_role(),
    framework_version="2.3.0",
    py_version="py311",
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    hyperparameters={"epochs": 3},
)
tuner = HyperparameterTuner(
    estimator,
    "loss",
    {"lr": ContinuousParameter(1e-5, 1e-3)},
    metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    max_jobs=4,
    max_parallel_jobs=2,
    objective_type="Minimize",
)
tuner.fit({"train": "s3://example-bucket/train"})
