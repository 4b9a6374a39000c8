"""Writes image_uris.json: what the SageMaker Python SDK answers, for the test of the image catalogue.

    python3 -m venv v && v/bin/pip install sagemaker==2.257.7 && v/bin/python image_uris.py > image_uris.json

A row: [framework, pytorch, transformers, python, region, instance, smdistributed, answer]; an answer that begins
with "!" is the kind of the refusal.
"""
import json, logging, sys
logging.disable(logging.CRITICAL)
import sagemaker
from sagemaker import image_uris

KINDS = [("Unsupported base framework", "UnknownCombination"), ("Unsupported Python version", "UnknownPython"),
         ("Unsupported region", "RegionWithoutImage"), ("Unsupported processor", "UnsupportedProcessor"),
         ("Unsupported framework", "UnsupportedProcessor"), ("P2 instances", "InstanceDeprecated"),
         ("Unsupported pytorch-smp version", "SmpUnknownVersion"), (" version:", "UnknownVersion"),
         ("Invalid SageMaker instance type", "BadInstanceName")]

def ask(framework, pytorch, transformers, python, region, instance, smd):
    # The check of the HuggingFace estimator, which stands before the image look-up.
    if framework == "huggingface" and len(transformers.split(".")) != len(pytorch.split(".")):
        return "!MixedVersionLengths"
    distribution = {"smdistributed": {"dataparallel": {"enabled": True}}} if smd else None
    if framework == "smp":
        distribution = {"torch_distributed": {"enabled": True}, "smdistributed": {"modelparallel": {"enabled": True}}}
    hf = framework == "huggingface"
    try:
        return image_uris.get_training_image_uri(
            region, "huggingface" if hf else "pytorch", framework_version=transformers if hf else pytorch,
            py_version=python, distribution=distribution, pytorch_version=pytorch if hf else None,
            instance_type=instance)
    except ValueError as error:
        return "!" + next(kind for text, kind in KINDS if text in str(error))

ORDINARY = ["us-east-1", "us-west-2", "eu-central-2", "cn-north-1", "us-gov-west-1", "mx-central-1"]
rows, seen = [], set()
def add(*query):
    if query not in seen:
        seen.add(query)
        rows.append([*query, ask(*query)])

def config(name):
    table = image_uris.config_for_framework(name)
    return table.get("training", table)

table = config("pytorch")
spellings = list(table["versions"]) + list(table["version_aliases"])
turn = 0
for version in spellings:
    row = table["versions"][table["version_aliases"].get(version, version)]
    for python in row["py_versions"]:
        for instance in ["ml.p4d.24xlarge", "ml.m5.xlarge"]:
            add("pytorch", version, None, python, ORDINARY[turn % len(ORDINARY)], instance, False)
            turn += 1
    add("pytorch", version, None, None, "us-east-1", "ml.g5.xlarge", False)
for region in sorted(table["versions"]["2.1.0"]["registries"]):
    for version in ["1.1.0", "2.3.0", "2.8.0"]:
        add("pytorch", version, None, None if version != "1.1.0" else "py3", region, "ml.g5.xlarge", False)
for version in ["1.6", "1.6.0", "1.7", "1.13.1"]:
    for instance in ["ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p3.2xlarge", "ml.p2.xlarge", "ml.c5.xlarge"]:
        for smd in [False, True]:
            add("pytorch", version, None, "py36" if version < "1.13" else None, "us-west-2", instance, smd)
for version, python in [("2.4.1", None), ("2.5.0", "py311"), ("2", None), ("2.8.0", "py311"), ("2.8.0", "py3"),
                        ("1.2.0", None), ("2.8.0-gpu", "py312")]:
    add("pytorch", version, None, python, "us-east-1", "ml.p5.48xlarge", False)
for version in ["1.11", "1.11.0", "1.12", "1.13.1", "2.0.0", "2.8.0"]:
    for region, python in [("us-east-1", "py38"), ("us-east-1", None), ("us-east-1", "py310"), ("eu-west-2", "py38")]:
        add("pytorch", version, None, python, region, "ml.trn1.32xlarge", False)
for instance in ["ml.inf1.xlarge", "p4d.24xlarge", "ml.", "ml.p6-b200.48xlarge", "ml.trn2.48xlarge", "ml.P4d.24xlarge"]:
    add("pytorch", "2.8.0", None, None, "us-east-1", instance, False)
    add("huggingface", "2.8.0", "4.56.2", "py312", "us-east-1", instance, False)
for region in ["us-west-9", "", "eu-isoe-west-1", "us-iso-west-1"]:
    add("pytorch", "2.8.0", None, None, region, "ml.p5.48xlarge", False)

table = config("huggingface")
short = {full: alias for alias, full in table["version_aliases"].items()}
for transformers, row in table["versions"].items():
    for base in row:
        if not base.startswith("pytorch"):
            continue
        base = base[7:]
        pair = [(transformers, base)]
        if transformers in short and "pytorch" + base in row["version_aliases"].values():
            pair.append((short[transformers], ".".join(base.split(".")[:2])))
        for at, base in pair:
            key = "pytorch" + base
            python = row[row["version_aliases"].get(key, key)]["py_versions"][0]
            for region in ["us-east-1", "cn-north-1", "mx-central-1"]:
                add("huggingface", base, at, python, region, "ml.p4d.24xlarge", False)
            add("huggingface", base, at, None, "us-west-2", "ml.p3.2xlarge", False)
for region in sorted(table["versions"]["4.4.2"]["pytorch1.6.0"]["registries"]):
    add("huggingface", "2.8.0", "4.56.2", "py312", region, "ml.g5.xlarge", False)
for query in [("2.0.0", "4.28"), ("2.0", "4.28.1"), ("2.0.0", "4.26.0"), ("2.1", "4.28"), ("2.8.0", "4.99.0"), ("1.13.1", "4.28.1"),
              ("2.9.0", "4.56.2")]:
    for instance in ["ml.p4d.24xlarge", "ml.m5.xlarge", "ml.trn1.32xlarge"]:
        add("huggingface", *query, "py310", "us-east-1", instance, False)
add("huggingface", "2.8.0", "4.56.2", "py312", "us-east-1", "ml.m5.xlarge", False)

for version in ["2.0", "2.0.1", "2.1", "2.1.2", "2.2", "2.2.0", "2.3.0", "2.3.1", "2.4.1", "2.5.1", "2.3", "2.4.0", "2.6.0", "1.13.1"]:
    for instance in ["ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.p5en.48xlarge", "ml.m5.xlarge", "ml.trn1.32xlarge"]:
        add("smp", version, None, None, "us-west-2", instance, False)
    for python in ["py310", "py311"]:
        add("smp", version, None, python, "us-east-1", "ml.p4d.24xlarge", False)
for region in ["cn-north-1", "us-gov-west-1", "mx-central-1", "eu-central-2", "ap-northeast-3", "sa-east-1"]:
    add("smp", "2.4.1", None, "py311", region, "ml.p5.48xlarge", False)

source = f"PyPI sagemaker {sagemaker.__version__} image_uris.get_training_image_uri, and the length check of huggingface/estimator.py"
body = ",\n".join("  " + json.dumps(row) for row in rows)
sys.stdout.write('{\n "source": %s,\n "date": "2026-11-21",\n "rows": [\n%s\n ]\n}\n' % (json.dumps(source), body))
