"""Slurm's accounting of a job that ran out of the host's memory."""

import json

import pytest

from service.formats.failures.failure import FailureQuantity
from service.usecases.postmortem.explain import explain_data

TABLE = """JobID|JobName|State|ReqMem|MaxRSS|ExitCode
4711|sft|OUT_OF_MEMORY|64G||0:125
4711.batch|batch|OUT_OF_MEMORY||62914560K|0:125
"""
COLUMNS = """       JobID      State     ReqMem     MaxRSS
------------ ---------- ---------- ----------
4711.0       OUT_OF_ME+       64Gn   67108860K
"""


@pytest.mark.parametrize(
    ("text", "limit", "resident"),
    [(TABLE, 64 * 2**30, 60 * 2**30), (COLUMNS, 64 * 2**30, 67108860 * 1024)],
)
def test_a_table_is_read(text: str, limit: int, resident: int | None) -> None:
    """With bars or in columns, whole or cut, with a unit per node or without."""
    explanation = explain_data(text.encode())

    assert explanation.cause.name == "host_memory"
    failure = explanation.failure
    assert (span := failure.get(FailureQuantity.HOST_LIMIT)) is not None
    assert span.value == limit
    used = failure.get(FailureQuantity.HOST_RESIDENT)
    assert (None if used is None else used.value) == resident


def test_json_is_read() -> None:
    """``sacct --json`` of a job one of whose steps was killed."""
    step = {"state": ["OUT_OF_MEMORY"]}
    document = {"jobs": [{"job_id": 4711, "state": {"current": ["FAILED"]}, "steps": [step]}]}

    explanation = explain_data(json.dumps(document).encode())

    assert (explanation.failure.speaker, explanation.failure.subject) == ("slurm", "4711")
