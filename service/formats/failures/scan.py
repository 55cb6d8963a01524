"""One pass over a log: failures, tracebacks, readings of memory.

Lines come one by one and are forgotten, so that a log of any length takes little memory.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from service.formats.failures import engine_messages, growth, system_messages, torch_messages
from service.formats.failures.accounting import MARK as ACCOUNTING_MARK
from service.formats.failures.accounting import AccountingReader
from service.formats.failures.engine_wordings import MARKS as ENGINE_MARKS
from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureLog,
    FailureSpeaker,
    Frame,
)
from service.formats.failures.traceback_frames import MARKS as FRAME_MARKS
from service.formats.failures.traceback_frames import FrameReader, find_rank
from service.formats.failures.wording import compile_wording

MAX_LINE = 20_000
"""Longer lines are cut: no message that is read is as long."""
_ANSI = compile_wording(r"\x1b\[[0-9;]{0,16}+[A-Za-z]")
_RANK_PREFIX = compile_wording(r"^\[(?:default)?+rank[0-9]{1,5}+\]:?+ ?+")
MAX_FAILURES = 500
MAX_CONTEXT = 200
MAX_JOINED_LINES = 8
_QUOTES = " \t#>|│"
"""Marks of a quotation or a comment, before the lines of a message that was wrapped."""
_HEADER_MARK = "JobID"
_PIN = "pin_memory"
_FAILURE_MARKS = tuple(dict.fromkeys((*ENGINE_MARKS, *system_messages.MARKS)))


@dataclass(slots=True)
class _OpenMessage:
    """PyTorch's message that was wrapped over lines."""

    text: str
    line: int
    rank: str | None
    frames: tuple[Frame, ...]
    num_lines: int = 1


class LogScanner:
    """Reader of a log, line by line."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._failures: dict[tuple[object, ...], Failure] = {}
        self._context: list[Amount] = []
        self._frames = FrameReader()
        self._growth = growth.GrowthReader()
        self._accounting = AccountingReader()
        self._open: _OpenMessage | None = None
        self._num_lines = 0
        self._engine: str | None = None

    def feed(self, number: int, text: str) -> None:
        """Read one line."""
        self._num_lines = number
        text = text[:MAX_LINE]
        if self._open is not None:
            self._continue_message(self._open, text)
        has_frame = _has_any(text, FRAME_MARKS)
        rank = find_rank(text) if has_frame or self._frames.waits_for_any else None
        if has_frame or self._frames.waits_for(rank):
            self._frames.feed(number, text, rank)
        if self._engine is None:
            self._engine = engine_messages.name_engine(text)
        self._read(number, text)

    def finish(self) -> FailureLog:
        """Return all that was read."""
        self._close_message()
        return FailureLog(
            failures=tuple(self._failures.values()),
            context=tuple(self._context),
            growth=self._growth.find(),
            num_lines=self._num_lines,
            engine=self._engine,
        )

    def _read(self, number: int, text: str) -> None:
        if _HEADER_MARK in text or ACCOUNTING_MARK in text:
            self._read_row(number, text)
        if _has_any(text, _FAILURE_MARKS):
            self._read_failures(number, text)
        if _has_any(text, engine_messages.CONTEXT_MARKS) and len(self._context) < MAX_CONTEXT:
            self._context += engine_messages.iter_engine_context(text, line=number)
        if _has_any(text, growth.MARKS):
            self._growth.feed(text, line=number, rank=find_rank(text))

    def _read_row(self, number: int, text: str) -> None:
        row = self._accounting.feed(text, line=number)
        if row is not None:
            self._add(row)

    def _read_failures(self, number: int, text: str) -> None:
        rank = find_rank(text)
        if _has_any(text, torch_messages.MARKS) and (
            torch_messages.starts_message(text)
            or (self._open is None and torch_messages.is_bare(text))
        ):
            self._open_message(number, text, rank)
        for failure in self._iter_failures(number, text, rank):
            self._add(_place_pinned(replace(failure, frames=self._frames.take(number, rank))))

    def _iter_failures(self, number: int, text: str, rank: str | None) -> Iterator[Failure]:
        refusals = list(engine_messages.iter_engine_failures(text, line=number, rank=rank))
        yield from refusals
        if not refusals and self._open is None:
            yield from system_messages.iter_system_failures(text, line=number, rank=rank)

    def _open_message(self, number: int, text: str, rank: str | None) -> None:
        self._close_message()
        self._open = _OpenMessage(
            text=text, line=number, rank=rank, frames=self._frames.take(number, rank)
        )
        if torch_messages.is_complete(text):
            self._close_message()

    def _continue_message(self, message: _OpenMessage, text: str) -> None:
        if torch_messages.starts_message(text):
            self._close_message()
            return
        message.text += " " + _RANK_PREFIX.sub("", text.lstrip(_QUOTES))
        message.num_lines += 1
        if message.num_lines >= MAX_JOINED_LINES or torch_messages.is_complete(text):
            self._close_message()

    def _close_message(self) -> None:
        message, self._open = self._open, None
        if message is None:
            return
        failure = torch_messages.read_torch_message(
            message.text, line=message.line, rank=message.rank, frames=message.frames
        )
        if failure is not None:
            self._add(failure)

    def _add(self, failure: Failure) -> None:
        """Keep a failure once, however often it is printed."""
        key = (
            failure.speaker,
            failure.kind,
            failure.gpu,
            failure.subject,
            tuple((amount.quantity, amount.text) for amount in failure.amounts),
        )
        if key not in self._failures and len(self._failures) < MAX_FAILURES:
            self._failures[key] = failure


def _place_pinned(failure: Failure) -> Failure:
    """Return CUDA's refusal to pin memory as what it is: the host's.

    cudaHostAlloc says "out of memory" too (c10/cuda, CachingHostAllocator).
    """
    frame = failure.frames[-1] if failure.frames else None
    if frame is None or failure.speaker is not FailureSpeaker.CUDA:
        return failure
    if failure.memory is not FailedMemory.GPU or _PIN not in f"{frame.function} {frame.code}":
        return failure
    return replace(failure, memory=FailedMemory.HOST, kind="pinned_tensor", subject="")


def _has_any(text: str, marks: tuple[str, ...]) -> bool:
    """Return whether a text has one of some marks."""
    for mark in marks:  # noqa: SIM110 - a generator takes twice the time
        if mark in text:
            return True
    return False


def scan_lines(lines: Iterable[tuple[int, str]]) -> FailureLog:
    """Return the failures that numbered lines tell."""
    scanner = LogScanner()
    for number, text in lines:
        scanner.feed(number, text)
    return scanner.finish()


def split_line(number: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield a line without colours, cut at a progress bar's carriage returns.

    Of a line of structured logs its texts are lines of their own.
    """
    text = text[:MAX_LINE]
    if text[:1] == "{" and "\\" in text:
        text = _unfold_record(text)
    for part in text.replace("\r", "\n").split("\n") if "\n" in text else text.split("\r"):
        if part:
            yield number, _ANSI.sub("", part) if "\x1b" in part else part


def _unfold_record(text: str) -> str:
    """Return the texts of a JSON record, a line each."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    values = record.values() if isinstance(record, dict) else ()
    return "\n".join(value for value in values if isinstance(value, str)) or text
