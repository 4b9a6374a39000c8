#!/usr/bin/env python3
"""Builds what a release publishes: `packaging/dist.py [--target TARGET …] [--profile dist] [--out dist]`.

For each target an archive with both programs, man pages, completions and the licences of everything that is linked in, and a
wheel; a software bill of materials (CycloneDX), SHA256SUMS, and the root directory of the container image. Linux binaries are
linked by zig against glibc 2.28, the oldest of AlmaLinux 8 and Debian 10, and a binary that asks for more is an error.

Needs cargo and the Python of a machine that reaches PyPI: the build tools, pinned below, are installed into target/dist-tools.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
GLIBC = (2, 28)
TOOLS = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"]
PROGRAMS = ["trainc", "trainc-worker"]
LINUX = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
LICENCE_FILE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|UNLICENSE)", re.IGNORECASE)


def run(*command, **options):
    print("+", *command, file=sys.stderr)
    return subprocess.run(list(map(str, command)), cwd=ROOT, check=True, **options)


def output(*command):
    return run(*command, stdout=subprocess.PIPE, text=True).stdout


# --- what is linked in


def metadata(target):
    return json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))


def linked(data):
    """Returns the packages that are part of the programs, sorted by name: without dev and build dependencies."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    todo = [i for i, package in packages.items() if package["name"] in PROGRAMS and package["source"] is None]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return sorted((packages[i] for i in seen), key=lambda package: (package["name"], package["version"]))


def licence_texts(package):
    """Returns the names and texts of the licence files in a package's directory."""
    place = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in place.iterdir() if path.is_file() and LICENCE_FILE.match(path.name))
    return [(path.name, path.read_text(encoding="utf-8", errors="replace")) for path in files]


def third_party_licences(packages):
    """Returns the licences of all packages of others, each text once."""
    texts, lines = {}, ["Third-party software in trainc and trainc-worker, with its licences.\n"]
    for package in packages:
        if package["source"] is None:
            continue
        lines.append(f"{package['name']} {package['version']}: {package.get('license') or 'see its licence file'}")
        for name, text in licence_texts(package):
            texts.setdefault(text.strip(), []).append(f"{package['name']} {package['version']}, {name}")
    for text, users in texts.items():
        lines += ["", "-" * 100, *users, "-" * 100, text]
    return "\n".join(lines) + "\n"


def bill_of_materials(packages, version):
    """Returns a CycloneDX 1.5 document; without a time, so that the same tree gives the same bytes."""
    checksums = {}
    for block in (ROOT / "Cargo.lock").read_text(encoding="utf-8").split("[[package]]"):
        fields = dict(re.findall(r'^(name|version|checksum) = "([^"]+)"', block, re.MULTILINE))
        if "checksum" in fields:
            checksums[fields["name"], fields["version"]] = fields["checksum"]
    components = []
    for package in packages:
        if package["source"] is None:
            continue
        name, number = package["name"], package["version"]
        purl = f"pkg:cargo/{name}@{number}"
        component = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}
        if package.get("license"):
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if (name, number) in checksums:
            component["hashes"] = [{"alg": "SHA-256", "content": checksums[name, number]}]
        components.append(component)
    main = {"type": "application", "bom-ref": "trainc", "name": "trainc", "version": version}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main},
        "components": components,
    }


# --- binaries


def glibc_versions(text):
    """Returns the versions of glibc in the output of `readelf --version-info`, the newest last."""
    found = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+(?:\.\d+)+)", text)}
    # Packed relocations need glibc 2.36, although no symbol has that version.
    if "GLIBC_ABI_DT_RELR" in text:
        found.add((2, 36))
    return sorted(found)


def check_glibc(binary):
    """Returns the newest version of glibc that a binary asks for; raises SystemExit if it is newer than GLIBC."""
    versions = glibc_versions(output("readelf", "--version-info", "--wide", binary))
    newest = versions[-1] if versions else (0, 0)
    if newest > GLIBC:
        shown = ".".join(map(str, newest))
        raise SystemExit(f"error: {binary} asks for GLIBC_{shown}, more than {'.'.join(map(str, GLIBC))}")
    return newest


def tools():
    """Installs the pinned build tools; returns the directory of their programs."""
    place = TARGET / "dist-tools"
    if not (place / "bin/pip").exists():
        run(sys.executable, "-m", "venv", place)
    run(place / "bin/pip", "install", "--quiet", *TOOLS)
    return place / "bin"


def build(target, profile, bin_dir):
    """Builds both programs for a target; returns the directory that they are in."""
    os.environ["PATH"] = f"{bin_dir}{os.pathsep}{os.environ['PATH']}"
    packages = [word for program in PROGRAMS for word in ("-p", program)]
    is_gnu = target.endswith("-linux-gnu")
    command = "zigbuild" if "linux" in target else "build"
    triple = f"{target}.{'.'.join(map(str, GLIBC))}" if is_gnu else target
    run("cargo", command, "--locked", "--profile", profile, "--target", triple, *packages)
    return TARGET / target / ("debug" if profile == "dev" else profile)


def platform_tag(target):
    """Returns the platform of a wheel."""
    machine = target.split("-")[0]
    if target.endswith("-linux-gnu"):
        return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"
    return {"aarch64": "macosx_11_0_arm64", "x86_64": "macosx_10_12_x86_64"}[machine]


def write_wheel(target, version, programs, out):
    """Writes the wheel of programs that are built already: name -> content. The same as `pip wheel .` builds with maturin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tag = f"py3-none-{platform_tag(target)}"
    info = f"trainc-{version}.dist-info"
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / project["readme"]).read_text(encoding="utf-8"),
    ]
    files = {f"trainc-{version}.data/scripts/{name}": (content, 0o755) for name, content in programs.items()}
    files[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    files[f"{info}/METADATA"] = ("\n".join(metadata).encode(), 0o644)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: trainc\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)
    record = []
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}\n")
    files[f"{info}/RECORD"] = ("".join([*record, f"{info}/RECORD,,\n"]).encode(), 0o644)
    with zipfile.ZipFile(out / f"trainc-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


# --- files of a release


def add(archive, name, data, mode=0o644):
    """Adds a file without owner and time, so that the same content gives the same bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def write_archive(path, files):
    """Writes a .tar.gz of name -> (content, mode)."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, (data, mode) in sorted(files.items()):
                add(archive, name, data, mode)


def checksums(out):
    """Writes SHA256SUMS of all files of a directory."""
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def documents(scratch):
    """Returns the man pages and completions, which a build for this machine writes."""
    shutil.rmtree(scratch, ignore_errors=True)
    run("cargo", "run", "--locked", "-p", "trainc", "--no-default-features", "--example", "documents", "--", scratch)
    files = sorted(path for path in scratch.rglob("*") if path.is_file())
    return {str(path.relative_to(scratch)): (path.read_bytes(), 0o644) for path in files}


def container_root(binary, certificates):
    """Returns the files of the container image: a static binary, certificates, and a user that is not root."""
    return {
        "usr/bin/trainc": (pathlib.Path(binary).read_bytes(), 0o755),
        "etc/ssl/certs/ca-certificates.crt": (pathlib.Path(certificates).read_bytes(), 0o644),
        "etc/passwd": (b"trainc:x:65532:65532::/work:/sbin/nologin\n", 0o644),
        "etc/group": (b"trainc:x:65532:\n", 0o644),
        "work/.keep": (b"", 0o644),
    }


def host():
    system = {"Linux": "unknown-linux-gnu", "Darwin": "apple-darwin"}[platform.system()]
    machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    return f"{machine}-{system}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", action="append", help=f"default: {' and '.join(LINUX)} on Linux, else this machine")
    parser.add_argument("--profile", default="dist", help="profile of cargo")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--binaries", type=pathlib.Path, help="directory of programs that are built already, for one target")
    parser.add_argument("--container", type=pathlib.Path, help="CA certificates: also write the root of the container image")
    arguments = parser.parse_args()
    targets = arguments.target or (LINUX if platform.system() == "Linux" else [host()])
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    bin_dir = None if arguments.binaries else tools()
    shared = documents(TARGET / "dist-documents")
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        shared[name] = ((ROOT / name).read_bytes(), 0o644)
    for target in targets:
        data = metadata(target)
        version = next(package["version"] for package in data["packages"] if package["name"] == "trainc")
        packages = linked(data)
        binaries = arguments.binaries or build(target, arguments.profile, bin_dir)
        if target.endswith("-linux-gnu"):
            for program in PROGRAMS:
                newest = check_glibc(binaries / program)
                print(f"{program} for {target}: GLIBC_{'.'.join(map(str, newest))}", file=sys.stderr)
        top = f"trainc-{version}-{target}"
        bill = json.dumps(bill_of_materials(packages, version), indent=1, sort_keys=True) + "\n"
        (out / f"{top}.cdx.json").write_text(bill, encoding="utf-8")
        licences = {"THIRD-PARTY-LICENSES.txt": (third_party_licences(packages).encode(), 0o644)}
        files = {f"{top}/{name}": content for name, content in {**shared, **licences}.items()}
        programs = {program: (binaries / program).read_bytes() for program in PROGRAMS}
        files |= {f"{top}/{program}": (content, 0o755) for program, content in programs.items()}
        write_archive(out / f"{top}.tar.gz", files)
        if arguments.container and target.endswith("-musl"):
            root = container_root(binaries / "trainc", arguments.container)
            write_archive(out / f"trainc-{version}-{target}.rootfs.tar.gz", root)
        if not target.endswith("-musl"):
            write_wheel(target, version, programs, out)
    checksums(out)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>12}  {path.name}")


if __name__ == "__main__":
    main()
