"""SDK v3: a command, spot instances, networking, and input of a local directory."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, Networking, OutputDataConfig, SourceCode, StoppingCondition, Tag

trainer = ModelTrainer(
    base_job_name="command",
    training_image="111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1",
    source_code=SourceCode(source_dir="src", command="python train.py --epochs 3"),
    compute=Compute(instance_type="ml.g5.2xlarge", instance_count=1, enable_managed_spot_training=True),
    networking=Networking(subnets=["subnet-0123456789abcdef0"], security_group_ids=["sg-0123456789abcdef0"]),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=3600, max_wait_time_in_seconds=7200),
    output_data_config=OutputDataConfig(s3_output_path="s3://example-bucket/out", kms_key_id="alias/runs"),
    tags=[Tag(key="team", value="vision")],
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(input_data_config=[InputData(channel_name="data", data_source="src")], wait=False)
