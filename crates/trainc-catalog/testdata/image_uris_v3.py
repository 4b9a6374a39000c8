"""Writes image_uris_v3.json: images that only version 3 of the SageMaker Python SDK lists; rows as in image_uris.py.

    python3 -m venv v && v/bin/pip install sagemaker-core==2.27.0 && v/bin/python image_uris_v3.py > image_uris_v3.json
"""
import json, logging, sys
logging.disable(logging.CRITICAL)
from sagemaker.core import image_uris

rows = []
def add(name, pytorch, transformers, python, region, instance):
    try:
        if transformers:
            answer = image_uris.get_training_image_uri(region, "huggingface", framework_version=transformers, py_version=python,
                                                       pytorch_version=pytorch, instance_type=instance)
        else:
            answer = image_uris.retrieve(name, region, version=pytorch, py_version=python, instance_type=instance, image_scope="training")
    except ValueError as error:
        answer = "!RegionWithoutImage" if "Unsupported region" in str(error) else "!" + str(error)
    rows.append(["huggingface" if transformers else "pytorch", pytorch, transformers, python, region, instance, False, answer])

for name, versions in [("pytorch", ["2.9", "2.9.0", "2.10", "2.10.0"]), ("pytorch-amzn2023", ["2.11", "2.12", "2.13", "2.14", "latest"])]:
    for version in versions:
        for region in ["us-west-2", "cn-north-1", "us-gov-east-1"]:
            for instance in ["ml.p5.48xlarge", "ml.m5.xlarge"]:
                add(name, version, None, None, region, instance)
for region in sorted(image_uris.config_for_framework("pytorch-amzn2023")["training"]["versions"]["2.13"]["registries"]):
    for name, version in [("pytorch", "2.9.0"), ("pytorch-amzn2023", "2.13"), ("pytorch-amzn2023", "2.14")]:
        add(name, version, None, None, region, "ml.p5.48xlarge")
for region in ["us-west-2", "eu-west-1", "cn-north-1", "mx-central-1"]:
    add("huggingface", "2.9.0", "5.3.0", "py312", region, "ml.p5.48xlarge")
body = ",\n".join("  " + json.dumps(row) for row in rows)
sys.stdout.write('{\n "source": "PyPI sagemaker-core 2.27.0 sagemaker.core.image_uris",\n "date": "2026-11-21",\n "rows": [\n%s\n ]\n}\n' % body)
