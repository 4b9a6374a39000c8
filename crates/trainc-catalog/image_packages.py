"""Writes the rows of packages.toml about the training images from the Dockerfiles of aws/deep-learning-containers.

    git clone https://github.com/aws/deep-learning-containers /tmp/containers   # with its history
    python3 crates/trainc-catalog/image_packages.py /tmp/containers             # prints the rows
    python3 crates/trainc-catalog/image_packages.py /tmp/containers --write     # and puts them into packages.toml

A row is read from the newest commit whose Dockerfile builds the image: the stage for SageMaker and those that it is built from, for
GPUs. The images on Amazon Linux 2023 (PyTorch 2.11 and newer) are read from their uv.lock. A package that the Dockerfile installs
with `==`, or as a wheel by its address, is in `versions`; any other is in `ranges` with what was asked for. What only the
dependencies of these bring is in `through`: `uv pip compile` resolves them as of the day after the commit (the later one of the
image and of that below it). Nothing is installed.

Needs Python 3.11, git, and `pip install packaging uv`.
"""

import argparse
import datetime
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib

from packaging.markers import Marker
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

DATA = pathlib.Path(__file__).resolve().parent / "src" / "data"
BRANCHES = ["main", "master"]
# What conda calls otherwise, and repositories whose distribution has another name.
DISTRIBUTIONS = {
    "pytorch": "torch",
    "opencv": "opencv-python",
    "transformerengine": "transformer-engine",
    "sagemaker-debugger": "smdebug",
    "sagemaker-training-toolkit": "sagemaker-training",
    "sagemaker-pytorch-training-toolkit": "sagemaker-pytorch-training",
    "sagemaker-pytorch-container": "sagemaker-pytorch-training",
}
# Packages of conda that are no distributions of Python.
NOT_PYTHON = re.compile(
    r"(python|conda|conda-.*|mamba|libgcc.*|libcurl|lib.*|curl|cuda-.*|cudatoolkit|cudnn|nccl|mkl-include|magma-.*|pytorch-cuda|aws-ofi-nccl.*"
    r"|openssl|gcc.*|gxx.*|glibc|ncurses|sqlite|readline|tk|xz|zlib|bzip2|ca-certificates|cmake|ffmpeg|jpeg|libpng|git|metis|openblas|blas"
    r"|ninja-build|llvm|icu|krb5|nodejs|_.*)$"
)
# Options of pip and conda with a value.
WITH_VALUE = {
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "--channel", "--trusted-host",
    "--global-option", "--install-option", "--config-settings", "-t", "--target", "--python", "--build-option", "-p", "--prefix",
    "-n", "--name", "--progress-bar", "--timeout", "--retries", "--cache-dir", "--log", "--root-user-action",
}  # fmt: skip
# Requirements of distributions without a wheel, which uv would have to build: read in their setup.py.
NO_WHEEL = {
    "flash-attn": ["torch", "einops"],
    "apex": [],
    "transformer-engine": ["pydantic", "importlib-metadata>=1.0", "packaging", "torch"],
    "smdebug": ["protobuf", "numpy", "packaging", "boto3", "pyinstrument"],
    "torchnet": ["torch", "six", "visdom"],
    "horovod": ["cloudpickle", "psutil", "pyyaml", "packaging"],
}
# Of images with an older Python, dependencies are not resolved: their releases of that time have no wheels that uv could read.
OLDEST = [3, 10]
# How uv names the package that it could not resolve.
CULPRIT = r"\b([A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9])(?=\[| ?[=<>]{1,2}\d| has| have| was| is|`)"
# Packages whose releases exclude each other most; only their names are needed.
ANY_VERSION = ["boto3", "botocore", "s3transfer", "aiobotocore", "fsspec", "urllib3", "protobuf", "packaging", "numpy", "pyarrow",
               "pyyaml", "docutils", "importlib-metadata", "typing-extensions", "attrs", "rsa", "colorama"]  # fmt: skip
# Bound of one resolution, in seconds.
LIMIT = 120


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def git(clone, *words, check=True):
    run = subprocess.run(["git", "-C", str(clone), *words], capture_output=True, text=True, check=check)
    return run.stdout


def instructions(text):
    """Yields the instructions of a Dockerfile: (word, rest), with continued lines joined and comments left out."""
    parts = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        continued = line.rstrip().endswith("\\")
        parts.append(line.rstrip().removesuffix("\\"))
        if continued:
            continue
        whole = " ".join(parts).strip()
        parts = []
        if found := re.match(r"(\w+)\s+(.*)$", whole, re.DOTALL):
            yield found[1].upper(), found[2]


def substitute(text, variables):
    def value(found):
        name, default = found[1] or found[3], found[2]
        known = variables.get(name)
        if known is None:
            known = default[2:] if default and default.startswith(":-") else ""
        return known

    # `pip install ${A}` inside the value of another one.
    for _ in range(3):
        new = re.sub(r"\$\{(\w+)(:-[^}]*)?\}|\$(\w+)", value, text)
        if new == text:
            break
        text = new
    return text


def assignments(rest):
    for part in shlex.split(rest.replace("\\", " ")):
        name, sep, value = part.partition("=")
        yield name, value if sep else None


class Stage:
    def __init__(self, base):
        self.base, self.runs, self.variables = base, [], {}


def read_stages(text, arguments):
    """Returns the stages of a Dockerfile by name, and the name of the last one. `arguments` are those of the build."""
    outer, stages, stage, last = {}, {}, None, None
    for word, rest in instructions(text):
        if word == "FROM":
            found = re.match(r"(?:--platform=\S+\s+)?(\S+)(?:\s+[aA][sS]\s+(\S+))?", rest)
            base = substitute(found[1], outer)
            last = found[2] or f"stage-{len(stages)}"
            stage = stages[last] = Stage(base)
            if base in stages:
                stage.variables = dict(stages[base].variables)
        elif word == "ARG":
            for name, value in assignments(rest):
                scope = stage.variables if stage else outer
                if name in arguments:
                    scope[name] = arguments[name]
                elif value is not None:
                    scope[name] = substitute(value, {**outer, **scope})
                elif name in outer:
                    scope[name] = outer[name]
        elif word == "ENV" and stage:
            if re.match(r"\w+\s+[^=]*$", rest):
                name, _, value = rest.partition(" ")
                stage.variables[name] = substitute(value.strip(), stage.variables)
            else:
                try:
                    pairs = list(assignments(rest))
                except ValueError:
                    continue
                for name, value in pairs:
                    stage.variables[name] = substitute(value or "", stage.variables)
        elif word == "RUN" and stage:
            stage.runs.append(substitute(rest, {**os_like(), **stage.variables}))
    return stages, last


def os_like():
    return {"HOME": "/root"}


def chain(stages, name):
    """Returns the stages that `name` is built from, first one first, and the image below."""
    found = []
    while name in stages:
        found.append(stages[name])
        name = stages[name].base
    return found[::-1], name


class Installed:
    """The distributions that commands install: name -> (exact version or None, what was asked for)."""

    def __init__(self):
        self.named, self.removed, self.extras = {}, set(), {}

    def put(self, name, version, asked, extras=()):
        name = re.sub(r"^dgl-cu[da]*[\d-]+$", "dgl", normal(name))
        name = DISTRIBUTIONS.get(name, name)
        self.named[name] = (version, asked)
        self.extras.setdefault(name, set()).update(extras)
        self.removed.discard(name)

    def take(self, name):
        name = normal(re.split(r"[=<>~!]", name)[0])
        self.named.pop(name, None)
        self.removed.add(name)

    def over(self, below):
        """Returns what an image has that is built from another one."""
        whole = Installed()
        whole.named = {name: found for name, found in below.named.items() if name not in self.removed} | self.named
        whole.removed = (self.removed | below.removed) - set(whole.named)
        whole.extras = below.extras | self.extras
        return whole

    def run(self, text):
        repository = None
        for command in re.split(r"&&|\|\||;|\n", text):
            command = re.sub(r"\s#.*$", "", command)
            try:
                words = shlex.split(command)
            except ValueError:
                words = command.split()
            while words and (re.match(r"\w+=", words[0]) or words[0] in ("if", "then", "else", "do", "!", "sudo")):
                words.pop(0)
            if words[:2] == ["git", "clone"]:
                address = next((word for word in words if "://" in word or word.startswith("git@")), "")
                repository = re.sub(r"\.git$", "", address.rstrip("/")).rsplit("/", 1)[-1], ref_of(words)
                continue
            at = next((at for at, word in enumerate(words) if word in ("install", "uninstall", "remove")), None)
            if at is None:
                if words[:2] == ["python", "setup.py"] and "install" in words and repository:
                    self.put(repository[0], *repository[1])
                continue
            programs = {pathlib.PurePath(word).name for word in words[:at]}
            pip = any(re.fullmatch(r"pip[\d.]*", program) for program in programs)
            conda = bool(programs & {"conda", "mamba"})
            if "setup.py" in programs and repository:
                self.put(repository[0], *repository[1])
            if not (pip or conda):
                continue
            self.arguments(words[at], words[at + 1 :], conda, repository)

    def arguments(self, action, words, conda, repository):
        words = iter(words)
        for word in words:
            if word in WITH_VALUE or word == "-r":
                next(words, None)
                continue
            if word.startswith("-") or re.fullmatch(r"\d?>+.*|\|.*", word) or not word.strip():
                continue
            if action != "install":
                self.take(word)
            elif word in (".", "./"):
                if repository:
                    self.put(repository[0], *repository[1])
            elif "://" in word:
                self.address(word)
            elif word.endswith(".whl"):
                self.wheel(word)
            elif found := re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[([^\]]*)\])?\s*(.*)$", word):
                name, extras, asked = found[1], found[2], found[3].partition(";")[0].strip().replace(" ", "")
                if conda:
                    if NOT_PYTHON.match(name.lower()):
                        continue
                    asked = re.sub(r"^=(?!=)([^=*]+).*$", r"==\1", asked)
                # A variable of the Dockerfile without a value.
                asked = "" if asked in ("=", "==") else asked
                exact = re.fullmatch(r"={2,3}([^,*=<>!~]+)", asked)
                extras = [normal(extra) for extra in extras.split(",")] if extras else ()
                self.put(name, exact and exact[1], "" if exact else asked, extras)

    def address(self, word):
        if word.endswith(".whl") or ".whl" in word:
            self.wheel(word)
        elif found := re.match(r"git\+.*?/([^/@]+?)(?:\.git)?(?:@([^#]+))?(?:#egg=(.+))?$", word):
            self.put(found[3] or found[1], *version_of_ref(found[2]))
        elif found := re.search(r"/([^/]+)/archive/", word):
            self.put(found[1], None, "")
        elif found := re.search(r"/([A-Za-z0-9_.-]+?)-(\d[^/]*?)\.(?:tar\.gz|zip)$", word):
            self.put(found[1], found[2], "")

    def wheel(self, word):
        name = word.split("?")[0].split("#")[0].rsplit("/", 1)[-1].replace("%2B", "+").replace("%2b", "+")
        try:
            found = parse_wheel_filename(name)
            self.put(found[0], str(found[1]), "")
        except InvalidWheelFilename:
            parts = name.split("-")
            if len(parts) > 2:
                self.put(parts[0], parts[1], "")


def ref_of(words):
    for option in ("-b", "--branch"):
        if option in words:
            return version_of_ref(words[words.index(option) + 1])
    return None, ""


def version_of_ref(ref):
    """The version that a branch or a tag of a repository says."""
    if found := re.fullmatch(r"release_v(\d+\.\d+)", ref or ""):
        return None, f"=={found[1]}.*"
    if found := re.fullmatch(r"v?(\d+\.\d+\.\d+)", ref or ""):
        return found[1], ""
    return None, ""


def version_key(version):
    return [int(part) if part.isdigit() else -1 for part in re.split(r"[.]", version)]


class Commits:
    def __init__(self, clone):
        self.clone, self.texts = clone, {}

    def of(self, path):
        """The commits that change a file, newest first: (hash, date)."""
        found = []
        for branch in BRANCHES:
            for line in git(self.clone, "log", "--format=%H %cs", branch, "--", path, check=False).splitlines():
                found.append(tuple(line.split()))
        return sorted(set(found), key=lambda commit: commit[1], reverse=True)

    def text(self, commit, path):
        key = commit, path
        if key not in self.texts:
            self.texts[key] = git(self.clone, "show", f"{commit}:{path}", check=False)
        return self.texts[key]

    def paths(self, under, pattern):
        lines = git(
            self.clone, "log", "--diff-filter=AMR", "--name-only", "--format=", *BRANCHES, "--", under, check=False
        ).splitlines()
        return sorted({line for line in lines if re.fullmatch(pattern, line)})


def read_dockerfile(text, arguments):
    """Returns what the SageMaker stage of a Dockerfile installs, the image below, and the version of Python."""
    stages, last = read_stages(text, arguments)
    found, below = chain(stages, "sagemaker" if "sagemaker" in stages else last)
    installed = Installed()
    python = None
    for stage in found:
        for run in stage.runs:
            installed.run(run)
        python = stage.variables.get("PYTHON_SHORT_VERSION") or stage.variables.get("PYTHON_VERSION") or python
    text_python = re.search(r"^ARG PYTHON_(?:SHORT_)?VERSION=(\d\.\d+)", text, re.MULTILINE)
    python = python or (text_python and text_python[1])
    named = re.search(r"-py(\d)(\d+)", below)
    if not python and named:
        python = f"{named[1]}.{named[2]}"
    return installed, below, python and ".".join(python.split(".")[:2])


def pytorch_images(commits, versions):
    for version in versions:
        short = ".".join(version.split(".")[:2])
        pattern = (
            rf"pytorch/training/docker/(?:{re.escape(version)}|{re.escape(short)})/py3\d*/(?:cu\d+/)?Dockerfile(?:\.sagemaker)?\.gpu"
        )
        paths = commits.paths("pytorch/training/docker", pattern)
        candidates = [(date, commit, path) for path in paths for commit, date in commits.of(path)]
        for date, commit, path in sorted(candidates, reverse=True):
            text = commits.text(commit, path)
            if "sagemaker" not in text.lower():
                continue
            installed, below, python = read_dockerfile(text, {})
            if not below:
                # The image below is the one for EC2 of the same commit.
                names = [path.replace("sagemaker.gpu", f"{name}.gpu") for name in ("ec2", "e3")]
                of_ec2 = next(filter(None, (commits.text(commit, name) for name in names)), None)
                if of_ec2 is None:
                    continue
                under, _, lower = read_dockerfile(of_ec2, {})
                installed, python = installed.over(under), python or lower
            torch = installed.named.get("torch", (None, ""))[0]
            if "torch" in installed.named and not torch:
                # The stage does not repeat the argument, so that conda is asked for no version; the tag has it.
                argument = re.search(r"^ARG PYTORCH_VERSION=(\S+)", text, re.MULTILINE)
                torch = argument and argument[1]
            if torch and torch.split("+")[0] == version:
                installed.put("torch", torch, "")
                yield f"pytorch/{version}", Row(installed, python, commit, date, path)
                break
        else:
            print(f"# pytorch/{version}: no Dockerfile", file=sys.stderr)


def buildspecs(commits, commit, pytorch):
    """Yields (transformers, datasets) of the buildspecs for a version of PyTorch."""
    folder = "huggingface/pytorch/training"
    names = git(commits.clone, "ls-tree", "--name-only", commit, f"{folder}/", "huggingface/pytorch/", check=False)
    for name in names.splitlines():
        if not name.endswith(".yml"):
            continue
        text = commits.text(commit, name)
        version = re.search(r"^version: &VERSION ([\d.]+)", text, re.MULTILINE)
        if not version or version[1] != pytorch:
            continue
        transformers = re.search(r"transformers_version: &TRANSFORMERS_VERSION ([\d.]+)", text)
        datasets = re.search(r"datasets_version: &DATASETS_VERSION ([\d.]+)", text)
        if transformers:
            yield transformers[1], datasets and datasets[1]


def huggingface_images(commits, pairs):
    seen = set()
    for transformers, pytorch in pairs:
        short = ".".join(pytorch.split(".")[:2])
        pattern = rf"huggingface/pytorch/training/docker/{re.escape(short)}/py3\d*/cu\d+/Dockerfile\.gpu"
        paths = commits.paths("huggingface/pytorch/training/docker", pattern)
        candidates = [(date, commit, path) for path in paths for commit, date in commits.of(path)]
        for date, commit, path in sorted(candidates, reverse=True):
            text = commits.text(commit, path)
            arguments = {}
            specs = list(buildspecs(commits, commit, pytorch))
            match = [spec for spec in specs if spec[0] == transformers]
            if match:
                arguments = {"TRANSFORMERS_VERSION": match[0][0], "DATASETS_VERSION": match[0][1] or ""}
            default = re.search(r"^ARG TRANSFORMERS_VERSION=(\S+)", text, re.MULTILINE)
            if default:
                arguments.pop("TRANSFORMERS_VERSION", None)
            if re.search(r"^ARG DATASETS_VERSION=(\S+)", text, re.MULTILINE):
                arguments.pop("DATASETS_VERSION", None)
            installed, below, python = read_dockerfile(text, arguments)
            base = re.search(r"pytorch-training:(\d+\.\d+\.\d+)-gpu", below)
            if not base or base[1] != pytorch or installed.named.get("transformers", ("",))[0] != transformers:
                continue
            row = Row(installed, python, commit, date, path)
            row.base = f"pytorch/{pytorch}"
            # The newest transformers of a version of PyTorch has the short key.
            key = f"huggingface/{pytorch}" + (f"/{transformers}" if pytorch in seen else "")
            seen.add(pytorch)
            yield key, row
            break
        else:
            print(f"# huggingface/{transformers}/{pytorch}: no Dockerfile", file=sys.stderr)


def config_arguments(text):
    """The arguments of the build in a configuration of an image: its `build:` block."""
    block = re.search(r"^build:\n((?:  .*\n|\s*#.*\n)+)", text, re.MULTILINE)
    pairs = re.findall(r'^  (\w+): "?([^"\n]+?)"?$', block[1], re.MULTILINE) if block else []
    return {name.upper(): value for name, value in pairs}


def lock_closure(lock, python):
    """Returns name -> version of what a uv.lock installs for Linux on x86-64, with the extra `sagemaker`."""
    environment = {
        "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix",
        "python_version": python, "python_full_version": f"{python}.0", "platform_python_implementation": "CPython",
        "implementation_name": "cpython", "extra": "",
    }  # fmt: skip
    packages = {}
    for package in lock["package"]:
        packages.setdefault(package["name"], []).append(package)
    root = next(package for package in lock["package"] if "virtual" in package["source"] or "editable" in package["source"])
    found, queue = {}, []

    def add(dependencies):
        for dependency in dependencies:
            if "marker" in dependency and not Marker(dependency["marker"]).evaluate(environment):
                continue
            options = packages[dependency["name"]]
            wanted = dependency.get("version")
            package = next((option for option in options if not wanted or option["version"] == wanted), options[0])
            queue.append((package, tuple(sorted(dependency.get("extra", [])))))

    add(root["dependencies"])
    add(root["optional-dependencies"]["sagemaker"])
    seen = set()
    while queue:
        package, extras = queue.pop()
        key = package["name"], extras
        if key in seen:
            continue
        seen.add(key)
        found[package["name"]] = package["version"]
        add(package.get("dependencies", []))
        for extra in extras:
            add(package.get("optional-dependencies", {}).get(extra, []))
    return found


def locked_images(commits):
    """The images on Amazon Linux 2023."""
    head = git(commits.clone, "rev-parse", "main").strip()
    date = git(commits.clone, "log", "-1", "--format=%cs", "main").strip()
    names = git(commits.clone, "ls-tree", "-r", "--name-only", head, "docker/pytorch").splitlines()
    for path in sorted(name for name in names if re.fullmatch(r"docker/pytorch/[\d.]+/cuda/uv\.lock", name)):
        short = path.split("/")[2]
        config = commits.text(head, f".github/config/image/pytorch/{short}-sagemaker-cuda.yml")
        arguments = config_arguments(config)
        python = ".".join(arguments.get("PYTHON_VERSION", "3.12").split(".")[:2])
        found = lock_closure(tomllib.loads(commits.text(head, path)), python)
        installed = Installed()
        for name, version in found.items():
            installed.put(name, version, "")
        torch = found["torch"].split("+")[0]
        installed.put("transformer-engine", arguments["TRANSFORMER_ENGINE_VERSION"], "", ["pytorch"])
        installed.put("flash-attn", arguments["FLASH_ATTN_VERSION"], "")
        installed.put("pip", None, "")
        row = Row(installed, python, head, date, path)
        row.complete = True
        yield f"pytorch/{torch}", row
    path = "docker/huggingface/pytorch/Dockerfile"
    folder = ".github/config/image/huggingface-pytorch-training/"
    for name in git(commits.clone, "ls-tree", "--name-only", head, folder).splitlines():
        if not name.endswith("-sagemaker.yml"):
            continue
        arguments = config_arguments(commits.text(head, name))
        base = re.search(r"pytorch:(\d+\.\d+\.\d+)-", arguments["BASE_IMAGE"])[1]
        installed, _, _ = read_dockerfile(commits.text(head, path), arguments)
        row = Row(installed, arguments["PYTHON_VERSION"], head, date, f"{path}, {name}")
        row.base = f"pytorch/{base}"
        yield f"huggingface/{base}", row


class Row:
    def __init__(self, installed, python, commit, date, path):
        self.installed, self.python, self.commit, self.date, self.path = installed, python, commit, date, path
        self.base, self.through, self.complete = None, None, False

    def requirements(self, below):
        """What is asked of the index, also by the image below, and the versions that are kept whatever others ask for."""
        wanted, kept = [], []
        named = {**(below.installed.named if below else {}), **self.installed.named}
        for name, (version, asked) in named.items():
            extras = self.installed.extras.get(name) or (below and below.installed.extras.get(name)) or set()
            text = f"{name}[{','.join(sorted(extras))}]" if extras else name
            if name in self.installed.removed or name.startswith(("smdistributed-", "smppy", "smprof")) or name in NO_WHEEL:
                wanted += NO_WHEEL.get(name, [])
                continue
            wanted.append(text)
            asked = f"=={version.split('+')[0]}" if version else asked
            # Also without a version: the steps of a Dockerfile do not heed what others ask for, and uv would search for long.
            kept.append(f"{text}{asked or '>=0'}")
        # An override replaces the extras, too.
        kept += [f"{name}>=0" for name in ANY_VERSION if name not in named]
        return wanted, kept

    def resolve(self, below, folder):
        """Finds the distributions that the named ones bring."""
        if self.complete:
            # The lock names everything but what these two bring.
            wanted, kept = ["pydantic", "onnx", "onnxscript", "nvdlfw-inspect", "einops", "packaging", "importlib-metadata"], []
        else:
            wanted, kept = self.requirements(below)
        if version_key(self.python) < OLDEST:
            return None, None
        # The image below was built again after the Dockerfile of this one was changed last.
        read = max(row.date for row in (self, below) if row)
        until = datetime.date.fromisoformat(read) + datetime.timedelta(days=1)
        dropped = []
        for _ in range(12):
            names = [line for line in wanted if re.split(r"[\[<>=~! ]", line)[0] not in dropped]
            overrides = [line for line in kept if re.split(r"[\[<>=~! ]", line)[0] not in dropped]
            (folder / "in.txt").write_text("\n".join(names) + "\n")
            (folder / "over.txt").write_text("\n".join(overrides) + "\n")
            run = run_bounded(
                ["uv", "pip", "compile", "in.txt", "--override", "over.txt", "--python-version", self.python,
                 "--python-platform", "x86_64-manylinux_2_31", "--exclude-newer", until.isoformat(), "--no-header",
                 "--no-annotate", "-q", "--index-strategy", "first-index"],
                folder,
            )  # fmt: skip
            if run is None:
                print("# not resolved in time", file=sys.stderr)
                return None, None
            if run.returncode == 0:
                resolved = {normal(re.split(r"[\[=@ ]", line)[0]) for line in run.stdout.splitlines() if line[:1].isalnum()}
                return resolved, dropped
            # One that has no wheel, or none of the version, is left out: what it brings is then unknown.
            asked = {normal(re.split(r"[\[<>=~! ]", line)[0]) for line in names}
            message = " ".join(run.stderr.split())
            found = [normal(name) for name in re.findall(CULPRIT, message)]
            culprit = next((name for name in found if name in asked and name not in dropped), None)
            if culprit is None:
                print(f"# not resolved: {message[:400]}", file=sys.stderr)
                return None, None
            dropped.append(culprit)
        return None, None


def run_bounded(command, folder):
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None


def text_of(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in sorted(value.items())) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(json.dumps(v) for v in sorted(value)) + "]"
    return json.dumps(value)


def write_rows(rows, today):
    parts = []
    for key, row in rows.items():
        below = rows.get(row.base)
        versions = {name: version for name, (version, _) in row.installed.named.items() if version}
        ranges = {name: asked for name, (version, asked) in row.installed.named.items() if not version}
        columns = {"python": row.python, "base": row.base}
        columns["complete"] = True if row.complete else None
        columns["versions"] = versions
        columns["ranges"] = ranges or None
        if row.through is not None:
            through = row.through - set(versions) - set(ranges) - row.installed.removed
            if below:
                through -= set(below.installed.named) | (below.through or set())
            columns["through"] = sorted(through)
        present = set(versions) | set(ranges)
        columns["removed"] = sorted(row.installed.removed - present) or None
        columns["source"] = f"aws/deep-learning-containers @{row.commit[:10]} ({row.date}) {row.path}"
        columns["date"] = today
        lines = [f"{name} = {text_of(value)}" for name, value in columns.items() if value is not None]
        parts.append(f'["{key}"]\n' + "\n".join(lines) + "\n")
    return "\n".join(parts)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("containers", type=pathlib.Path, help="clone of aws/deep-learning-containers with its history")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="directory of the tables")
    parser.add_argument("--today", default=datetime.date.today().isoformat(), help="date of the rows")
    parser.add_argument("--no-resolve", action="store_true", help="leave out what dependencies bring")
    parser.add_argument("--write", action="store_true", help="replace the rows of packages.toml")
    args = parser.parse_args(argv)
    images = tomllib.loads((args.data / "images.toml").read_text(encoding="utf-8"))
    pytorch = [key.split("/")[1] for key in images if key.startswith("pytorch/")]
    pairs = [tuple(key.split("/")[1:3]) for key in images if key.startswith("huggingface/")]
    # An image of Hugging Face that the SDK does not list.
    pairs.append(("4.51.3", "2.6.0"))
    pairs.sort(key=lambda pair: (version_key(pair[1]), [-part for part in version_key(pair[0])]))
    commits = Commits(args.containers)
    rows = dict(pytorch_images(commits, sorted(pytorch, key=version_key)))
    rows |= dict(huggingface_images(commits, pairs))
    rows |= dict(locked_images(commits))
    with tempfile.TemporaryDirectory() as folder:
        for key, row in rows.items():
            row.through = None
            if args.no_resolve:
                continue
            row.through, dropped = row.resolve(rows.get(row.base), pathlib.Path(folder))
            print(f"# {key}: {len(row.through or ())} resolved, left out: {dropped}", file=sys.stderr, flush=True)
    text = write_rows(rows, args.today)
    if not args.write:
        print(text)
        return
    path = args.data / "packages.toml"
    kept = path.read_text(encoding="utf-8").split('\n["pytorch/', 1)[0].split('\n["huggingface/', 1)[0]
    path.write_text(kept.rstrip("\n") + "\n\n" + text, encoding="utf-8")


if __name__ == "__main__":
    main()
