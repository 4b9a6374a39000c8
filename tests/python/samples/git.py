"""The job of bert-squad-smddp.json: the script comes from a tag of a git repository."""

import boto3
import sagemaker
from sagemaker.huggingface import HuggingFace

session = sagemaker.Session(boto3.Session(region_name="us-east-1"))
estimator = HuggingFace(
    entry_point="run_qa.py",
    source_dir="./examples/pytorch/question-answering",
    git_config={"repo": "https://github.com/huggingface/transformers.git", "branch": "v4.6.1"},
    role="arn:aws:iam::111122223333:role/sagemaker_execution_role",
    transformers_version="4.6",
    pytorch_version="1.7",
    py_version="py36",
    instance_type="ml.p3.16xlarge",
    instance_count=2,
    volume_size=200,
    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
    hyperparameters={
        "model_name_or_path": "bert-large-uncased-whole-word-masking",
        "dataset_name": "squad",
        "do_train": True,
        "do_eval": True,
        "fp16": True,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "num_train_epochs": 2,
        "max_seq_length": 384,
        "max_steps": 100,
        "pad_to_max_length": True,
        "doc_stride": 128,
        "output_dir": "/opt/ml/model",
    },
    output_path="s3://sagemaker-us-east-1-111122223333/",
    sagemaker_session=session,
)
estimator.fit(wait=False, job_name="bert-squad-smddp-1")
