"""The built-in XGBoost algorithm, after an upload of the training data, and a deployment."""

import pathlib
import tempfile

import sagemaker
from sagemaker import image_uris
from sagemaker.inputs import TrainingInput

session = sagemaker.Session()
bucket = session.default_bucket()
with tempfile.TemporaryDirectory() as directory:
    table = pathlib.Path(directory) / "train.csv"
    table.write_text("1,0.5\n0,0.25\n")
    uploaded = session.upload_data(str(table), bucket=bucket, key_prefix="xgboost/train")

estimator = sagemaker.estimator.Estimator(
    image_uri=image_uris.retrieve("xgboost", session.boto_region_name, "1.7-1"),
    role=sagemaker.get_execution_role(),
    instance_count=1,
    instance_type="ml.m5.2xlarge",
    volume_size=5,
    output_path=f"s3://{bucket}/xgboost/output",
    sagemaker_session=session,
)
estimator.set_hyperparameters(max_depth=5, eta=0.2, objective="binary:logistic", num_round=100)
estimator.fit({"train": TrainingInput(uploaded, content_type="text/csv")})
predictor = estimator.deploy(initial_instance_count=1, instance_type="ml.m5.large")
