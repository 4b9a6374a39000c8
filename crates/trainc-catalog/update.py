"""Compares the catalogue with its public sources, prints what differs, and with --write changes the rows.

    git clone --depth 1 https://github.com/aws/deep-learning-containers /tmp/containers
    python3 crates/trainc-catalog/update.py --containers /tmp/containers           # prints the differences
    python3 crates/trainc-catalog/update.py --containers /tmp/containers --write   # and writes the rows; review the diff

    curl -O https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonSageMaker/current/index.json
    python3 crates/trainc-catalog/update.py --prices index.json   # prices of training instances, in every region

Sources: the image tables of the SageMaker SDK (v2: package `sagemaker` below 3; v3: `sagemaker-core`) and botocore's model of
SageMaker, from PyPI or from the wheels or directories that are given; the repository aws/deep-learning-containers (patch windows
and tags) and, if given, aws/sagemaker-training-toolkit (its lists of instance types with EFA) and an offer file of
AmazonSageMaker from the AWS Price List API (of all regions or of one). Needs Python 3.11 with pip.

It makes the rows of images.toml, image_aliases.toml and registries.toml, the dates of containers, and the columns of
instances.toml that come from these sources, and adds rows to prices.toml. Memory and links of instance types have no source that
a program can read: their rows are written by hand, and missing types are printed. Exit code: 0 nothing differs, 3 something does.
"""

import argparse
import ast
import datetime
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

DATA = pathlib.Path(__file__).resolve().parent / "src" / "data"
# Table of the SDK -> (prefix of the keys, major versions of the SDK that are read).
TABLES = {
    "pytorch": ("pytorch", ("v2", "v3")),
    "pytorch-amzn2023": ("amzn2023", ("v3",)),
    "huggingface": ("huggingface", ("v2", "v3")),
    "pytorch-smp": ("smp", ("v2",)),
    "pytorch-neuron": ("neuron", ("v2",)),
}
# Columns that this program sets, in their order; all others stay as they are.
COLUMNS = ["python", "repository", "processors", "registry", "sdk", "container", "base_aliases", "patch_window",
           "full_tag", "tag_prefix"]  # fmt: skip
# Packages on PyPI, and where their wheels hold the data.
PACKAGES = {
    "v2": ("sagemaker<3", "sagemaker/image_uri_config/"),
    "v3": ("sagemaker-core", "sagemaker/core/image_uri_config/"),
    "botocore": ("botocore", "botocore/data/sagemaker/2017-07-24/"),
}
ACCELERATED = re.compile(r"ml\.(p|g|trn)\d")
TRAINING_USAGE = re.compile(r"(?:^|-)Train:(ml\.[a-z0-9.-]+)$")


class Package:
    """A wheel, or a directory with an installed package."""

    def __init__(self, place, inside):
        self.place, self.inside = pathlib.Path(place), inside
        self.wheel = zipfile.ZipFile(place) if self.place.is_file() else None
        if self.wheel:
            self.version = " ".join(self.place.name.split("-")[:2])
        else:
            found = sorted(self.place.glob(f"{inside.split('/')[0]}-*.dist-info"))
            self.version = " ".join(found[-1].name.removesuffix(".dist-info").split("-")) if found else str(place)

    def read(self, name):
        path = self.inside + name
        if self.wheel:
            return self.wheel.read(path) if path in self.wheel.namelist() else None
        return (self.place / path).read_bytes() if (self.place / path).exists() else None

    def json(self, name):
        data = self.read(name)
        return json.loads(data) if data else None


def download(name, folder):
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", folder, name],
        check=True,
    )
    stem = re.split(r"[<>=]", name)[0].replace("-", "_")
    return sorted(pathlib.Path(folder).glob(f"{stem}-*.whl"))[-1]


def simple_yaml(text):
    """Reads what the repository's data files use: `key: value`, and lists of strings below `key:`."""
    out, key = {}, None
    for line in text.splitlines():
        if found := re.match(r"(\w+):\s*(.*)$", line):
            key, value = found[1], found[2].strip().strip('"')
            out[key] = value or []
        elif (found := re.match(r'\s+-\s+"?([^"]+)"?\s*$', line)) and isinstance(out.get(key), list):
            out[key].append(found[1])
    return out


class Containers:
    """Patch windows and tags of the GPU containers for SageMaker, by repository and tag."""

    def __init__(self, clone):
        self.tags, self.windows = {}, {}
        for path in sorted((clone / "docs/src/data").glob("*/*.yml")):
            image = simple_yaml(path.read_text(encoding="utf-8"))
            if image.get("platform") != "sagemaker" or image.get("accelerator") != "gpu":
                continue
            self.tags.setdefault(path.parent.name, []).extend(image.get("tags", []))
            if path.parent.name in ("pytorch", "pytorch-training") and image.get("ga") and image.get("eop"):
                self.windows.setdefault(image["version"], [image["ga"], image["eop"]])
        legacy = (clone / "docs/src/legacy/legacy_support.yml").read_text(encoding="utf-8")
        pytorch = legacy.partition("\npytorch:")[2].split("\n\n")[0]
        for version, ga, eop in re.findall(r'version: "([\d.]+)"\s+ga: "([\d-]+)"\s+eop: "([\d-]+)"', pytorch):
            self.windows.setdefault(version, [ga, eop])

    def window(self, version):
        return self.windows.get(".".join(version.split(".")[:2]))

    def full_tag(self, repository, version):
        """The longest tag of the version: with CUDA and operating system, without a suffix for the build."""
        wanted = re.compile(re.escape(version) + r"(\.\d+)?-.*cu\d+.*-sagemaker")
        found = [tag for tag in self.tags.get(repository, []) if wanted.fullmatch(tag)]
        return max(found, key=len, default=None)


def image_rows(packages, containers, registries):
    """Returns key -> row, alias table -> aliases; names of new account tables are added to `registries`."""
    rows, aliases = {}, {}
    for table, (family, majors) in TABLES.items():
        for major in majors:
            package = packages.get(major)
            config = package and package.json(f"{table}.json")
            if not config:
                continue
            training = config.get("training", config)
            aliases[family] = training.get("version_aliases", {}) | aliases.get(family, {})
            for version, entry in training["versions"].items():
                for key, base, found in entries(family, version, entry):
                    row = rows.setdefault(key, {"sdk": []})
                    row["sdk"].append(major)
                    if len(row["sdk"]) > 1:
                        continue
                    pytorch = base or version
                    row["python"] = found.get("py_versions", [])
                    row["repository"] = found["repository"]
                    row["processors"] = found.get("processors", training.get("processors", []))
                    row["registry"] = registry_name(found["registries"], registries)
                    if container := found.get("container_version"):
                        # The SDK writes the version of the Neuron SDK before the container's.
                        sdk = "".join(f"{name}-" for name in found.get("sdk_versions", [])[-1:])
                        row["container"] = {name: sdk + text for name, text in container.items()}
                    if base:
                        short = entry.get("version_aliases", {})
                        row["base_aliases"] = [
                            name.removeprefix("pytorch") for name, full in short.items() if full == f"pytorch{base}"
                        ]
                    if "tag_prefix" in found:
                        row["tag_prefix"] = found["tag_prefix"]
                    row["source"] = f"PyPI {package.version} image_uri_config/{table}.json"
                    if containers and family != "smp" and family != "neuron":
                        if window := containers.window(pytorch):
                            row["patch_window"] = window
                        tag = None if base else containers.full_tag(found["repository"], version)
                        if tag:
                            row["full_tag"] = tag
    return rows, aliases


def entries(family, version, entry):
    """Yields key, PyTorch version of a Hugging Face image, and the entry with its repository."""
    if family != "huggingface":
        yield f"{family}/{version}", None, entry
        return
    for name, found in entry.items():
        if name.startswith("pytorch") and isinstance(found, dict) and "registries" in found:
            base = name.removeprefix("pytorch")
            for python in found["py_versions"]:
                yield f"{family}/{version}/{base}/{python}", base, found


def registry_name(accounts, registries):
    for name, known in registries.items():
        if known == accounts:
            return name
    name = f"r{max(int(name[1:]) for name in registries) + 1}"
    registries[name] = accounts
    return name


def value_text(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {value_text(v)}" for k, v in sorted_versions(value)) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def sorted_versions(table):
    def key(item):
        return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in item[0].split(".")]

    return sorted(table.items(), key=key)


class Table:
    """A file of the catalogue whose rows are changed in place, so that all other text stays."""

    def __init__(self, folder, name):
        self.path = folder / name
        self.text = self.path.read_text(encoding="utf-8")
        self.rows = tomllib.loads(self.text)

    def span(self, key):
        start = self.text.index(f'\n["{key}"]\n') + 1
        end = self.text.find('\n\n["', start)
        return start, len(self.text.rstrip("\n")) if end < 0 else end

    def set(self, key, columns):
        """Sets columns of a row: existing ones at their place, new ones before `source`."""
        start, end = self.span(key)
        row = self.text[start:end]
        for name, value in columns.items():
            line = f"{name} = {value_text(value)}"
            pattern = re.compile(rf"^{name} = .*$", re.MULTILINE)
            if value is None:
                row = re.sub(rf"^{name} = .*\n", "", row, flags=re.MULTILINE)
            elif pattern.search(row):
                row = pattern.sub(lambda _, line=line: line, row)
            else:
                row = re.sub(r"^source = ", lambda _, line=line: f"{line}\nsource = ", row, flags=re.MULTILINE)
        self.text = self.text[:start] + row + self.text[end:]

    def add(self, key, row, after):
        """Adds a row behind that of another key, or at the end."""
        at = self.span(after)[1] if after else len(self.text.rstrip("\n"))
        lines = "\n".join(f"{name} = {value_text(value)}" for name, value in row.items())
        self.text = f'{self.text[:at]}\n\n["{key}"]\n{lines}{self.text[at:]}'

    def remove(self, key):
        start, end = self.span(key)
        self.text = self.text[:start] + self.text[end:].lstrip("\n")

    def write(self):
        self.path.write_text(self.text, encoding="utf-8")


def compare_images(folder, packages, containers, today, report):
    images, registries = Table(folder, "images.toml"), Table(folder, "registries.toml")
    spellings = Table(folder, "image_aliases.toml")
    known = {name: row["accounts"] for name, row in registries.rows.items()}
    before = set(known)
    rows, aliases = image_rows(packages, containers, known)
    wanted = {major for major in ("v2", "v3") if packages.get(major)}
    for name in known.keys() - before:
        report(f"registries {name}: new, {len(known[name])} regions")
        source = "PyPI " + ", ".join(packages[major].version for major in sorted(wanted))
        registries.add(name, {"accounts": known[name], "source": source, "date": today}, None)
    last = {}
    for key in images.rows:
        last[key.split("/")[0]] = key
    for key, row in rows.items():
        family = key.split("/")[0]
        old = images.rows.get(key)
        if old is None:
            columns = {name: row[name] for name in COLUMNS if name in row}
            report(f"images {key}: new, {columns}")
            images.add(key, columns | {"source": row["source"], "date": today}, last.get(family))
            last[family] = key
            continue
        # A run without one of the SDKs says nothing about its versions.
        row["sdk"] = sorted({*row["sdk"], *(major for major in old["sdk"] if major not in wanted)})
        changed = {name: row[name] for name in COLUMNS if name in row and row[name] != old.get(name)}
        if changed:
            for name, value in changed.items():
                report(f"images {key}: {name} {old.get(name)} -> {value}")
            images.set(key, changed | {"date": today})
    for key, old in images.rows.items():
        if key not in rows and set(old["sdk"]) <= wanted:
            report(f"images {key}: no longer in the SDK")
            images.remove(key)
    for family, found in aliases.items():
        old = spellings.rows[family]["aliases"]
        merged = found if wanted == {"v2", "v3"} else old | found
        for name in sorted({*old, *merged}):
            if old.get(name) != merged.get(name):
                report(f"image-aliases {family} {name}: {old.get(name)} -> {merged.get(name)}")
        if old != merged:
            spellings.set(family, {"aliases": merged, "date": today})
    return [images, registries, spellings]


def compare_instances(folder, botocore, toolkit, today, report):
    instances = Table(folder, "instances.toml")
    if botocore:
        data = botocore.read("service-2.json.gz")
        model = json.loads(gzip.decompress(data) if data else botocore.read("service-2.json"))
        listed = set(model["shapes"]["TrainingInstanceType"]["enum"])
        for name in sorted(filter(ACCELERATED.match, listed - set(instances.rows))):
            report(f"instances {name}: no row; memory, links and prices are to be found by hand")
        for name, row in instances.rows.items():
            if row["in_sagemaker_enum"] != (name in listed):
                report(f"instances {name}: in_sagemaker_enum {row['in_sagemaker_enum']} -> {name in listed}")
                instances.set(name, {"in_sagemaker_enum": name in listed, "date": today})
    if toolkit:
        text = (toolkit / "src/sagemaker_training/__init__.py").read_text(encoding="utf-8")
        for column, constant in (
            ("toolkit_sets_nccl_efa_env", "SM_EFA_NCCL_INSTANCES"),
            ("toolkit_sets_efa_rdma_env", "SM_EFA_RDMA_INSTANCES"),
        ):
            listed = set(ast.literal_eval(re.search(rf"{constant} = (\[.*?\])", text, re.DOTALL)[1]))
            for name, row in instances.rows.items():
                if row[column] != (name in listed):
                    report(f"instances {name}: {column} {row[column]} -> {name in listed}")
                    instances.set(name, {column: name in listed, "date": today})
    return [instances]


def offered_prices(offers):
    """Reads on-demand prices of training jobs from an offer file: (type, region) -> (US dollars per hour, effective date)."""
    found = {}
    for sku, product in offers["products"].items():
        attributes = product.get("attributes", {})
        # `USE1-Train:ml.g5.xlarge`; spot training and warm pools have usage types of their own.
        usage = TRAINING_USAGE.search(attributes.get("usagetype", ""))
        region = attributes.get("regionCode")
        if not usage or not region:
            continue
        for term in offers["terms"]["OnDemand"].get(sku, {}).values():
            for dimension in term["priceDimensions"].values():
                usd = float(dimension["pricePerUnit"].get("USD", 0))
                if usd > 0 and dimension["unit"].lower().startswith("h"):
                    found[usage[1], region] = (usd, term["effectiveDate"][:10])
    return found


def compare_prices(folder, path, report):
    offers = json.loads(path.read_text(encoding="utf-8"))
    if offers.get("offerCode") != "AmazonSageMaker":
        raise SystemExit(f"error: `{path}` is not an offer file of AmazonSageMaker")
    published = offers["publicationDate"][:10]
    prices = Table(folder, "prices.toml")
    types = tomllib.loads((folder / "instances.toml").read_text(encoding="utf-8"))
    regions = tomllib.loads((folder / "regions.toml").read_text(encoding="utf-8"))
    newest, last = {}, {}
    for key, row in prices.rows.items():
        last[row["instance"]] = key
        if row["product"] == "sagemaker" and "region" in row:
            pair = row["instance"], row["region"]
            if pair not in newest or row["date"] > newest[pair]["date"]:
                newest[pair] = row
    for (name, region), (usd, since) in sorted(offered_prices(offers).items()):
        old = newest.get((name, region))
        # Of CPU types, which have no row in instances.toml, only the pairs with a price are kept up to date.
        if (name not in types and old is None) or region not in regions or (old and old["date"] >= published):
            continue
        if old is None:
            report(f"prices {name} {region}: new, {usd}")
        elif old["usd_per_hour"] != usd:
            report(f"prices {name} {region}: {old['usd_per_hour']} of {old['date']} -> {usd}")
        # A price that did not change is confirmed by a later date.
        key = f"{name}/{region}/{published}/offer"
        source = f"offer file of AmazonSageMaker, AWS Price List API, published {published}, effective {since}"
        row = {"instance": name, "region": region, "usd_per_hour": usd, "product": "sagemaker", "source": source}
        prices.add(key, row | {"date": published}, last.get(name))
        last[name] = key
    return [prices]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--containers", type=pathlib.Path, help="clone of aws/deep-learning-containers")
    parser.add_argument("--toolkit", type=pathlib.Path, help="clone of aws/sagemaker-training-toolkit")
    for name, (package, _) in PACKAGES.items():
        parser.add_argument(f"--{name}", help=f"wheel or site-packages with {package}; `none` skips it; default: PyPI")
    parser.add_argument("--prices", type=pathlib.Path, help="offer file of AmazonSageMaker, JSON")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="directory of the tables")
    parser.add_argument("--today", default=datetime.date.today().isoformat(), help="date of changed rows")
    parser.add_argument("--write", action="store_true", help="write the changed rows")
    args = parser.parse_args(argv)
    count = 0

    def report(line):
        nonlocal count
        count += 1
        print(line)

    tables = compare_prices(args.data, args.prices, report) if args.prices else []
    with tempfile.TemporaryDirectory() as folder:
        packages = {}
        for name, (package, inside) in PACKAGES.items():
            given = getattr(args, name)
            if given != "none":
                packages[name] = Package(given or download(package, folder), inside)
                print(f"# {packages[name].version}", file=sys.stderr)
        containers = Containers(args.containers) if args.containers else None
        tables += compare_images(args.data, packages, containers, args.today, report)
        tables += compare_instances(args.data, packages.get("botocore"), args.toolkit, args.today, report)
    if args.write:
        for table in tables:
            table.write()
    print(f"# {count} difference{'' if count == 1 else 's'}", file=sys.stderr)
    return 3 if count else 0


if __name__ == "__main__":
    sys.exit(main())
