"""Slurm's accounting of a job that ran out of memory.

``sacct`` prints it as a table or as JSON. ``State`` is ``OUT_OF_MEMORY`` (``OUT_OF_ME+`` in a
narrow column), which is the host's memory: the cgroup of the job. ``MaxRSS`` and ``ReqMem`` are
read where their columns are there.
"""

import re
from collections.abc import Iterator, Mapping

from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureQuantity,
    FailureSpeaker,
    Span,
)
from service.formats.failures.wording import compile_wording
from service.formats.measured.reading import MeasuredFormatError
from service.formats.measured.sacct import parse_size

MARK = "OUT_OF_ME"
_SEPARATORS = "|,;\t"
_UNIT_OF_REQUEST = re.compile(r"[nc]$")
"""Before 21.08 a request says per what: ``64Gn`` of a node, ``4Gc`` of a CPU."""
_STATE = compile_wording(r"(?:^|[^A-Za-z_])OUT_OF_ME(?:MORY|\+)")
"""A state of its own, not the end of ``CUDA_ERROR_OUT_OF_MEMORY``."""
_HEADER = compile_wording(r"(?:^|[|,; \t])JobID(?:Raw)?+(?:[|,; \t]|$)")

Json = Mapping[str, object]


class AccountingReader:
    """Rows of a table under its header."""

    def __init__(self) -> None:
        """Start without a header."""
        self._columns: list[str] = []
        self._separator: str | None = None

    def feed(self, text: str, *, line: int) -> Failure | None:
        """Return the failure of a row, ``None`` of every other line."""
        if _HEADER.search(text) and "State" in text:
            self._separator = next((mark for mark in _SEPARATORS if mark in text), None)
            self._columns = [name.strip() for name in text.strip().split(self._separator)]
        if _STATE.search(text) is None:
            return None
        values = [value.strip() for value in text.strip().split(self._separator)]
        row = (
            dict(zip(self._columns, values, strict=False))
            if len(values) >= len(self._columns)
            else {}
        )
        return make_accounting_failure(row, line=line)


def make_accounting_failure(row: Mapping[str, str], *, line: int | None) -> Failure:
    """Return the failure of a job or step by sacct's column names."""
    return Failure(
        speaker=FailureSpeaker.SLURM,
        memory=FailedMemory.HOST,
        kind="killed_by_cgroup",
        line=line,
        amounts=tuple(_iter_amounts(row, line)),
        subject=row.get("JobID", row.get("JobIDRaw", ""))[:60],
    )


def iter_json_failures(document: Json) -> Iterator[Failure]:
    """Yield the jobs of ``sacct --json`` that ran out of memory."""
    jobs = document.get("jobs")
    for job in jobs if isinstance(jobs, list) else ():
        if not isinstance(job, dict):
            continue
        steps = job.get("steps")
        for part in (job, *(steps if isinstance(steps, list) else ())):
            if isinstance(part, dict) and MARK in str(part.get("state"))[:400]:
                yield make_accounting_failure({"JobID": str(job.get("job_id", ""))}, line=None)
                break


def _iter_amounts(row: Mapping[str, str], line: int | None) -> Iterator[Amount]:
    for column, quantity in (
        ("MaxRSS", FailureQuantity.HOST_RESIDENT),
        ("ReqMem", FailureQuantity.HOST_LIMIT),
    ):
        text = row.get(column, "")
        size = _UNIT_OF_REQUEST.sub("", text)
        if not size:
            continue
        try:
            value, low, high = parse_size(size, line=line, what=column)
        except MeasuredFormatError:
            continue
        if value:
            yield Amount(
                quantity=quantity, span=Span(low=low, value=value, high=high), line=line, text=text
            )
