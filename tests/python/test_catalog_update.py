"""crates/trainc-catalog/update.py: the catalogue equals the installed SDK, and a change of a source changes the rows."""

import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "crates/trainc-catalog/update.py"
DATA = ROOT / "crates/trainc-catalog/src/data"
PACKAGES = sysconfig.get_paths()["purelib"]


@pytest.fixture
def data(tmp_path):
    """A copy of the tables that may be written."""
    copy = tmp_path / "data"
    copy.mkdir()
    for name in ("images.toml", "image_aliases.toml", "registries.toml", "instances.toml", "prices.toml", "regions.toml"):
        shutil.copy(DATA / name, copy / name)
    return copy


def update(data, *more):
    """Returns the exit code and the printed differences."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "--data", data, "--v2", PACKAGES, "--v3", "none", "--botocore", PACKAGES]
        + ["--today", "2027-01-01", *more],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, done.stdout.splitlines()


def replace(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def read(data, name):
    return tomllib.loads((data / name).read_text(encoding="utf-8"))


def test_the_catalogue_is_what_the_sources_say(data):
    assert update(data) == (0, [])


def test_lost_rows_are_made_again(data):
    """A new version, account table, alias and flag: as if the catalogue were older than the SDK."""
    before = {name: read(data, name) for name in ("images.toml", "image_aliases.toml", "registries.toml")}
    images = (data / "images.toml").read_text(encoding="utf-8")
    start = images.index('["huggingface/4.56.2/2.8.0/py312"]')
    end = images.index('\n["', start) + 1
    (data / "images.toml").write_text(images[:start] + images[end:], encoding="utf-8")
    replace(data / "image_aliases.toml", ', "4.56" = "4.56.2"', "")
    status, printed = update(data, "--write")
    assert status == 3
    assert [line.split(":")[0] for line in printed] == [
        "images huggingface/4.56.2/2.8.0/py312",
        "image-aliases huggingface 4.56",
    ]
    assert read(data, "image_aliases.toml")["huggingface"]["aliases"] == before["image_aliases.toml"]["huggingface"]["aliases"]
    made, old = (rows["huggingface/4.56.2/2.8.0/py312"] for rows in (read(data, "images.toml"), before["images.toml"]))
    apart = {"source", "date", "patch_window", "sdk"}
    assert {k: v for k, v in made.items() if k not in apart} == {k: v for k, v in old.items() if k not in apart}
    assert (made["sdk"], made["date"]) == (["v2"], "2027-01-01")
    assert update(data) == (0, [])


def test_a_changed_column_keeps_the_rest_of_the_row(data):
    old = read(data, "images.toml")["pytorch/1.6.0"]
    text = (data / "images.toml").read_text(encoding="utf-8")
    at = text.index('["pytorch/1.6.0"]')
    changed = text[:at] + text[at:].replace('["py3", "py36"]', '["py3"]', 1)
    (data / "images.toml").write_text(changed, encoding="utf-8")
    assert update(data, "--write") == (3, ["images pytorch/1.6.0: python ['py3'] -> ['py3', 'py36']"])
    assert read(data, "images.toml")["pytorch/1.6.0"] == old | {"date": "2027-01-01"}
    # Nothing else changed.
    restored = (data / "images.toml").read_text(encoding="utf-8")
    assert restored.replace('date = "2027-01-01"', f'date = "{old["date"]}"') == text


def test_types_of_botocore_without_a_row_are_named(data):
    text = (data / "instances.toml").read_text(encoding="utf-8")
    start = text.index('["ml.p5en.48xlarge"]')
    (data / "instances.toml").write_text(text[:start] + text[text.index('\n["', start) :], encoding="utf-8")
    status, printed = update(data)
    assert status == 3
    assert printed == ["instances ml.p5en.48xlarge: no row; memory, links and prices are to be found by hand"]


def test_repositories_give_dates_tags_and_lists(data, tmp_path):
    containers, toolkit = tmp_path / "containers", tmp_path / "toolkit"
    for family, version, ga in (("pytorch-training", "2.8", "2025-08-06"), ("pytorch-inference", "2.8", "2020-01-01")):
        place = containers / "docs/src/data" / family
        place.mkdir(parents=True)
        tag = f"{version}.0-gpu-py312-cu129-ubuntu24.04-sagemaker"
        (place / f"{version}-gpu-sagemaker.yml").write_text(
            f'framework: PyTorch\nversion: "{version}"\naccelerator: gpu\nplatform: sagemaker\nga: "{ga}"\n'
            f'eop: "2027-08-06"\n\ntags:\n  - "{tag}"\n  - "{version}.0-gpu-py312"\n'
        )
    legacy = containers / "docs/src/legacy"
    legacy.mkdir()
    (legacy / "legacy_support.yml").write_text(
        '# old\n\npytorch:\n  - version: "2.5"\n    ga: "2024-10-29"\n    eop: "2025-12-31"\n\n'
        'tensorflow:\n  - version: "2.4"\n    ga: "2020-01-01"\n    eop: "2020-01-02"\n'
    )
    (toolkit / "src/sagemaker_training").mkdir(parents=True)
    rows = read(data, "instances.toml")
    nccl = [name for name, row in rows.items() if row["toolkit_sets_nccl_efa_env"]] + ["ml.p5e.48xlarge"]
    rdma = [name for name, row in rows.items() if row["toolkit_sets_efa_rdma_env"]]
    (toolkit / "src/sagemaker_training/__init__.py").write_text(
        f"SM_EFA_NCCL_INSTANCES = {nccl}\nSM_EFA_RDMA_INSTANCES = {rdma}\n"
    )
    status, printed = update(data, "--containers", containers, "--toolkit", toolkit, "--write")
    assert status == 3
    tag = "2.8.0-gpu-py312-cu129-ubuntu24.04-sagemaker"
    assert printed == [
        "images pytorch/2.5.1: patch_window ['2024-10-29', '2025-10-29'] -> ['2024-10-29', '2025-12-31']",
        "images pytorch/2.8.0: patch_window ['2025-08-06', '2026-08-06'] -> ['2025-08-06', '2027-08-06']",
        f"images pytorch/2.8.0: full_tag 2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker -> {tag}",
        "images huggingface/4.49.0/2.5.1/py311: patch_window ['2024-10-29', '2025-10-29'] -> ['2024-10-29', '2025-12-31']",
        "images huggingface/4.56.2/2.8.0/py312: patch_window ['2025-08-06', '2026-08-06'] -> ['2025-08-06', '2027-08-06']",
        "instances ml.p5e.48xlarge: toolkit_sets_nccl_efa_env False -> True",
    ]
    assert read(data, "instances.toml")["ml.p5e.48xlarge"]["toolkit_sets_nccl_efa_env"] is True
    assert update(data, "--containers", containers, "--toolkit", toolkit) == (0, [])


def offer(sku, usage, region, usd, unit="Hrs"):
    """Returns a product and its on-demand term as an offer file of the AWS Price List API has them."""
    product = {"sku": sku, "attributes": {"regionCode": region, "usagetype": usage}}
    price = {"unit": unit, "pricePerUnit": {"USD": usd}}
    term = {"effectiveDate": "2027-01-01T00:00:00Z", "priceDimensions": {f"{sku}.6YS6EN2CT7": price}}
    return {sku: product}, {sku: {f"{sku}.JRTCKXETXF": term}}


def test_prices_of_training_jobs_are_read_from_an_offer_file(data, tmp_path):
    """Prices that changed, one that did not, one of a new pair; new pairs of CPU types, other components and spot are skipped."""
    offers = [
        offer("A", "USE1-Train:ml.p4d.24xlarge", "us-east-1", "20.5000000000"),
        offer("B", "USE1-Train:ml.g4dn.xlarge", "us-east-1", "0.7364000000"),
        offer("C", "APN1-Train:ml.g5.xlarge", "ap-northeast-1", "2.0450000000"),
        offer("D", "USE1-Host:ml.g5.2xlarge", "us-east-1", "9.0000000000"),
        offer("E", "USE1-SpotTraining:ml.g5.4xlarge", "us-east-1", "9.0000000000"),
        offer("F", "USE1-Train:ml.nonesuch.xlarge", "us-east-1", "9.0000000000"),
        offer("G", "USE1-Train:ml.m5.xlarge", "us-east-1", "0.2400000000"),
        offer("H", "APN1-Train:ml.m5.xlarge", "ap-northeast-1", "0.2980000000"),
    ]
    products, terms = ({k: v for one in offers for k, v in one[at].items()} for at in (0, 1))
    text = {"offerCode": "AmazonSageMaker", "publicationDate": "2027-01-05T09:00:00Z", "products": products}
    path = tmp_path / "index.json"
    path.write_text(json.dumps(text | {"terms": {"OnDemand": terms}}), encoding="utf-8")
    before = read(data, "prices.toml")
    status, printed = update(data, "--prices", path, "--write")
    assert status == 3
    assert printed == [
        "prices ml.g5.xlarge ap-northeast-1: new, 2.045",
        "prices ml.m5.xlarge us-east-1: 0.23 of 2026-09-27 -> 0.24",
        "prices ml.p4d.24xlarge us-east-1: 25.2513 of 2026-09-27 -> 20.5",
    ]
    after = read(data, "prices.toml")
    made = {key: row["usd_per_hour"] for key, row in after.items() if key not in before}
    assert made == {
        "ml.g4dn.xlarge/us-east-1/2027-01-05/offer": 0.7364,
        "ml.g5.xlarge/ap-northeast-1/2027-01-05/offer": 2.045,
        "ml.m5.xlarge/us-east-1/2027-01-05/offer": 0.24,
        "ml.p4d.24xlarge/us-east-1/2027-01-05/offer": 20.5,
    }
    assert {key: after[key] for key in before} == before
    assert update(data, "--prices", path) == (0, [])
