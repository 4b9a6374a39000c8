"""A saved plan: killed and applied again, it has the planned result, or reports that the account changed."""

import time

import pytest
from job import TRAINC, Example, Run
from kills import kill_applies

LARGEST = "llama-7b-fsdp"
TRUST = (
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",'
    '"Principal":{"Service":"ec2.amazonaws.com"}}]}'
)


@pytest.fixture(scope="session")
def largest():
    return Example(LARGEST)


class Saved(Run):
    """An example in an account that has the resources it requires; apply uses its saved plan."""

    def __init__(self, account, example, folder):
        super().__init__(account, example)
        self.file = folder / "job.plan"
        self.save()
        account.admin("forget")

    def save(self):
        planned = self.trainc("plan", "--save", str(self.file))
        assert planned.code == 0, planned

    def command(self, verb, *flags):
        return [TRAINC, verb, str(self.file), *flags] if verb == "apply" else super().command(verb, *flags)


@pytest.mark.parametrize("phase", ["kill", "kill-after"])
def test_killed_apply_of_a_saved_plan_converges(account, largest, tmp_path, table, phase):
    """Kills apply after a request is sent: before its effect (`kill`), or after its effect and before the answer."""
    began = time.monotonic()
    ends = kill_applies(account, lambda: Saved(account, largest, tmp_path), phase, tmp_path)
    runs = sum(ends.values())
    # Reading the account and creating job, role, archive, file system and link require more operations than this.
    assert runs > 12, ends
    how = ", ".join(f"{count} by {end}" for end, count in sorted(ends.items(), reverse=True))
    table(f"{largest.name}: {phase} of a saved plan", runs, how, time.monotonic() - began)


def test_applied_again_it_does_nothing_and_holds_no_longer_where_the_account_moved(account, largest, tmp_path):
    run = Saved(account, largest, tmp_path)
    assert run.apply().code == 0
    before = len(account.requests())
    again = run.apply()
    assert again.code == 0, again
    assert run.faults_against_one() == []
    made = [e["call"] for e in account.requests()[before:] if ":Create" in e["call"] or ":Put" in e["call"]]
    assert made == [], made
    # The role's name is taken in the meantime: the plan is out of date.
    run = Saved(account, largest, tmp_path)
    account.client("iam").create_role(RoleName=largest.role, Path="/trainc/", AssumeRolePolicyDocument=TRUST)
    before = account.state()
    moved = run.apply()
    assert moved.code == 4 and "T0612" in moved.err, moved
    assert account.state() == before, "nothing is written where a saved plan no longer holds"
