"""Worlds whose every effect on the outside is seen by their reaper."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.cli.submissions.journal import Entry, Journal
from tests.unit.cli.submissions.fakes import SAMPLES, Reaper, install
from tests.unit.cli.submissions.worlds import Make, World


@pytest.fixture(name="make")
def make_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make worlds, with every effect on the outside seen by their reaper."""
    programs = tmp_path / "bin"
    programs.mkdir()
    install(programs)
    current: list[World] = []
    run, write = subprocess.run, Journal.write

    def run_seen(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as subprocess has it
        path = f"{programs}:/usr/bin:/bin"
        environment = {
            "PATH": path,
            "STATE": str(current[-1].state),
            "SAMPLES": str(SAMPLES),
            "WHO": str(current[-1].user),
        }
        del options["env"]
        command = [str(programs / arguments[0][0]), *arguments[0][1:]]
        return current[-1].reaper.pass_through(lambda: run(command, env=environment, **options))

    def write_seen(journal: Journal, entry: Entry) -> Entry:
        return current[-1].reaper.pass_through(lambda: write(journal, entry))

    monkeypatch.setattr("subprocess.run", run_seen)
    monkeypatch.setattr(Journal, "write", write_seen)

    def make(word: str = "slurm", beside: World | None = None, **reaping: Any) -> World:  # noqa: ANN401 - of the reaper
        folder = tmp_path / str(len(current))
        folder.mkdir()
        world = World(word=word, folder=folder, state=folder, reaper=Reaper(**reaping))
        if beside is not None:
            world = replace(world, state=beside.state, server=beside.server, owner="bob", user=1001)
        current.append(world)
        return world

    return make
