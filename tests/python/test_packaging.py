"""Packaging: the workflows and their scripts, the installer, and the parts of packaging/dist.py."""

import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import tarfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).parent.parent.parent
BIN = pathlib.Path(sys.executable).parent
BINARY = os.environ.get("TRAINC_BIN")
WORKFLOWS = sorted([*(ROOT / ".github/workflows").glob("*.yml"), *(ROOT / "examples/gitops/github").glob("*.yml")])
GITLAB = ROOT / "examples/gitops/gitlab/.gitlab-ci.yml"

spec = importlib.util.spec_from_file_location("dist", ROOT / "packaging/dist.py")
dist = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dist)


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    ("schema", "files", "flags"),
    [
        ("vendor.github-workflows", WORKFLOWS, []),
        ("vendor.github-actions", [ROOT / "action.yml"], []),
        ("vendor.gitlab-ci", [GITLAB], ["--data-transform", "gitlab-ci"]),
    ],
)
def test_workflows_have_their_schema(schema, files, flags):
    assert files
    done = run(BIN / "check-jsonschema", "--builtin-schema", schema, *flags, *files)
    assert done.returncode == 0, done.stdout


def test_workflows_are_audited():
    done = run(BIN / "zizmor", "--offline", "--no-progress", *WORKFLOWS, ROOT / "action.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def scripts():
    """Returns (name, shell, script) of every step that runs one."""
    for path in [*WORKFLOWS, ROOT / "action.yml"]:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
        for job in jobs:
            for step in job["steps"]:
                if "run" in step:
                    yield f"{path.name}: {step.get('name', step['run'])}", step["run"]
    for name, job in yaml.safe_load(GITLAB.read_text(encoding="utf-8")).items():
        if isinstance(job, dict) and "script" in job:
            yield f"{GITLAB.name}: {name}", "\n".join(job["script"])


@pytest.mark.parametrize(("name", "script"), list(scripts()))
def test_scripts_of_steps_are_bash_without_expressions(name, script):
    """An expression in a script would run what a pull request names."""
    assert "${{" not in script, name
    done = run("bash", "-n", "-c", script)
    assert done.returncode == 0, (name, done.stderr)


# --- the installer, and the steps that install


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """Returns a directory with a release whose programs are scripts, and the checksum of its archive."""
    place = tmp_path_factory.mktemp("release")
    name = f"trainc-1.2.3-{dist.host()}"
    program = b"#!/bin/sh\necho program \"$@\"\n"
    (place / "v1.2.3").mkdir()
    archive = place / "v1.2.3" / f"{name}.tar.gz"
    dist.write_archive(archive, {f"{name}/{program_name}": (program, 0o755) for program_name in dist.PROGRAMS})
    return place, hashlib.sha256(archive.read_bytes()).hexdigest()


def test_the_installer_checks_and_installs(release, tmp_path):
    place, checksum = release
    script = ROOT / "packaging/install.sh"
    env = {"PATH": os.environ["PATH"], "TRAINC_RELEASES": place.as_uri()}
    done = run(script, "1.2.3", checksum, tmp_path / "bin", env=env)
    assert done.returncode == 0, done.stderr
    assert run(tmp_path / "bin/trainc", "check").stdout == "program check\n"
    assert (tmp_path / "bin/trainc-worker").stat().st_mode & 0o111
    other = "0" * 64
    for arguments, said in [
        (("1.2.3", other), f"has the checksum {checksum}, not {other}"),
        (("1.2.3", "abc"), "no checksum"),
        (("", checksum), "no version"),
        (("1.2.4", checksum), "curl"),
    ]:
        done = run(script, *arguments, tmp_path / "other", env=env)
        assert done.returncode != 0
        assert said in done.stderr
    done = run(script, "1.2.3", checksum, tmp_path / "other", env={"PATH": os.environ["PATH"]})
    assert "TRAINC_RELEASES is not set" in done.stderr
    assert not (tmp_path / "other").exists()


def install_steps():
    for path in sorted((ROOT / "examples/gitops/github").glob("*.yml")):
        for job, definition in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            steps = [step["run"] for step in definition["steps"] if step.get("name") == "install trainc"]
            yield pytest.param(*steps, id=f"{path.stem}-{job}")
    before = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))["default"]["before_script"]
    yield pytest.param("\n".join([*before, "command -v trainc >/dev/null"]), id="gitlab")


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="for Linux on x86_64")
@pytest.mark.parametrize("script", list(install_steps()))
def test_steps_install_a_release(script, release, tmp_path):
    place, checksum = release
    assert "--proto '=https'" in script
    script = script.replace("'=https'", "'=file'").replace("/tmp/", f"{tmp_path}/")
    env = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_PATH": str(tmp_path / "path"),
        "TRAINC_RELEASES": place.as_uri(),
        "TRAINC_VERSION": "1.2.3",
        "TRAINC_SHA256": checksum,
    }
    done = run("bash", "-e", "-c", script.replace(" -C /tmp", f" -C {tmp_path}"), env=env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"trainc-1.2.3-{dist.host()}/trainc").exists()
    for name in ("TRAINC_RELEASES", "TRAINC_VERSION", "TRAINC_SHA256"):
        done = run("bash", "-e", "-c", script, env={**env, name: ""})
        assert done.returncode != 0
        assert f"{name}: is not set" in done.stderr
    assert run("bash", "-e", "-c", script, env={**env, "TRAINC_SHA256": "0" * 64}).returncode != 0


# --- packaging/dist.py


def test_the_newest_glibc_of_a_binary():
    text = "0x0010: Name: GLIBC_2.14 Flags: none Version: 5\n0x0020: Name: GLIBC_2.2.5\n0x0030: Name: GLIBC_2.9\n"
    assert dist.glibc_versions(text)[-1] == (2, 14)
    assert dist.glibc_versions(text + "Name: GLIBC_ABI_DT_RELR")[-1] == (2, 36)


@pytest.mark.skipif(platform.system() != "Linux", reason="reads an ELF file")
def test_a_binary_that_asks_for_more_is_an_error(monkeypatch):
    """The interpreter of the tests needs a newer glibc than 2.2.5, and an older one than 9.9."""
    binary = pathlib.Path(sys.executable).resolve()
    monkeypatch.setattr(dist, "GLIBC", (9, 9))
    newest = dist.check_glibc(binary)
    assert newest > (2, 2, 5)
    monkeypatch.setattr(dist, "GLIBC", (2, 2, 5))
    with pytest.raises(SystemExit, match="asks for GLIBC_2"):
        dist.check_glibc(binary)


def test_archives_do_not_depend_on_time_and_owner(tmp_path):
    files = {"b/program": (b"x", 0o755), "a.txt": (b"y", 0o644)}
    for name in ("1.tar.gz", "2.tar.gz"):
        dist.write_archive(tmp_path / name, files)
    assert (tmp_path / "1.tar.gz").read_bytes() == (tmp_path / "2.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "1.tar.gz") as archive:
        found = [(member.name, member.mode, member.uid, member.mtime) for member in archive]
    assert found == [("a.txt", 0o644, 0, 0), ("b/program", 0o755, 0, 0)]


def test_a_wheel_installs_both_programs(tmp_path):
    program = b"#!/bin/sh\necho program \"$@\"\n"
    dist.write_wheel(dist.host(), "1.2.3", dict.fromkeys(dist.PROGRAMS, program), tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    done = run(sys.executable, "-m", "venv", tmp_path / "venv")
    assert done.returncode == 0, done.stderr
    bin_dir = tmp_path / "venv/bin"
    done = run(bin_dir / "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
    assert done.returncode == 0, done.stderr
    for name in dist.PROGRAMS:
        assert run(bin_dir / name, "check").stdout == "program check\n"
    shown = run(bin_dir / "pip", "show", "trainc").stdout
    assert "Version: 1.2.3\n" in shown
    # Fails if RECORD does not match the files.
    done = run(bin_dir / "pip", "uninstall", "--yes", "--quiet", "trainc")
    assert done.returncode == 0, done.stderr
    assert not (bin_dir / "trainc").exists()


def test_checksums_are_those_of_sha256sum(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    dist.checksums(tmp_path)
    done = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=tmp_path)
    assert done.stdout == "a: OK\nb: OK\n"


@pytest.fixture(scope="session")
def packages():
    return dist.linked(dist.metadata("x86_64-unknown-linux-gnu"))


@pytest.mark.skipif(not BINARY, reason="TRAINC_BIN is not set: no cargo, perhaps")
def test_what_is_linked_in(packages):
    names = {package["name"] for package in packages}
    assert {"trainc", "trainc-worker", "clap", "faer", "aws-sdk-s3"} <= names
    # Of tests and builds alone.
    assert not {"insta", "proptest", "clap_mangen", "cc"} & names


@pytest.mark.skipif(not BINARY, reason="TRAINC_BIN is not set: no cargo, perhaps")
def test_the_bill_of_materials(packages, tmp_path):
    bill = dist.bill_of_materials(packages, "1.2.3")
    others = [package for package in packages if package["source"] is not None]
    assert len(bill["components"]) == len(others) > 100
    assert all(component["hashes"][0]["content"] for component in bill["components"])
    assert all(component["licenses"] for component in bill["components"])
    text = json.dumps(bill)
    assert "path+file" not in text
    assert str(ROOT) not in text


@pytest.mark.skipif(not BINARY, reason="TRAINC_BIN is not set: no cargo, perhaps")
def test_the_licences_of_others(packages):
    text = dist.third_party_licences(packages)
    for package in packages:
        assert (f"\n{package['name']} {package['version']}: " in text) == (package["source"] is not None)
    assert "Permission is hereby granted, free of charge" in text
    assert "Apache License" in text


def test_the_container_has_nothing_else(tmp_path):
    """The root directory: the program, certificates, a user that is not root, and the directory that it works in."""
    program, certificates = tmp_path / "trainc", tmp_path / "ca.crt"
    program.write_bytes(b"program")
    certificates.write_bytes(b"certificates")
    files = dist.container_root(program, certificates)
    assert sorted(files) == [
        "etc/group",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/bin/trainc",
        "work/.keep",
    ]
    assert files["usr/bin/trainc"] == (b"program", 0o755)
    instructions = [line.split()[0] for line in (ROOT / "packaging/Containerfile").read_text().splitlines() if line[:1].isupper()]
    assert instructions == ["FROM", "ARG", "ADD", "USER", "WORKDIR", "ENTRYPOINT"]
    assert "FROM scratch\n" in (ROOT / "packaging/Containerfile").read_text()


def test_hooks_of_pre_commit_name_commands(tmp_path):
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["entry"] for hook in hooks] == ["trainc check .", "trainc fmt"]
    if BINARY:
        # A layer has no job: the directory is checked as a whole.
        assert not hooks[0]["pass_filenames"]
        assert run(BINARY, "check", ".", cwd=ROOT / "examples/team-repo").returncode == 0
        manifest = ROOT / "examples/gpt2-30b-sharded/trainc.kdl"
        assert run(BINARY, "fmt", "--check", manifest).returncode == 0
