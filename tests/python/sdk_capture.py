"""Captures the requests of the SageMaker SDK for an `estimator.py`: `capture([path, …])` -> a `Capture` per script.

All scripts go to one subprocess (sdk_runner.py) which imports the SDK once and forks per script, because the import
takes two to four seconds. The environment inherits nothing: no home configuration, no profile, no region (the script
must set it), dummy credentials, and a PATH with only a stub `git`. The working directory is empty: a script must find
`source/` relative to its own path.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

RUNNER = pathlib.Path(__file__).with_name("sdk_runner.py")

STUB_GIT = """#!/bin/sh
# Stands in for git: records its arguments; `clone URL DIR` makes the files named in STUB_GIT_FILES.
PATH=/usr/bin:/bin
for argument in "$@"; do printf '%s\\037' "$argument"; done >> "$STUB_GIT_LOG"
printf '\\n' >> "$STUB_GIT_LOG"
if [ "$1" = clone ]; then
    for last in "$@"; do :; done
    printf '%s\\n' "$STUB_GIT_FILES" | while IFS= read -r file; do
        mkdir -p "$last/$(dirname "$file")" && : > "$last/$file"
    done
fi
"""


@dataclasses.dataclass
class Capture:
    """The record of one script. `error` is the last line of its traceback; `network` must be empty."""

    path: pathlib.Path
    requests: list
    uploads: list
    git: list
    calls: list
    network: list
    processes: list
    unanswered: list
    error: str | None
    traceback: str = ""

    @property
    def request(self):
        """Returns the only CreateTrainingJob request; AssertionError if the script failed or did anything else."""
        assert self.error is None, f"{self.path}: {self.traceback or self.error}"
        assert not self.network, f"{self.path} tried the network: {self.network}"
        assert not self.processes, f"{self.path} started other programs than git: {self.processes}"
        assert not self.unanswered, f"{self.path} called what has no canned answer: {self.unanswered}"
        assert len(self.requests) == 1, f"{self.path} sent {len(self.requests)} CreateTrainingJob requests, not one"
        return self.requests[0]


def environment(scratch, mounts):
    """Returns the fixed environment of the SDK, which inherits nothing from the caller."""
    nowhere = str(scratch / "nowhere")
    return {
        "PATH": str(scratch / "bin"),
        "HOME": str(scratch),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "XDG_CONFIG_HOME": nowhere,
        "XDG_CONFIG_DIRS": nowhere,
        "AWS_CONFIG_FILE": nowhere,
        "AWS_SHARED_CREDENTIALS_FILE": nowhere,
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        "AWS_MAX_ATTEMPTS": "1",
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "TRAINC_SAMPLE_MOUNTS": json.dumps(mounts),
    }


def capture(scripts, mounts=None, timeout=300):
    """Runs `scripts`: paths, or (path, text) pairs whose text (with placeholders replaced) runs instead of the file.

    `mounts`: file system ID -> mount name, for scripts that call FSx.
    """
    pairs = [(s, None) if isinstance(s, (str, os.PathLike)) else s for s in scripts]
    pairs = [(pathlib.Path(path).resolve(), text) for path, text in pairs]
    with tempfile.TemporaryDirectory(prefix="trainc-sdk-") as name:
        scratch = pathlib.Path(name).resolve()
        git = scratch / "bin" / "git"
        git.parent.mkdir()
        git.write_text(STUB_GIT)
        git.chmod(0o755)
        job = {"scratch": str(scratch), "scripts": [{"path": str(p), "text": t} for p, t in pairs]}
        done = subprocess.run(
            [sys.executable, "-I", str(RUNNER)],
            input=json.dumps(job),
            env=environment(scratch, mounts or {}),
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"sdk_runner failed:\n{done.stderr}"
        results = json.loads(done.stdout)
    return [Capture(path=path, **result) for (path, _), result in zip(pairs, results, strict=True)]


if __name__ == "__main__":
    for one in capture(sys.argv[1:]):
        json.dump({**dataclasses.asdict(one), "path": str(one.path)}, sys.stdout, indent=1)
        print()
