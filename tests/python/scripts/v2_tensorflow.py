"""TensorFlow with Horovod over MPI."""

import sagemaker
from sagemaker.tensorflow import TensorFlow

estimator = TensorFlow(
    entry_point="train.py",
    source_dir="src",
    role=sagemaker.get_execution_role(),
    framework_version="2.13.0",
    py_version="py310",
    instance_count=2,
    instance_type="ml.p3.16xlarge",
    distribution={"mpi": {"enabled": True, "processes_per_host": 8}},
    hyperparameters={"batch-size": 256, "model_dir": "/opt/ml/model"},
    model_dir=False,
)
estimator.fit({"training": "s3://example-bucket/imagenet"})
