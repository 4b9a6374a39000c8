"""One example run against the account: required resources, the commands, and the resources left afterwards."""

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRAINC = os.environ.get("TRAINC_BIN", str(ROOT / "target/debug/trainc"))
ACCOUNT = "111122223333"
# Rust's debug output, which must not reach the user.
DEBUG = re.compile(r"\b(Some|None|Err|Ok)\(|\b[A-Z][A-Za-z]+ \{ |ServiceError|SdkError|RUST_BACKTRACE|panicked at")


def own_names(text):
    """Replaces the placeholder of an example: an account is only asked with names that somebody chose."""
    return text.replace("your-bucket", "example-runs")


def with_own_names(manifest):
    """Returns a manifest without placeholders; one of the repository is copied with its directory."""
    path = Path(manifest)
    text = path.read_text()
    if own_names(text) == text:
        return manifest
    if path.is_relative_to(ROOT):
        copied = tempfile.mkdtemp(prefix="trainc-example-")
        atexit.register(shutil.rmtree, copied, ignore_errors=True)
        path = Path(copied) / path.parent.name / path.name
        shutil.copytree(Path(manifest).parent, path.parent)
    path.write_text(own_names(text))
    return str(path)


class Example:
    """An example by its name, or any manifest of the repository by its path; `flags` are added to every command."""

    def __init__(self, name, *flags):
        self.name, self.flags = name, flags
        self.manifest = with_own_names(str(ROOT / (name if name.endswith(".kdl") else f"examples/{name}/trainc.kdl")))
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [TRAINC, "emit", "--quiet", self.manifest, *flags, "--account", ACCOUNT, "--out", folder],
                check=True, capture_output=True,
            )
            out = Path(folder)
            self.request = json.loads((out / "sagemaker/training-job.json").read_text())
            self.systems = [
                json.loads(path.read_text())
                for path in sorted(out.glob("fsx/*.json")) if not path.name.endswith(".associations.json")
            ]
            self.links = [
                link for path in sorted(out.glob("fsx/*.associations.json")) for link in json.loads(path.read_text())
            ]
            role = out / "iam/create-role.json"
            self.role = json.loads(role.read_text())["RoleName"] if role.exists() else None
            policy = out / "iam/policy.json"
            self.text = json.dumps(self.request) + (policy.read_text() if policy.exists() else "")
        self.region = self.request["AlgorithmSpecification"]["TrainingImage"].split(".")[3]

    def seeded(self):
        """Returns the resources that the manifest refers to and trainc does not create."""
        uris = set(re.findall(r"s3://[^\"\\]+", self.text)) | {link["DataRepositoryPath"] for link in self.links}
        buckets = {uri.removeprefix("s3://").split("/")[0] for uri in uris}
        buckets -= {name for name in buckets if name.startswith("sagemaker-")}
        read = {link["DataRepositoryPath"] for link in self.links}
        for channel in self.request.get("InputDataConfig", []):
            uri = channel["DataSource"].get("S3DataSource", {}).get("S3Uri", "")
            if uri and not uri.startswith("s3://sagemaker-"):  # trainc uploads objects in the default bucket
                read.add(uri)
        network = self.request.get("VpcConfig", {})
        there = {}
        for channel in self.request.get("InputDataConfig", []):
            system = channel["DataSource"].get("FileSystemDataSource", {})
            if not system.get("FileSystemId", "${").startswith("${"):
                there[system["FileSystemId"]] = system["DirectoryPath"].split("/")[1]
        arns = set(re.findall(r"arn:aws:(?:secretsmanager|kms):[^\"\\]+", self.text))
        role = self.request["RoleArn"]
        return {
            "region": self.region,
            "subnets": network.get("Subnets", []),
            "security_groups": network.get("SecurityGroupIds", []),
            "buckets": sorted(buckets),
            "objects": [uri if not uri.endswith("/") else uri + "part-0" for uri in sorted(read)],
            "file_systems": [{"id": identity, "mount": mount} for identity, mount in sorted(there.items())],
            "secrets": sorted(arn for arn in arns if ":secretsmanager:" in arn and "*" not in arn),
            "keys": sorted(arn for arn in arns if ":kms:" in arn and "*" not in arn),
            "roles": [role] if self.role is None and role.startswith("arn:") else [],
        }


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\n--- out\n{self.out[-3000:]}\n--- err\n{self.err[-3000:]}"


class Run:
    """An example in an account that has the resources it requires."""

    def __init__(self, account, example, fresh=True):
        self.account, self.example = account, example
        if fresh:
            account.reset()
            account.admin("seed", example.seeded())
            account.admin("forget")

    def command(self, verb, *flags):
        return [TRAINC, verb, self.example.manifest, *self.example.flags, *flags]

    def trainc(self, verb, *flags, environment=None, timeout=300):
        done = subprocess.run(
            self.command(verb, *flags), env={**self.account.environment, **(environment or {})},
            capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
        )
        assert not DEBUG.search(done.stdout + done.stderr), Outcome(done.returncode, done.stdout, done.stderr)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def apply(self, *flags, **more):
        return self.trainc("apply", "--yes", *flags, **more)

    def destroy(self, *flags, **more):
        return self.trainc("destroy", "--yes", "--delete-data", *flags, **more)

    def start(self, verb, *flags, pidfile=None, environment=None):
        """Starts a command without waiting; `pidfile` contains its process ID before its first request."""
        command = self.command(verb, *flags)
        if pidfile is not None:
            command = ["/bin/sh", "-c", 'echo $$ >"$0"; exec "$@"', str(pidfile), *command]
        return subprocess.Popen(
            command, env={**self.account.environment, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            # Under nohup, which ignores SIGHUP, the commands would ignore it too.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    def faults_against_one(self, status=("InProgress", "Completed")):
        """Returns the errors in the account after an apply: it must have exactly one of each resource."""
        state, wrong = self.account.state(), []
        example = self.example
        if len(state["jobs"]) != 1:
            wrong.append(f"{len(state['jobs'])} training jobs")
        elif state["jobs"][0]["status"] not in status:
            wrong.append(f"the job is {state['jobs'][0]['status']}")
        systems = [system for system in state["file_systems"] if system["Tags"]]
        if len(systems) != len(example.systems):
            wrong.append(f"{len(systems)} file systems, expected {len(example.systems)}")
        if len(state["associations"]) != len(example.links):
            wrong.append(f"{len(state['associations'])} associations, expected {len(example.links)}")
        ours = [role for role in state["roles"] if role["path"] == "/trainc/"]
        if [(role["name"], role["policies"]) for role in ours] != (
            [(example.role, ["trainc"])] if example.role else []
        ):
            wrong.append(f"roles {ours}")
        sources = [uri for uri in state["objects"] if uri.endswith("sourcedir.tar.gz")]
        if len(sources) != 1:
            wrong.append(f"source archives {sources}")
        if state["uploads"]:
            wrong.append(f"unfinished uploads {state['uploads']}")
        return wrong

    def left(self):
        """Returns the resources of trainc left after a destroy, except for the history of jobs."""
        state = self.account.state()
        left = [s["FileSystemId"] for s in state["file_systems"] if s["Tags"]]
        left += [a["AssociationId"] for a in state["associations"]]
        left += [role["name"] for role in state["roles"] if role["path"] == "/trainc/"]
        left += [uri for uri in state["objects"] if uri.endswith("sourcedir.tar.gz")]
        left += [job["name"] for job in state["jobs"] if job["status"] in ("InProgress", "Stopping")]
        return left
