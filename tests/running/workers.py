"""Processes of xdist, as forks of one that has collected the tests."""

from typing import Any

import pytest

from tests.running.starting import start_fork_server


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Have each process started by a fork server instead of a fresh interpreter."""
    arguments = [str(argument) for argument in config.invocation_params.args]
    server = start_fork_server("tests.running.collected", arguments, "worker")
    config.add_cleanup(server.end)
    for spec in specs:
        spec.python = str(server.command)
