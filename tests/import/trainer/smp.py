"""SageMaker model parallelism under torchrun."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import SMP, Torchrun

trainer = ModelTrainer(
    training_image="658645717510.dkr.ecr.us-west-2.amazonaws.com/smdistributed-modelparallel:2.4.1-gpu-py311-cu121",
    source_code=SourceCode(source_dir="scripts", entry_script="train.py"),
    base_job_name="llama-smp",
    compute=Compute(instance_type="ml.p5.48xlarge", instance_count=2),
    distributed=Torchrun(smp=SMP(hybrid_shard_degree=16, tensor_parallel_degree=1, sm_activation_offloading=True)),
    hyperparameters={"max_steps": 100, "train_batch_size": 2},
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://acme-data/llama/")], wait=False)
