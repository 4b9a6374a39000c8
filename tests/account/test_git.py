"""A program in a git repository: its content is fetched where a job is planned or started, and only there."""

import json
import shutil
import socket
import subprocess
import threading
import time

import pytest
from job import ROOT, Example, Run, own_names

URL = "https://git.invalid/team/train.git"


class Repository:
    """A repository, a manifest that names it by an address, and a home where git knows the way."""

    def __init__(self, folder):
        self.origin, self.home = folder / "origin", folder / "home"
        self.home.mkdir()
        (self.home / ".gitconfig").write_text(f'[url "file://{self.origin}"]\n    insteadOf = {URL}\n')
        (folder / "jobs/.git").mkdir(parents=True)
        self.manifest = folder / "jobs/job.kdl"
        text = own_names((ROOT / "examples/starter/trainc.kdl").read_text())
        self.manifest.write_text(text.replace('source="./scripts"', f'git="{URL}" branch="main" dir="code"'))
        (self.origin / "code").mkdir(parents=True)
        self.git("init", "-q", "-b", "main", ".")
        self.commit("print('one')\n")

    def git(self, *words):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        done = subprocess.run(["git", *who, *words], cwd=self.origin, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, text):
        (self.origin / "code/train.py").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "next")
        return self.git("rev-parse", "HEAD")

    @property
    def environment(self):
        return {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / "cache")}


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


@pytest.fixture
def run(account, repository):
    return Run(account, Example(str(repository.manifest)))


def plan(run, repository, *flags):
    done = run.trainc("plan", "-o", "json", *flags, environment=repository.environment)
    assert done.code == 0, done
    return json.loads(done.out)


def test_the_content_at_the_commit_is_what_is_uploaded(run, repository):
    first = repository.git("rev-parse", "HEAD")
    offline, online = plan(run, repository, "--offline"), plan(run, repository)
    assert offline["source"] is None and online["source"]["files"] == 1
    assert offline["digest"] != online["digest"], "offline, url and ref stand for the content"
    repository.commit("print('two')\n")
    later = plan(run, repository)
    assert later["digest"] != online["digest"], "a branch that goes on is another job"
    assert plan(run, repository, "--set", f"program.commit={first}")["digest"] == online["digest"]
    applied = run.apply(environment=repository.environment)
    assert applied.code == 0, applied
    assert any(f"/source/{later['source']['digest'][:16]}/" in uri for uri in run.account.state()["objects"])
    # The commands about the job find it by its name alone.
    shutil.rmtree(repository.origin)
    shutil.rmtree(repository.home / "cache")
    for verb in ("status", "logs", "report", "watch"):
        done = run.trainc(verb, environment=repository.environment)
        assert done.code == 0 and "another version" not in done.out + done.err, (verb, done)
    for done in (run.trainc("stop", "--yes", environment=repository.environment),
                 run.destroy(environment=repository.environment)):
        assert done.code == 0, done
    assert not (repository.home / "cache").exists()


def test_what_git_cannot_give_is_said_before_anything_is_made(run, repository):
    done = run.apply("--set", "program.branch=mian", environment=repository.environment)
    assert done.code == 3 and "error[T0503]" in done.err and "no branch or tag `mian`" in done.err, done
    assert not run.account.state()["jobs"]


def test_a_host_that_never_answers_ends_in_time_with_its_git(run, repository):
    """The limit of silence is that of any request; a git that waits ends with trainc."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(50)
    taken = []

    def accept():
        while True:
            taken.append(server.accept())

    threading.Thread(target=accept, daemon=True).start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/x.git"
    text = repository.manifest.read_text().replace(URL, url)
    repository.manifest.write_text(text)
    done = run.trainc("plan", environment={**repository.environment, "TRAINC_TIMEOUT_SECONDS": "3"})
    assert done.code == 3 and "T0503" in done.out + done.err and "sent nothing for 3 s" in done.out + done.err, done
    asked = len(taken)
    assert asked
    environment = {**run.account.environment, **repository.environment}
    waiting = subprocess.Popen(run.command("plan"), env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(taken) == asked:
        assert waiting.poll() is None
        time.sleep(0.02)
    # The connection of its git is closed when trainc is killed: nobody else holds it.
    waiting.kill()
    waiting.wait()
    connection = taken[-1][0]
    connection.settimeout(120)
    while connection.recv(65_536):
        pass
