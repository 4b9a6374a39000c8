"""Writes the tables about packages that a requirements.txt or an import may name.

    python3 crates/trainc-catalog/requirement_facts.py builds torch dependencies imports      # writes these tables
    python3 crates/trainc-catalog/requirement_facts.py library --python python3.12 …          # of the interpreters that are given

- builds: source_builds.toml, releases without a wheel for a CPython of the images on Linux and x86-64, so that each host compiles
  them. From the lists of files on PyPI; how the build meets torch is read from setup.py and pyproject.toml of the source archives.
- torch: torch_requirements.toml, what releases since 2024 require of torch and its neighbours, from the metadata of their wheels.
- dependencies: dependencies.toml, the packages that every release since 2024 requires without an extra (of the releases read).
- imports: import_names.toml, names of imports that differ from those of the distributions, from the lists of files in the wheels.
- library: standard_library.toml.

Nothing is installed and nothing is run. Needs Python 3.11 and `pip install packaging`.
"""

import argparse
import ast
import concurrent.futures
import datetime
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion

DATA = pathlib.Path(__file__).resolve().parent / "src" / "data"
INDEX = "https://pypi.org/simple/"
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
SINCE = "2024-01-01"
# Packages with compiled parts of which releases have no wheel.
SOURCE_BUILDS = """flash-attn mamba-ssm causal-conv1d transformer-engine-torch torch-scatter torch-sparse torch-cluster
    torch-spline-conv megablocks grouped-gemm horovod inplace-abn pycuda natten dcnv4 warp-rnnt minkowskiengine kenlm pesq fasttext
    pyaudio mpi4py llama-cpp-python tensornvme mmcv mmcv-full fairseq tokenizers sentencepiece safetensors pycocotools numpy pandas
    scipy scikit-learn pyarrow pyyaml h5py xformers regex psutil""".split()
# Imports torch only to find out if it is there: the build goes on without it.
TORCH_IS_OPTIONAL = {"mmcv", "mmcv-full", "fairseq"}
# Packages that require a version of torch or bound it from above.
TORCH_PINS = "vllm xformers torchvision torchaudio torchtext torchdata fastai sglang unsloth unsloth-zoo lmdeploy trl[vllm]".split()
NEIGHBOURS = ["torch", "torchvision", "torchaudio", "xformers", "vllm", "transformers", "triton", "numpy"]
DEPENDENCIES = """torch torchvision torchaudio transformers datasets accelerate trl peft evaluate diffusers sentence-transformers
    huggingface-hub tokenizers safetensors lightning pytorch-lightning torchmetrics timm bitsandbytes sagemaker boto3 botocore s3fs
    s3torchconnector requests pandas scikit-learn scipy matplotlib seaborn tensorboard wandb mlflow hydra-core aiohttp jinja2
    fastai spacy nltk librosa optimum vllm unsloth liger-kernel torchdata mosaicml-streaming composer
    gradio fastapi openai langchain tiktoken multiprocess tqdm rouge-score sacrebleu xgboost lightgbm kernels""".split()
# Distributions whose import has another name, or several.
IMPORTS = """pyyaml scikit-learn pillow opencv-python opencv-python-headless opencv-contrib-python beautifulsoup4 python-dotenv protobuf
    python-dateutil scikit-image attrs pyzmq msgpack gitpython pycryptodome pyjwt pyserial python-docx python-pptx pymupdf
    faiss-cpu faiss-gpu-cu12 hydra-core scikit-learn-intelex rouge-score tensorboard mosaicml mosaicml-streaming sagemaker-training
    pytorch-ignite pytorch-msssim segmentation-models-pytorch efficientnet-pytorch umap-learn imbalanced-learn dm-tree
    grpcio google-cloud-storage google-api-python-client google-auth azure-storage-blob opentelemetry-api nvidia-ml-py pynvml
    ruamel-yaml typing-extensions importlib-metadata jupyter-core ipython prompt-toolkit pyopenssl pycairo pysocks
    pymysql psycopg2-binary mysql-connector-python elasticsearch-dsl markupsafe werkzeug jinja2 flask-cors
    sentence-transformers pytorch-lightning lightning huggingface-hub llama-index-core langchain-community
    flash-linear-attention autoawq auto-gptq gptqmodel levenshtein python-levenshtein memory-profiler
    line-profiler antlr4-python3-runtime zstandard lz4 python-magic smart-open
    tree-sitter pycocotools albumentations open-clip-torch clip-anytorch vector-quantize-pytorch x-transformers
    einops-exts torch-geometric torch-fidelity lpips kornia facenet-pytorch timm pydub soundfile
    speechbrain openai-whisper faster-whisper deepspeed-mii transformer-engine dgl
    setuptools cython pybind11 numpy pandas scipy wandb omegaconf tensorboardx webdataset
    pyarrow dill pathos multiprocess sacremoses sentencepiece jsonlines ujson orjson regex tqdm
    math-verify latex2sympy2-extended lm-eval bert-score evaluate unstructured trafilatura ftfy fasttext-wheel pyspark
    matplotlib torch torchvision python-slugify websocket-client kafka-python pynacl python-multipart ffmpeg-python python-box
    python-decouple dnspython pygithub cupy-cuda12x scikit-optimize python-louvain biopython fair-esm haystack-ai pypdf2
    google-cloud-bigquery markdown pyhocon pyparsing backports-zoneinfo absl-py ml-collections fire loguru rich""".split()
# Import names that a namespace package of several distributions has: the part below it is what one of them brings.
NAMESPACES = {"google", "google.cloud", "azure", "azure.storage", "opentelemetry", "sphinxcontrib", "ruamel", "nvidia", "mpl_toolkits", "backports"}
# What wheels hold beside their packages.
NOT_IMPORTS = re.compile(r"(.*\.(dist-info|data|libs|pth)|tests?|docs?|examples?|benchmarks?|scripts?|bin|share|tools|\.\.|__pycache__|LICENSE.*|README.*|example|simulation|dmlc_tracker)$")
# Bounds of one answer: seconds, bytes; a source archive above the second size is read for the first and the last release alone.
SECONDS, BYTES, ARCHIVE, TRIES = 60, 96 * 2**20, 2 * 2**20, 4


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    for left in reversed(range(TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.read(BYTES)
        except urllib.error.HTTPError:
            raise
        except OSError:
            if not left:
                raise
            time.sleep(2)
    raise AssertionError


def files(name):
    return json.loads(fetch(f"{INDEX}{name}/", Accept="application/vnd.pypi.simple.v1+json"))["files"]


def tags(python):
    major, minor = map(int, python.split("."))
    platforms = [f"manylinux_2_{below}_x86_64" for below in range(35, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    return {
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
    }


TAGS = {python: tags(python) for python in PYTHONS}


class Release:
    def __init__(self):
        self.wheels, self.sdist, self.since, self.yanked = [], None, "9999", True

    def without_wheel(self):
        """Returns the versions of Python that the release is for and for which it has a source archive alone."""
        try:
            wanted = SpecifierSet((self.sdist and self.sdist.get("requires-python")) or "")
        except InvalidSpecifier:
            wanted = SpecifierSet()
        return [
            python
            for python in PYTHONS
            if self.sdist and wanted.contains(f"{python}.9") and not any(TAGS[python] & wheel_tags for wheel_tags, _ in self.wheels)
        ]


def releases(name):
    """Returns version -> release, oldest first, without those that were withdrawn and without pre-releases."""
    found = {}
    for file in files(name):
        try:
            if file["filename"].endswith(".whl"):
                _, version, _, wheel_tags = parse_wheel_filename(file["filename"])
            else:
                _, version = parse_sdist_filename(file["filename"])
                wheel_tags = None
        except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            continue
        if version.is_prerelease:
            continue
        release = found.setdefault(version, Release())
        if wheel_tags is None:
            release.sdist = file
        else:
            release.wheels.append((wheel_tags, file))
        release.since = min(release.since, file["upload-time"][:10])
        release.yanked = release.yanked and bool(file["yanked"])
    return {version: found[version] for version in sorted(found) if not found[version].yanked}


def archive_texts(file):
    """Returns setup.py and pyproject.toml of a source archive."""
    data, found = fetch(file["url"]), {}
    if file["filename"].endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"[^/]+/(setup\.py|pyproject\.toml)", name):
                    found[name.split("/")[1]] = archive.read(name).decode(errors="replace")
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.isfile() and re.fullmatch(r"[^/]+/(setup\.py|pyproject\.toml)", member.name):
                    found[member.name.split("/")[1]] = archive.extractfile(member).read().decode(errors="replace")
    return found


def imports_torch(text):
    """Whether a module imports torch when it is loaded."""
    for node in ast.walk(ast.Module(body=[n for n in ast.parse(text).body if not isinstance(n, (ast.FunctionDef, ast.ClassDef))], type_ignores=[])):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.split(".")[0] == "torch" for name in names):
            return True
    return False


def torch_of_build(name, file):
    texts = archive_texts(file)
    requires = tomllib.loads(texts["pyproject.toml"]).get("build-system", {}).get("requires", []) if "pyproject.toml" in texts else []
    if any(re.match(r"torch\b(?!-)", requirement) for requirement in requires):
        return "required"
    if "setup.py" in texts and imports_torch(texts["setup.py"]):
        return "optional" if name in TORCH_IS_OPTIONAL else "imported"
    return "unused"


def builds(today):
    rows = {}
    for name in SOURCE_BUILDS:
        found = releases(name)
        versions = [version for version, release in found.items() if release.since >= "2020"]
        lacking = [version for version in versions if found[version].without_wheel()]
        torch, last = {}, None
        reads_torch = any(word in name for word in ("torch", "attn", "mamba", "conv1d", "mega", "gemm", "natten", "abn", "dcn", "rnnt",
                                                     "minkowski", "mmcv", "fairseq", "tensornvme", "xformers"))  # fmt: skip
        for at, version in enumerate(lacking):
            file = found[version].sdist
            if not reads_torch:
                torch[version] = "unused"
            elif file["size"] <= ARCHIVE or at in (0, len(lacking) - 1):
                try:
                    last = torch[version] = torch_of_build(name, file)
                except (SyntaxError, KeyError, tomllib.TOMLDecodeError):
                    torch[version] = last or "unused"
            else:
                torch[version] = last
        runs = []
        for version in versions:
            state = (found[version].without_wheel(), torch[version]) if version in torch else None
            if runs and runs[-1][0] == state:
                runs[-1][2] = version
            else:
                runs.append([state, version, version])
        for state, first, until in runs:
            if state is None:
                continue
            row = {"package": name, "from": str(first)}
            if until != versions[-1]:
                row["to"] = str(until)
            row |= {"pythons": state[0], "torch": state[1]}
            read = "; setup.py and pyproject.toml of their source archives" if reads_torch else ""
            if reads_torch and any(found[version].sdist["size"] > ARCHIVE for version in lacking):
                read += f" below {ARCHIVE // 2**20} MiB, and of the first and the last"
            row |= {"source": f"PyPI {name}, files of {first} to {until}{read}", "date": today}
            rows[f"{name}/{first}"] = row
        print(name, len(runs), file=sys.stderr)
    return rows


def requirements(release):
    """Returns what the metadata of a wheel requires; `None` if it has no wheel for Linux."""
    usable = [file for wheel_tags, file in release.wheels if any(TAGS[python] & wheel_tags for python in PYTHONS)]
    if not usable:
        return None
    try:
        text = fetch(usable[-1]["url"] + ".metadata").decode(errors="replace")
    except urllib.error.HTTPError:
        # The index does not keep the metadata of each wheel apart.
        with zipfile.ZipFile(io.BufferedReader(Remote(usable[-1]), 1 << 16)) as wheel:
            name = next(name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            text = wheel.read(name).decode(errors="replace")
    head = text.split("\n\n", 1)[0]
    found = []
    for line in re.findall(r"^Requires-Dist: (.*)$", head, re.MULTILINE):
        try:
            found.append(Requirement(line))
        except InvalidRequirement:
            continue
    return found


def several(ask, values):
    """Asks the index a few questions at a time."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(ask, values))


def applies(requirement, extra=""):
    environment = {"extra": extra, "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix",
                   "python_version": "3.12", "python_full_version": "3.12.9", "implementation_name": "cpython",
                   "platform_python_implementation": "CPython"}  # fmt: skip
    return not requirement.marker or requirement.marker.evaluate(environment)


def torch(today):
    rows = {}
    for written in TORCH_PINS:
        name, _, extra = written.removesuffix("]").partition("[")
        runs = []
        recent = {version: release for version, release in releases(name).items() if release.since >= SINCE}
        for version, found in zip(recent, several(requirements, recent.values()), strict=True):
            if found is None:
                continue
            plain = {normal(it.name) for it in found if applies(it)}
            wanted = {}
            for it in found:
                key = normal(it.name)
                if applies(it, extra) and key in NEIGHBOURS and not (extra and key in plain) and (key != "numpy" or it.specifier):
                    wanted[key] = str(it.specifier)
            if runs and runs[-1][0] == wanted:
                runs[-1][2] = version
            else:
                runs.append([wanted, version, version])
        for wanted, first, until in runs:
            row = {"package": name, "from": str(first), "to": str(until)}
            if extra:
                row["extra"] = extra
            row |= {"requires": wanted, "source": f"PyPI {name}, Requires-Dist of {first} to {until}", "date": today}
            rows[f"{written}/{first}"] = row
        print(written, len(runs), file=sys.stderr)
    return rows


def dependencies(today):
    rows = {}
    for name in DEPENDENCIES:
        try:
            known = [(version, release) for version, release in releases(name).items() if release.since >= SINCE]
        except urllib.error.HTTPError:
            print(f"{name}: not on the index", file=sys.stderr)
            continue
        # About six of them, the first and the last always.
        step = max(1, len(known) // 5)
        chosen = known[:-1:step] + known[-1:]
        always, read = None, []
        for (version, _), found in zip(chosen, several(requirements, [release for _, release in chosen]), strict=True):
            if found is None:
                continue
            read.append(version)
            names = {normal(it.name) for it in found if applies(it)}
            always = names if always is None else always & names
        if not read:
            print(f"{name}: no wheels", file=sys.stderr)
            continue
        rows[name] = {"requires": sorted(always), "source": f"PyPI {name}, Requires-Dist of {len(read)} releases, {read[0]} to {read[-1]}",
                      "date": today}  # fmt: skip
        print(name, len(always), file=sys.stderr)
    return rows


class Remote(io.RawIOBase):
    """A file of the index that is read in ranges, so that the list of a wheel's files is read without the wheel."""

    def __init__(self, file):
        self.url, self.size, self.at = file["url"], file["size"], 0

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer):
        count = min(self.size - self.at, len(buffer))
        if count <= 0:
            return 0
        data = fetch(self.url, Range=f"bytes={self.at}-{self.at + count - 1}")
        if len(data) > count:
            raise OSError(f"{self.url}: the index does not answer ranges")
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def top_levels(names):
    """Returns the names that can be imported, of the files of a wheel or of a directory of sources."""
    found = set()
    for name in names:
        parts = name.split("/")
        if NOT_IMPORTS.match(parts[0]):
            continue
        if len(parts) == 1:
            if match := re.match(r"([A-Za-z_]\w*)(?:\.py|\.cpython-\d+-.*\.so|\.abi3\.so|\.so)$", parts[0]):
                found.add(match[1])
        elif parts[-1].endswith((".py", ".so", ".pyx")) and parts[0].isidentifier():
            depth = 1
            while ".".join(parts[:depth]) in NAMESPACES and len(parts) > depth + 1 and parts[depth].isidentifier():
                depth += 1
            found.add(".".join(parts[:depth]))
    return {name for name in found if not any(part.startswith("_") for part in name.split("."))}


def releases_or_none(name):
    try:
        return releases(name)
    except urllib.error.HTTPError:
        return None


def imports(today):
    found, own = {}, {}
    for name, known in zip(IMPORTS, several(releases_or_none, IMPORTS), strict=True):
        if known is None:
            print(f"{name}: not on the index", file=sys.stderr)
            continue
        version, file = next(((version, file) for version, release in reversed(known.items())
                              for tags_of, file in release.wheels if any(TAGS[python] & tags_of for python in PYTHONS)), (None, None))  # fmt: skip
        if file is None:
            print(f"{name}: no wheel", file=sys.stderr)
            continue
        with zipfile.ZipFile(io.BufferedReader(Remote(file), 1 << 16)) as wheel:
            names = top_levels(wheel.namelist())
        print(name, version, sorted(names), file=sys.stderr)
        for module in names:
            if module != normal(name).replace("-", "_"):
                found.setdefault(module, []).append((normal(name), str(version)))
            else:
                own[module] = normal(name), str(version)
    rows = {}
    for module in sorted(found):
        # The distribution of the same name comes first.
        found[module] = [own[module], *found[module]] if module in own else found[module]
        source = "PyPI, files of the wheels of " + ", ".join(f"{name} {version}" for name, version in found[module])
        rows[module] = {"distributions": [name for name, _ in found[module]], "source": source, "date": today}
    return rows


LIST_MODULES = """
import sys
names = set(getattr(sys, "stdlib_module_names", ()))
if not names:
    import os, pkgutil, sysconfig
    folder = sysconfig.get_path("stdlib")
    names = set(sys.builtin_module_names) | {m.name for m in pkgutil.iter_modules([folder, os.path.join(folder, "lib-dynload")])}
print(sys.version.split()[0], *sorted(names))
"""


def library(today, pythons):
    rows = {}
    for python in pythons:
        run = subprocess.run([python, "-I", "-c", LIST_MODULES], capture_output=True, text=True, check=True)
        version, *names = run.stdout.split()
        short = ".".join(version.split(".")[:2])
        how = "sys.stdlib_module_names" if int(short.split(".")[1]) >= 10 else "modules of the directory Lib"
        rows[short] = {"modules": names, "source": f"CPython {version}, {how}", "date": today}
    return dict(sorted(rows.items(), key=lambda item: int(item[0].split(".")[1])))


def value_text(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in sorted(value.items())) + " }" if value else "{}"
    return json.dumps(value)


TABLES = {
    "builds": ("source_builds.toml", builds, """\
# Releases that have no wheel for a CPython of the training images on Linux and x86-64 (`pythons`), so that pip compiles them on each host.
# `from` and `to` are the first and the last release; without `to`, the newest one is among them. `torch` says how the build meets torch,
# which an isolated build does not have: "imported": it stops without it; "required": pip installs the torch that the build requires,
# whatever the image has; "optional": without it the compiled parts are left out; "unused". Written by requirement_facts.py.
"""),
    "torch": ("torch_requirements.toml", torch, """\
# What releases since 2024 require of torch and the packages that come with it, from the metadata of their wheels. `from` and `to` are
# the first and the last release with the same requirements. Written by requirement_facts.py.
"""),
    "dependencies": ("dependencies.toml", dependencies, """\
# Packages that every release since 2024 requires without an extra, on CPython 3.12, Linux and x86-64. Written by requirement_facts.py.
"""),
    "imports": ("import_names.toml", imports, """\
# Names of imports that differ from the name of the distribution, with `-` as `_`. Written by requirement_facts.py.
"""),
    "library": ("standard_library.toml", library, """\
# Modules of Python's standard library, by version. Written by requirement_facts.py.
"""),
}  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", choices=sorted(TABLES))
    parser.add_argument("--python", action="append", default=[], help="interpreter whose standard library is read")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="directory of the tables")
    parser.add_argument("--today", default=datetime.date.today().isoformat(), help="date of the rows")
    args = parser.parse_args(argv)
    for table in args.tables:
        name, make, head = TABLES[table]
        rows = make(args.today, args.python) if table == "library" else make(args.today)
        parts = [
            f"[{json.dumps(key)}]\n" + "\n".join(f"{column} = {value_text(value)}" for column, value in row.items()) + "\n"
            for key, row in rows.items()
        ]
        (args.data / name).write_text(head + "\n" + "\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
