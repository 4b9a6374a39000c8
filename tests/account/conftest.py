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
