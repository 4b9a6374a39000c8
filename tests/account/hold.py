"""Starts the test account and calls its `/_account/` interface."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
from botocore.config import Config

HERE = Path(__file__).resolve().parent
ACCOUNT = "111122223333"


class Account:
    def __init__(self, url):
        self.url = url

    def admin(self, what, value=None):
        request = urllib.request.Request(
            f"{self.url}/_account/{what}", json.dumps(value).encode(), {"Content-Type": "text/plain"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as no:
            raise ValueError(no.read().decode()) from None

    def settings(self, **values):
        self.admin("settings", values)

    def faults(self, *rules):
        self.admin("faults", list(rules))

    def reset(self):
        self.admin("reset")

    def state(self):
        return self.admin("state")

    def requests(self):
        return self.admin("requests")

    def calls(self):
        return [entry["call"] for entry in self.requests()]

    @property
    def environment(self):
        """Returns the environment in which a program uses only this account."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return {
            **kept,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "TRAINC_POLL_SECONDS": "0",
        }

    def client(self, service, region="us-west-2", **config):
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id="AKIATESTTESTTESTTEST",
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}, **config),
        )


@contextlib.contextmanager
def held():
    """Runs an account and terminates it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "url"
        with open(Path(folder) / "log", "w+b") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "account", "--ready", str(ready)], cwd=HERE, stdout=log, stderr=log
            )
            try:
                deadline = time.monotonic() + 120
                while not (ready.exists() and ready.read_text()):
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise RuntimeError(f"the test account did not start:\n{log.read().decode()}")
                    time.sleep(0.02)
                yield Account(ready.read_text())
            finally:
                process.terminate()
                process.wait(60)
                log.seek(0)
                if text := log.read().decode():
                    print(f"--- the test account says\n{text}", file=sys.stderr)
