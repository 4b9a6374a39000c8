"""mpirun with options."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import MPI

trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.1.0-gpu-py310",
    source_code=SourceCode(source_dir="scripts", entry_script="train.py"),
    base_job_name="mpi-ddp",
    compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=2),
    distributed=MPI(mpi_additional_options=["-x", "NCCL_DEBUG=INFO"]),
    hyperparameters={"epochs": 3},
    role="arn:aws:iam::111122223333:role/training",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://acme-data/images/")], wait=False)
