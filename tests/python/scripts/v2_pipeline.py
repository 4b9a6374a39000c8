"""A pipeline whose step trains, with parameters."""

import sagemaker
from sagemaker.pytorch import PyTorch
from sagemaker.workflow.parameters import ParameterInteger, ParameterString
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import TrainingStep

session = PipelineSession()
role = sagemaker.get_execution_role()
nodes = ParameterInteger("Nodes", default_value=2)
data = ParameterString("Data", default_value="s3://example-bucket/train")
estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role=role,
    framework_version="2.3.0",
    py_version="py311",
    instance_count=nodes,
    instance_type="ml.g5.2xlarge",
    sagemaker_session=session,
)
step = TrainingStep(name="Train", step_args=estimator.fit({"train": data}))
pipeline = Pipeline(name="training", parameters=[nodes, data], steps=[step], sagemaker_session=session)
pipeline.upsert(role_arn=role)
pipeline.start()
