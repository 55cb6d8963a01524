"""Failures in words of the system, launchers and CUDA's libraries."""

import re
from collections.abc import Iterator

from service.formats.failures.failure import (
    Amount,
    Failure,
    FailureQuantity,
    FailureSpeaker,
    make_amount,
)
from service.formats.failures.library_wordings import MARKS as LIBRARY_MARKS
from service.formats.failures.library_wordings import WORDINGS as LIBRARY_WORDINGS
from service.formats.failures.system_wordings import MARKS as SYSTEM_MARKS
from service.formats.failures.system_wordings import WORDINGS as SYSTEM_WORDINGS
from service.formats.failures.system_wordings import SystemWording
from service.formats.failures.wording import NUMBER, compile_wording

MARKS = (*SYSTEM_MARKS, *LIBRARY_MARKS)
_RESIDENT = compile_wording(r"anon-rss:([0-9]{1,15}+)kB")


_PADDLE = (
    (
        FailureQuantity.ALLOCATED,
        compile_wording(rf", {NUMBER}(B|KB|MB|GB) memory has been allocated"),
    ),
    (
        FailureQuantity.FREE,
        compile_wording(rf"available memory is only {NUMBER}(B|KB|MB|GB)"),
    ),
)
"""Numbers of Paddle's message beside what was requested."""


def iter_system_failures(text: str, *, line: int, rank: str | None) -> Iterator[Failure]:
    """Yield what the system or a library says in a line."""
    for wording in (*SYSTEM_WORDINGS, *LIBRARY_WORDINGS):
        match = wording.pattern.search(text)
        if match is None:
            continue
        yield Failure(
            speaker=wording.speaker,
            memory=wording.memory,
            kind=wording.kind,
            line=line,
            amounts=tuple(_iter_amounts(wording, match, text, line)),
            rank=rank,
            subject=match[1]
            if wording.kind == "other_error" and match.re.groups
            else wording.subject,
        )
        return


def _iter_amounts(
    wording: SystemWording, match: re.Match[str], text: str, line: int
) -> Iterator[Amount]:
    if wording.quantity is not None:
        yield make_amount(wording.quantity, match[1], wording.unit or match[2], line=line)
    if wording.speaker is FailureSpeaker.PADDLE:
        for quantity, pattern in _PADDLE:
            if (number := pattern.search(text)) is not None:
                yield make_amount(quantity, number[1], number[2], line=line)
    if (
        wording.speaker is FailureSpeaker.KERNEL
        and (resident := _RESIDENT.search(text)) is not None
    ):
        yield make_amount(FailureQuantity.HOST_RESIDENT, resident[1], "kB", line=line)
