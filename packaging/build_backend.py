"""Builds the wheel with maturin, after trainc-worker: maturin packs the binaries of one crate, and this one is in another.

TRAINC_PROFILE chooses another profile of cargo than `release`.
"""

import os
import pathlib
import shutil
import subprocess

import maturin
from maturin import (  # noqa: F401: the hooks of PEP 517
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "target/wheel-data/scripts"
# maturin wants the directory also for the metadata alone.
SCRIPTS.mkdir(parents=True, exist_ok=True)


def build_worker(profile):
    """Builds the worker; returns its binary."""
    command = ["cargo", "build", "--locked", "--profile", profile, "-p", "trainc-worker"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / ("debug" if profile == "dev" else profile) / "trainc-worker"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds the wheel; a hook of PEP 517."""
    profile = os.environ.get("TRAINC_PROFILE", "release")
    shutil.rmtree(SCRIPTS, ignore_errors=True)
    SCRIPTS.mkdir(parents=True)
    shutil.copy2(build_worker(profile), SCRIPTS / "trainc-worker")
    os.environ.setdefault("MATURIN_PEP517_ARGS", f"--profile {profile}")
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
