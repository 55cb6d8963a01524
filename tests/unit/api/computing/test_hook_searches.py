"""Numbers of GPUs that hooks say, searched in a process beside the server."""

from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.computing.search_processes import SearchProcesses
from service.api.computing.searches import find_fewest
from service.runtime.children.pool import ChildPool
from tests.unit.api.builders import patient_parts, served
from tests.unit.api.computing.asking import make_both
from tests.waiting import eventually

QUESTION = "llama-2-7b --task train --sequence-length 1024 --activation-checkpointing full"
JOB = {
    "options": {"gres": "gres/gpu:nvidia_a100-sxm4-80gb:1", "argv": ["job.sh"]},
    "script": f"#!/bin/sh\n#HEADROOM {QUESTION}\n",
    "user": "ann",
}


class Counted(SearchProcesses):
    """Processes that answer, and count what they are asked."""

    def __init__(self, pool: ChildPool) -> None:
        """Ask children of ``pool``."""
        super().__init__(pool)
        self.functions: list[object] = []

    def run(self, function: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any search
        """Answer by a child, and note the function."""
        self.functions.append(function)
        return super().run(function, *arguments, **named)


def _ask(searches: SearchProcesses, mode: str, search_s: float = 120.0) -> list[str]:
    """Return the lines that a user reads until one says a number."""
    made = patient_parts()
    made = replace(made, settings=replace(made.settings, hook_search_s=search_s), searches=searches)
    lines: list[str] = []
    with served(made) as client:
        eventually(lambda: _says_number(client, mode, lines))
    return lines


def _says_number(client: TestClient[Any], mode: str, lines: list[str]) -> bool:
    answer = client.post(f"/v1/hooks/slurm/{mode}", json=JOB)
    assert answer.status_code == 200, answer.text
    lines.append(answer.json()["sentence"])
    return " x A100" in lines[-1]


@pytest.mark.parametrize("mode", ["warn", "refuse"])
def test_a_number_that_nobody_waits_for_is_searched_beside(pool: ChildPool, mode: str) -> None:
    """The interpreter that answers hooks is not the one that searches."""
    (_, here), beside = make_both(pool), Counted(pool)

    lines = _ask(beside, mode, search_s=0.0)

    assert lines[-1] == _ask(here, mode)[0]
    assert "ask again" in lines[0]
    assert beside.functions == [find_fewest]


def test_who_waits_waits_for_no_process_to_start(pool: ChildPool) -> None:
    """A job that is changed needs its number within the deadline."""
    beside = Counted(pool)

    assert len(_ask(beside, "change")) == 1
    assert beside.functions == []
