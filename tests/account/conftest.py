"""Fixtures: one account for the whole run, empty for each test."""

import pytest
from hold import held


@pytest.fixture(scope="session")
def running():
    with held() as account:
        yield account


@pytest.fixture
def account(running):
    running.reset()
    yield running


ROWS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[ROWS] = []


@pytest.fixture
def table(request):
    """Returns `table(what, runs, result, seconds)`, which adds a row to the table at the end of the run."""
    return lambda *row: request.config.stash[ROWS].append(row)


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[ROWS]
    if not rows:
        return
    terminalreporter.section("runs against the account")
    wide = max(len(row[0]) for row in rows)
    for what, runs, result, seconds in rows:
        terminalreporter.line(f"{what:{wide}}  {runs:4} runs  {result:32}  {seconds:6.1f} s")
