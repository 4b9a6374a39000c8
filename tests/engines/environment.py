"""Makes an environment with the programs that the engines start, for tests on CPU processes.

    environment.py DIRECTORY

Prints its Python, for TRAINC_ENGINES_PYTHON. PyTorch's wheel for Linux links to 2 GB of CUDA's libraries, of which a
CPU calls none: the two that libtorch_cpu.so itself uses are installed, and a C compiler makes empty ones for the rest.
Some 620 MB are downloaded once; 2 GB stay.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
# Requires CUDA's wheels, which stay away.
TORCH = HERE / "requirements-nodeps.txt"
CUDA = re.compile(r"lib(?:cu|nv|nccl)")


def read(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library, kind):
    """Yields name and version of the symbols that a library defines, or leaves to others."""
    for line in read("nm", "-D", f"--{kind}-only", library).splitlines():
        name, _, version = line.split()[-1].replace("@@", "@").partition("@")
        yield name, version


def stub_cuda(site):
    """Makes libraries in place of CUDA's that are not installed, with every function that PyTorch links to."""
    folder = next(site.glob("nvidia/cu*/lib"))
    libraries = sorted(site.glob("torch/lib/*.so"))
    sections = [read("readelf", "-d", library) for library in libraries]
    needed = {name for text in sections for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text)}
    stubs = sorted(name for name in needed if CUDA.match(name) and not (folder / name).exists())
    installed = [*libraries, *folder.glob("*.so.*")]
    defined = {name for library in installed for name, _ in symbols(library, "defined")}
    versioned, plain = {}, set()
    for library in libraries:
        for name, version in symbols(library, "undefined"):
            if name in defined or not re.fullmatch(r"[A-Za-z]\w*", name):
                continue
            if version in stubs or version == "NVSHMEM":
                versioned.setdefault(version, set()).add(name)
            elif not version and re.match(r"cu|nccl|nv", name):
                plain.add(name)
    with tempfile.TemporaryDirectory() as scratch:
        code, script = pathlib.Path(scratch, "stub.c"), pathlib.Path(scratch, "stub.map")
        for stub in stubs:
            version = "NVSHMEM" if "nvshmem" in stub else stub
            named = sorted(versioned.get(version, ()))
            # Those without a version may stand in any library that libtorch_cuda.so is linked to.
            names = named + sorted(plain if stub.startswith("libcufile") else ())
            code.write_text("void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
            command = ["cc", "-shared", "-fno-builtin", f"-Wl,-soname,{stub}", "-o", folder / stub, code]
            if named:
                script.write_text(f"{version} {{ global: {' '.join(f'{name};' for name in named)} }};\n")
                command.append(f"-Wl,--version-script={script}")
            subprocess.run(command, check=True)


def main(directory):
    target = pathlib.Path(directory).absolute()
    python = target / "bin/python"
    want = REQUIREMENTS.read_text() + TORCH.read_text()
    stamp = target / "complete"
    if not (stamp.exists() and stamp.read_text() == want):
        print("engines: installing PyTorch, accelerate, DeepSpeed and transformers", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", target], check=True)
        install = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-r"]
        subprocess.run([*install, REQUIREMENTS], check=True)
        subprocess.run([*install, TORCH, "--no-deps"], check=True)
        site = pathlib.Path(read(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        stub_cuda(site)
        read(python, "-c", "import torch, accelerate, deepspeed, transformers")
        stamp.write_text(want)
    print(python)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
