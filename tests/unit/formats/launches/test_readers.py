"""Readers of launches: each word of the contract is read by one."""

from importlib import import_module

import pytest

from service.formats.launches import read_launch
from service.formats.launches.values.launch import Launcher


@pytest.mark.parametrize("launcher", Launcher)
def test_every_launcher_has_a_reader(launcher: Launcher) -> None:
    """What a request may name is read: its module has it, and it says whose keys it knows."""
    module = read_launch._MODULES[launcher]  # noqa: SLF001 - the table that is held

    reader = import_module(f"service.formats.launches.{module}").READERS[launcher]

    assert reader.launcher is launcher
    assert reader.versions
