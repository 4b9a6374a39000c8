"""The pipelines of examples/gitops: their steps run unchanged against the account."""

import json
import os
import shutil
import subprocess

import pytest
import yaml
from job import ROOT, TRAINC, Example, own_names

GITOPS = ROOT / "examples/gitops"
JOBS = {"llama-7b-fsdp": "pretrain.py", "starter": "train.py"}


@pytest.fixture(scope="session")
def examples():
    return [Example(name) for name in JOBS]


class Repository:
    """A repository of two jobs, with the shell of a runner."""

    def __init__(self, folder, account, examples):
        self.folder, self.account = folder, account
        folder.mkdir()
        for name in JOBS:
            shutil.copytree(ROOT / f"examples/{name}/scripts", folder / "jobs/scripts", dirs_exist_ok=True)
            text = (ROOT / f"examples/{name}/trainc.kdl").read_text()
            (folder / f"jobs/{name}.kdl").write_text(own_names(text))
        (folder / "bin").mkdir()
        (folder / "bin/trainc").symlink_to(TRAINC)
        (folder / "runner").mkdir()
        account.reset()
        seeds = [example.seeded() for example in examples]
        self.seeds = {key: [one for seed in seeds for one in seed[key]] for key in seeds[0] if key != "region"}
        account.admin("seed", {**self.seeds, "region": examples[0].region})

    def shell(self, text, *flags, **environment):
        assert "${{" not in text, "an expression of GitHub's is not the shell's"
        return subprocess.run(
            ["bash", *flags, "-c", text.replace("/tmp/", f"{self.folder}/runner/")], cwd=self.folder,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
            env={**self.account.environment, "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                 "RUNNER_TEMP": f"{self.folder}/runner", "GITHUB_SERVER_URL": "https://github.invalid",
                 "GITHUB_REPOSITORY": "acme/jobs", "GITHUB_RUN_ID": "7", "CI_JOB_URL": "https://gitlab.invalid/7", **environment},
        )

    def jobs(self):
        return sorted(job["name"].rpartition("-")[0] for job in self.account.state()["jobs"])


    def commit(self):
        """Commits everything except the runner's files; returns the commit ID."""
        who = "-c user.name=t -c user.email=t@example.com"
        done = self.shell(f"git add --all -- . ':!bin' ':!runner' && git {who} commit -q -m next && git rev-parse HEAD", "-e")
        assert done.returncode == 0, done
        return done.stdout.strip()


@pytest.fixture
def repository(account, tmp_path, examples):
    """Checks out a change of one job, whose first parent is the target branch."""
    made = Repository(tmp_path / "repository", account, examples)
    assert made.shell("git init -q . && trainc emit --quiet jobs/ --out generated/", "-e").returncode == 0
    made.base = made.commit()
    manifest = made.folder / "jobs/starter.kdl"
    manifest.write_text(manifest.read_text().replace("steps 1000", "steps 1200"))
    assert made.shell("trainc emit --quiet jobs/ --out generated/").returncode == 0
    made.commit()
    return made


def steps_of_github(file, job):
    """Returns the run steps that call trainc, each with the shell flags that GitHub uses."""
    steps = yaml.safe_load((GITOPS / "github" / file).read_text())["jobs"][job]["steps"]
    found = [step for step in steps if "trainc " in step.get("run", "") and step["name"] != "install trainc"]
    return {step["name"]: (step["run"], [] if step.get("shell") == "bash {0}" else ["-e"]) for step in found}


def steps_of_action():
    """Returns the run steps of action.yml that call trainc, by mode."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    found = [step for step in steps if "/trainc/trainc" in step.get("run", "")]
    return {step["if"].split("'")[1]: step["run"] for step in found}


def script_of_gitlab(job):
    """Returns the script lines of a job, joined as by its runner."""
    return "\n".join(yaml.safe_load((GITOPS / "gitlab/.gitlab-ci.yml").read_text())[job]["script"])


def test_github_checks_a_pull_request(repository):
    steps = steps_of_github("pull-request.yml", "check")
    assert len(steps) == 3
    for name, (text, flags) in steps.items():
        done = repository.shell(text, *flags)
        assert done.returncode == 0, (name, done)
    runs = json.loads((repository.folder / "trainc.sarif").read_text())["runs"]
    assert runs[0]["tool"]["driver"]["name"] == "trainc"
    manifest = repository.folder / "jobs/starter.kdl"
    manifest.write_text(manifest.read_text().replace("lr=2e-5", "lr=3e-5"))
    stale = {name: repository.shell(text, *flags).returncode for name, (text, flags) in steps.items()}
    assert sorted(stale.values()) == [0, 0, 4], stale
    manifest.write_text(manifest.read_text().replace("steps 1200", "stepz 1200"))
    wrong = {name: repository.shell(text, *flags) for name, (text, flags) in steps.items()}
    assert sorted(done.returncode for done in wrong.values()) == [0, 3, 3], wrong
    assert any("::error file=jobs/starter.kdl,line=" in done.stdout for done in wrong.values()), wrong


@pytest.mark.parametrize("where", ["github", "gitlab", "action"])
def test_the_comment_has_the_jobs_that_change(repository, where):
    manifest = repository.folder / "jobs/starter.kdl"
    (repository.folder / "jobs/gone.kdl").write_text(manifest.read_text().replace("my-first-job", "other"))
    base = repository.commit()
    (repository.folder / "jobs/gone.kdl").unlink()
    manifest.write_text(manifest.read_text().replace("steps 1200", "steps 1300"))
    repository.commit()
    done, folder = plan_of_pull_request(repository, where, base)
    assert done.returncode == 0, done
    comment, whole = ((folder / name).read_text() for name in ("comment.md", "plan.md"))
    assert comment.startswith("<!-- trainc-plan -->\n") and len(comment) < 65_536
    bill, plan = comment.split("is removed here", 1)
    assert "1300" in bill or "1,300" in bill, "the edit that the bill is about"
    assert bill.endswith("**`other` "), "the job whose manifest is deleted"
    assert "my-first-job" in plan and "llama-7b-fsdp" not in plan, plan[:2000]
    assert ".invalid/" in plan.splitlines()[-1], "where the artefact is"
    # The artefact has all jobs, and where each value comes from.
    assert all(name in whole for name in ("llama-7b-fsdp", "my-first-job", "train.micro-batch")), whole[:2000]
    assert repository.jobs() == [], "a plan only reads"


def plan_of_pull_request(repository, where, base):
    """Plans a pull request; returns the process, and the folder of its files."""
    if where == "gitlab":
        done = repository.shell(
            script_of_gitlab("plan"), "-eo", "pipefail", AWS_TOKEN="t", CI_MERGE_REQUEST_DIFF_BASE_SHA=base
        )
        assert "TRAINC_COMMENT_TOKEN is not set" in done.stdout, done
        return done, repository.folder
    if where == "github":
        ((text, flags),) = steps_of_github("pull-request.yml", "plan").values()
        return repository.shell(text, *flags), repository.folder
    (repository.folder / "runner/trainc").mkdir()
    (repository.folder / "runner/trainc/trainc").symlink_to(TRAINC)
    done = repository.shell(steps_of_action()["plan"], "-eo", "pipefail", MANIFESTS="jobs/", AGAINST="HEAD^1")
    return done, repository.folder / "runner/trainc-plan"


@pytest.mark.parametrize("where", ["github", "gitlab"])
def test_the_first_day_of_a_repository(account, tmp_path, examples, where):
    """From a repository without jobs to the first job in the account."""
    made = Repository(tmp_path / "repository", account, examples)
    (made.folder / "README.md").write_text("our jobs\n")
    jobs, later = made.folder / "jobs", made.folder / "runner/jobs"
    jobs.rename(later)
    assert made.shell("git init -q .", "-e").returncode == 0
    base = made.commit()
    # The first pull request: nothing is generated yet, and a file of another program is among the jobs.
    later.rename(jobs)
    (jobs / "zellij.kdl").write_text('keybinds {\n    bind "Alt h"\n}\n')
    made.commit()
    if where == "github":
        steps = steps_of_github("pull-request.yml", "check")
        checks = [made.shell(text, *flags) for text, flags in steps.values()]
    else:
        checks = [made.shell(script_of_gitlab("check"), "-eo", "pipefail")]
    assert [done.returncode for done in checks] == [0] * len(checks), checks
    assert any("skipped jobs/zellij.kdl" in done.stderr for done in checks), checks
    done, folder = plan_of_pull_request(made, where, base)
    assert done.returncode == 0, done
    assert all(name in (folder / "comment.md").read_text() for name in ("llama-7b-fsdp", "my-first-job"))
    # Merged: nothing is applied before somebody says so.
    if where == "github":
        ((text, flags),) = steps_of_github("main.yml", "apply").values()
    else:
        text, flags = script_of_gitlab("apply"), ["-eo", "pipefail"]
    done = made.shell(text, *flags, APPLY="", NEW_RUN="", AWS_TOKEN="t")
    assert done.returncode == 0 and "nothing is applied" in done.stdout and made.jobs() == [], done
    said = {"APPLY": "true"} if where == "github" else {"TRAINC_APPLY_ON_MERGE": "true", "APPLY": ""}
    done = made.shell(text, *flags, NEW_RUN="", AWS_TOKEN="t", **said)
    assert done.returncode == 0 and made.jobs() == ["llama-7b-fsdp", "my-first-job"], done
    # From now on, what is generated is compared.
    assert made.shell("trainc emit --quiet jobs/ --out generated/").returncode == 0
    manifest = jobs / "starter.kdl"
    manifest.write_text(manifest.read_text().replace("lr=2e-5", "lr=3e-5"))
    if where == "github":
        codes = [made.shell(text, *flags).returncode for text, flags in steps.values()]
    else:
        codes = [made.shell(script_of_gitlab("check"), "-eo", "pipefail").returncode]
    assert 4 in codes, codes


def test_every_download_fails_on_an_error_of_http():
    files = [*(GITOPS / "github").glob("*.yml"), GITOPS / "gitlab/.gitlab-ci.yml", ROOT / "packaging/install.sh"]
    lines = [line for file in files for line in file.read_text().splitlines() if "curl " in line]
    assert len(lines) >= 6 and all("--fail" in line for line in lines), lines


@pytest.mark.parametrize("where", ["github", "gitlab"])
def test_what_is_merged_is_applied_once(repository, where):
    if where == "github":
        ((text, flags),) = steps_of_github("main.yml", "apply").values()
    else:
        text, flags = script_of_gitlab("apply"), ["-eo", "pipefail"]
    for _ in range(2):
        done = repository.shell(text, *flags, APPLY="true", AWS_TOKEN="t")
        assert done.returncode == 0, done
        assert repository.jobs() == ["llama-7b-fsdp", "my-first-job"]
    # An edit never replaces a running job: its pipeline fails, and the other job is unchanged.
    manifest = repository.folder / "jobs/starter.kdl"
    manifest.write_text(manifest.read_text().replace("lr=2e-5", "lr=3e-5"))
    done = repository.shell(text, *flags, APPLY="true", AWS_TOKEN="t")
    assert done.returncode == 4, done
    assert repository.jobs() == ["llama-7b-fsdp", "my-first-job"]
    # NEW_RUN requests a new run of this job: it starts, and nothing else does.
    for _ in range(2):
        done = repository.shell(text, *flags, APPLY="true", AWS_TOKEN="t", NEW_RUN="jobs/starter.kdl")
        assert done.returncode == 0, done
        assert repository.jobs() == ["llama-7b-fsdp", "my-first-job", "my-first-job"]
    done = repository.shell(text, *flags, APPLY="true", AWS_TOKEN="t", NEW_RUN="jobs/nothing.kdl")
    assert done.returncode == 2 and "manifest not found" in done.stdout, done


@pytest.mark.parametrize("where", ["github", "gitlab"])
def test_a_manifest_may_have_blanks_in_its_name(repository, where):
    if where == "github":
        ((text, flags),) = steps_of_github("main.yml", "apply").values()
    else:
        text, flags = script_of_gitlab("apply"), ["-eo", "pipefail"]
    (repository.folder / "jobs/starter.kdl").rename(repository.folder / "jobs/my first  job.kdl")
    done = repository.shell(text, *flags, APPLY="true", AWS_TOKEN="t")
    assert done.returncode == 0, done
    assert repository.jobs() == ["llama-7b-fsdp", "my-first-job"]


@pytest.mark.parametrize("where", ["github", "gitlab"])
def test_a_job_that_is_refused_leaves_the_others_alone(repository, where):
    if where == "github":
        ((text, flags),) = steps_of_github("main.yml", "apply").values()
    else:
        text, flags = script_of_gitlab("apply"), ["-eo", "pipefail"]
    repository.account.reset()
    repository.account.admin("seed", {**repository.seeds, "region": "us-west-2", "subnets": []})
    done = repository.shell(text, *flags, APPLY="true", AWS_TOKEN="t")
    assert done.returncode == 3 and "T0623" in done.stderr + done.stdout, done
    assert repository.jobs() == ["my-first-job"]


def test_gitlab_checks_and_keeps_one_note(repository):
    done = repository.shell(script_of_gitlab("check"), "-eo", "pipefail")
    assert done.returncode == 0, done
    assert json.loads((repository.folder / "gl-trainc.sarif").read_text())["runs"]
    quality = json.loads((repository.folder / "gl-code-quality-report.json").read_text())
    for one in quality:  # the members that GitLab reads
        assert one["description"] and one["check_name"] and len(one["fingerprint"]) == 32, one
        assert one["severity"] in ("info", "minor", "major", "critical", "blocker"), one
        assert (repository.folder / one["location"]["path"]).is_file() and one["location"]["lines"]["begin"] >= 1, one
    # A stub of GitLab's API: it records its requests and returns the existing notes.
    told = repository.folder / "runner/asked"
    curl = repository.folder / "bin/curl"
    ours = {"id": 7, "body": "<!-- trainc-plan -->", "author": {"id": 5}}
    # Somebody else begins a note like ours.
    theirs = {"id": 8, "body": "<!-- trainc-plan -->", "author": {"id": 6}}
    others = [{"id": 100 + one, "body": "looks good", "author": {"id": 6}} for one in range(100)]
    for pages, verb, end in (
        ([[]], "POST", "/notes"), ([[ours]], "PUT", "/notes/7"),
        ([[theirs]], "POST", "/notes"), ([[theirs, ours]], "PUT", "/notes/7"),
        # A long discussion: the note is on the second page, or on neither of two.
        ([others, [ours]], "PUT", "/notes/7"), ([others, []], "POST", "/notes"),
    ):
        for number, notes in enumerate(pages, 1):
            (repository.folder / f"runner/page-{number}").write_text(json.dumps(notes))
        curl.write_text(
            f'#!/bin/sh\necho "$@" >> {told}\n'
            f'case "$*" in */user) echo \'{{"id": 5}}\';; esac\n'
            f'case "$*" in *per_page=100*) set -- "$*"; cat "{repository.folder}/runner/page-${{1##*&page=}}";; esac\n'
        )
        curl.chmod(0o755)
        told.write_text("")
        done = repository.shell(
            script_of_gitlab("plan"), "-eo", "pipefail", AWS_TOKEN="t", CI_API_V4_URL="https://gitlab.invalid/api/v4",
            CI_MERGE_REQUEST_DIFF_BASE_SHA=repository.base, CI_PROJECT_ID="1", CI_MERGE_REQUEST_IID="2", TRAINC_COMMENT_TOKEN="secret",
        )
        assert done.returncode == 0, done
        asked = told.read_text().splitlines()
        assert len(asked) == len(pages) + 2 and f"-X {verb} " in asked[-1] and asked[-1].endswith(end), asked
        # Not truncated: GitLab accepts a million characters, and each of the two parts has at most 65,536.
        assert "body@comment.md" in asked[-1], asked
        body = (repository.folder / "comment.md").read_text()
        assert body.startswith("<!-- trainc-plan -->") and len(body) <= 2 * 65_536 + 100
    assert repository.jobs() == []


def test_what_a_plan_reads_may_lie_anywhere(account, repository):
    """Editing a layer outside of jobs/, which a job depends on, runs the pipelines and changes the digest."""
    for name in ("main.yml", "pull-request.yml"):
        workflow = yaml.safe_load((GITOPS / "github" / name).read_text())
        trigger = workflow[True].get("push") or workflow[True]["pull_request"]  # YAML parses `on` as true
        assert "paths" not in trigger and trigger["paths-ignore"] == ["**/*.md"], name
    rules = yaml.safe_load((GITOPS / "gitlab/.gitlab-ci.yml").read_text())["apply"]["rules"]
    assert all("changes" not in rule for rule in rules)
    starter = repository.folder / "jobs/starter.kdl"
    text = starter.read_text()
    assert "        steps 1200\n" in text
    (repository.folder / "layers").mkdir()
    (repository.folder / "layers/base.kdl").write_text("train {\n    steps 1200\n}\n")
    starter.write_text('extends "../layers/base.kdl"\n' + text.replace("        steps 1200\n", ""))
    (name, (text, flags)), = steps_of_github("main.yml", "apply").items()
    done = repository.shell(text, *flags, APPLY="true", NEW_RUN="")
    assert done.returncode == 0, (name, done)
    before = repository.jobs()
    (repository.folder / "layers/base.kdl").write_text("train {\n    steps 1300\n}\n")
    again = repository.shell(text, *flags, APPLY="true", NEW_RUN="")
    assert again.returncode == 4 and "T0606" in again.stderr, again
    assert repository.jobs() == before
