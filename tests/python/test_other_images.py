"""The images of other frameworks and built-in algorithms are those that the SageMaker SDK returns."""

import functools
import tomllib
from pathlib import Path

from sagemaker import image_uris, utils

DATA = Path(__file__).parents[2] / "crates/trainc-catalog/src/data"
INSTANCES = {"cpu": "ml.m5.xlarge", "gpu": "ml.g5.xlarge"}
REGIONS = {"us-west-2": "", "cn-north-1": ".cn"}


def rows(name):
    return tomllib.loads((DATA / name).read_text())


def expected():
    """Yields the arguments of `retrieve` for each row, and the URI that the catalogue's columns make."""
    registries = rows("registries.toml")
    for key, row in rows("other_images.toml").items():
        family, version = key.split("/")
        accounts = registries[row["registry"]]["accounts"]
        processors = row.get("processors", [])
        for region, suffix in REGIONS.items():
            if region not in accounts:
                continue
            for processor in processors or ["cpu"]:
                for python in row.get("python", [None]):
                    parts = [version, processor if processors else None, python]
                    tag = "-".join(part for part in parts if part)
                    host = f"{accounts[region]}.dkr.ecr.{region}.amazonaws.com{suffix}"
                    arguments = dict(
                        framework=family,
                        region=region,
                        version=version,
                        py_version=python,
                        instance_type=INSTANCES[processor],
                        image_scope="training",
                    )
                    yield arguments, f"{host}/{row['repository']}:{tag}"


def test_images_are_those_of_the_sdk(monkeypatch):
    # The SDK reads the endpoints of all services again for each image.
    monkeypatch.setattr(utils, "_botocore_resolver", functools.cache(utils._botocore_resolver))
    compared = list(expected())
    assert len(compared) > 200
    differing = [(arguments, uri) for arguments, uri in compared if image_uris.retrieve(**arguments) != uri]
    assert not differing, differing[:5]
