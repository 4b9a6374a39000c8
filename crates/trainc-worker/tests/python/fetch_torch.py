"""Fetches what the worker's tests need of PyTorch from PyPI: its libraries for CPU tensors, its list of operators and the
declarations of its functions for GPUs.

    fetch_torch.py VERSION DIRECTORY

The wheel of Linux is built with CUDA: libtorch_cpu.so itself needs the libraries of two more wheels. Some 530 to 920 MB are
downloaded once; 450 MB stay. Prints torch/lib, for TRAINC_TORCH_LIB.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libgomp", "libtorch_global_deps.so")
OPERATORS = "torchgen/packaged/ATen/native/native_functions.yaml"
HEADER = "torch/include/torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h"
# Of the wheels that torch requires, those that libtorch_cpu.so is linked to.
LINKED = re.compile(r"^Requires-Dist: ((?:nvidia-cuda-runtime|nvidia-cuda-cupti)[\w-]*)\s*\(?==([\w.]+)")
# Newer wheels name the CUDA toolkit, whose extras are these wheels.
TOOLKIT = re.compile(r"^Requires-Dist: cuda-toolkit\[[^\]]*\]\s*\(?==([\d.]+)")


def download(requirement, directory):
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory, requirement], check=True
    )


def linked(metadata):
    found = [f"{m[1]}=={m[2]}" for m in map(LINKED.match, metadata) if m]
    toolkit = next((m[1] for m in map(TOOLKIT.match, metadata) if m), None)
    if toolkit:
        major = toolkit.split(".")[0]
        found = [f"{name}=={major}.*" for name in ("nvidia-cuda-runtime", "nvidia-cuda-cupti")]
    return found


def main(version, directory):
    target = pathlib.Path(directory)
    library = target / "torch/lib"
    if not ((target / "complete").exists() and (target / HEADER).exists()):
        with tempfile.TemporaryDirectory(dir=target.parent if target.parent.is_dir() else None) as scratch:
            scratch = pathlib.Path(scratch)
            download(f"torch=={version}", scratch)
            with zipfile.ZipFile(next(scratch.glob("torch-*.whl"))) as wheel:
                names = wheel.namelist()
                metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
                requirements = linked(wheel.read(metadata).decode().splitlines())
                if len(requirements) != 2:
                    sys.exit(f"error: torch {version} requires other wheels than expected: {requirements}")
                for name in names:
                    folder, _, file = name.rpartition("/")
                    if name in (OPERATORS, HEADER) or (folder in ("torch/lib", "torch.libs") and file.startswith(LIBRARIES)):
                        wheel.extract(name, target)
            for requirement in requirements:
                download(requirement, scratch)
            for wheel in scratch.glob("nvidia*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(target, [name for name in archive.namelist() if ".so" in name])
        (target / "complete").write_text(version + "\n")
    print(library)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
