"""Numbers of GPUs that hooks say, searched in a process beside the server."""

from dataclasses import replace
from typing import Any

import pytest

from service.api.computing.search_processes import SearchProcesses
from service.api.computing.searches import find_fewest
from service.runtime.children.pool import ChildPool
from tests.unit.api.builders import patient_parts, served
from tests.unit.api.computing.asking import make_both

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


def _ask(searches: SearchProcesses, mode: str) -> object:
    with served(replace(patient_parts(), searches=searches)) as client:
        answer = client.post(f"/v1/hooks/slurm/{mode}", json=JOB)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("mode", ["warn", "change"])
def test_a_number_is_that_of_the_server_itself(pool: ChildPool, mode: str) -> None:
    """The interpreter that answers hooks is not the one that searches."""
    (beside, here), counted = make_both(pool), Counted(pool)

    assert _ask(beside, mode) == _ask(here, mode) == _ask(counted, mode)
    assert counted.functions == [find_fewest]
