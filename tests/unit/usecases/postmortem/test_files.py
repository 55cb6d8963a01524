"""Files of failures: logs of any length and code page, snapshots, and what is none of them."""

import io
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.base.explain_errors import NothingToExplainError
from service.formats.failures.failure import FailureQuantity
from service.formats.measured.reading import MeasuredFormatError
from service.usecases.postmortem.explain import explain_data, explain_stream

MIB = 1 << 20
MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total "
    "capacity of 14.61 GiB of which 1.99 GiB is free. Including non-PyTorch memory, this process "
    "has 12.62 GiB memory in use. Of the allocated memory 8.50 GiB is allocated by PyTorch, and "
    "3.96 GiB is reserved by PyTorch but unallocated."
)


class Lines(io.RawIOBase):
    """A log of a given number of lines, of which none is kept."""

    def __init__(self, num_lines: int, last: str) -> None:
        """Make the lines as they are read."""
        self._lines = self._iter_lines(num_lines, last)
        self._rest = b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - as the library has it
        """Fill a buffer with what comes next; nobody may ask for the whole of it."""
        assert len(buffer) <= 1 << 20
        while len(self._rest) < len(buffer) and (line := next(self._lines, b"")):
            self._rest += line
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)

    def _iter_lines(self, num_lines: int, last: str) -> Iterator[bytes]:
        for index in range(num_lines):
            yield b"{'step': %d, 'loss': 1.0}\n" % index
        yield last.encode()


def snapshot(**more: object) -> dict[str, Any]:
    """Return a snapshot that ends with an event: 30 of 40 MiB allocated, 12 MiB requested."""
    frames = [
        {"filename": "torch/_tensor.py", "name": "backward", "line": 1},
        {"filename": "train.py", "name": "main", "line": 2},
    ]
    oom = {"action": "oom", "size": 12 * MIB, "device_free": 2 * MIB, "frames": frames}
    blocks = [
        {"size": 30 * MIB, "state": "active_allocated"},
        {"size": 6 * MIB, "state": "inactive"},
        {"size": 4 * MIB, "state": "inactive"},
    ]
    return {
        "segments": [{"device": 0, "total_size": 40 * MIB, "blocks": blocks}],
        "device_traces": [[{"action": "alloc", "size": 30 * MIB, "addr": 7}, oom]],
    } | more


@pytest.mark.parametrize("encode", [pickle.dumps, lambda value: json.dumps(value).encode()])
def test_a_snapshot_is_explained(encode: Callable[[object], bytes]) -> None:
    """Its event has what was requested and free, its blocks the largest hole."""
    explanation = explain_data(encode(snapshot()))

    spans = {amount.quantity: amount.span.value for amount in explanation.failure.amounts}
    assert spans == {
        FailureQuantity.REQUESTED: 12 * MIB,
        FailureQuantity.FREE: 2 * MIB,
        FailureQuantity.ALLOCATED: 30 * MIB,
        FailureQuantity.RESERVED: 40 * MIB,
        FailureQuantity.LARGEST_FREE_BLOCK: 6 * MIB,
    }
    assert explanation.place is not None
    assert explanation.place.instant == "backward"
    assert (explanation.cause.name, explanation.cause.certainty) == ("fragmentation", "likely")
    assert "the largest free block has 6.00 MiB" in explanation.cause.why


def test_what_followed_an_event_is_taken_back() -> None:
    """The allocator went on: 30 MiB were freed and 20 MiB of a segment came after it."""
    later = [
        {"action": "free_requested", "size": 30 * MIB, "addr": 7},
        {"action": "segment_alloc", "size": 20 * MIB, "addr": 9},
    ]
    trace = [*snapshot()["device_traces"][0], *later]
    segments = [{"device": 0, "total_size": 60 * MIB, "blocks": []}]

    explanation = explain_data(pickle.dumps(snapshot(device_traces=[trace], segments=segments)))

    spans = {amount.quantity: amount.span.value for amount in explanation.failure.amounts}
    assert spans[FailureQuantity.ALLOCATED] == 30 * MIB
    assert spans[FailureQuantity.RESERVED] == 40 * MIB
    assert FailureQuantity.LARGEST_FREE_BLOCK not in spans


def test_a_snapshot_without_an_event_tells_nothing() -> None:
    """Its run did not fail."""
    with pytest.raises(NothingToExplainError):
        explain_data(pickle.dumps(snapshot(device_traces=[[]])))


def test_words_of_a_snapshot_may_be_of_any_type() -> None:
    """An action or a state that is no text is none that is known."""
    trace = [*snapshot()["device_traces"][0], {"action": [], "size": 1}]
    segments = [{"device": 0, "total_size": MIB, "blocks": [{"size": MIB, "state": {}}]}]

    explanation = explain_data(json.dumps(snapshot(device_traces=[trace])).encode())
    other = explain_data(json.dumps(snapshot(segments=segments)).encode())

    assert explanation.failure == explain_data(json.dumps(snapshot()).encode()).failure
    assert FailureQuantity.LARGEST_FREE_BLOCK in {item.quantity for item in other.failure.amounts}


def test_a_broken_snapshot_is_refused() -> None:
    """In the words of the importer, which reads the same files."""
    with pytest.raises(MeasuredFormatError, match="pickle"):
        explain_data(pickle.dumps(snapshot())[:-20])


def test_a_log_of_any_length_is_read_line_by_line() -> None:
    """Though it begins as JSON does; the number of the line is that of the file."""
    handle = io.BufferedReader(Lines(20_000, MESSAGE))

    explanation = explain_stream(handle)  # type: ignore[arg-type]  # a raw stream of our own

    assert explanation.failure.line == 20_001
    assert explanation.cause.name == "fragmentation"


@pytest.mark.parametrize(
    "data",
    [
        MESSAGE.encode(),
        ("\ufeff" + MESSAGE).encode(),
        MESSAGE.encode("utf-16"),
        b"\xff\x00 progress \r" + MESSAGE.encode() + b"\r\n",
        ("\x1b[31m" + MESSAGE.replace("out of", "out \x1b[1mof") + "\x1b[0m").encode(),
        b'{"level": "info"}\n' + MESSAGE.encode(),
        MESSAGE.replace(". ", ".\n").encode(),
        ("[rank2]: " + MESSAGE.replace(". ", ".\n[rank2]: ")).encode(),
    ],
)
def test_a_log_is_read_however_it_was_written(data: bytes) -> None:
    """With a byte order mark, by PowerShell, with colours, broken bytes, wrapped lines."""
    by_data = explain_data(data)
    by_stream = explain_stream(io.BufferedReader(io.BytesIO(data)))

    assert by_data.balance == by_stream.balance
    assert by_data.balance.unallocated is not None
    assert by_data.balance.unallocated.value == round(3.96 * 2**30)


@pytest.mark.parametrize(
    "data", [b"hello\nworld", b"", b'{"a": 1}', b"Capture cuda graph failed: Connection closed"]
)
def test_what_tells_nothing_is_refused_with_what_is_read(data: bytes) -> None:
    """The refusal counts the lines, or names what is wrong, and lists the kinds."""
    with pytest.raises((NothingToExplainError, MeasuredFormatError)) as refusal:
        explain_data(data)

    if isinstance(refusal.value, NothingToExplainError):
        kinds = refusal.value.extra["kinds"]
        assert isinstance(kinds, list)
        assert "vLLM" in " ".join(kinds)


def test_a_record_of_a_structured_log_is_unfolded() -> None:
    """Its message has the traceback and the error, with escaped quotes and line ends."""
    frame = '  File "torch/_tensor.py", line 1, in backward\n    torch.autograd.backward('
    message = f"Traceback (most recent call last):\n{frame}\n{MESSAGE}"
    records = [{"level": "info"}, {"level": "error", "message": message, "n": 1}]
    data = "\n".join(json.dumps(record) for record in records)

    explanation = explain_data(data.encode())
    alone = explain_data(json.dumps(records[1]).encode())

    assert alone.balance == explanation.balance
    assert explanation.failure.line == 2
    assert explanation.place is not None
    assert explanation.place.instant == "backward"


def test_the_message_of_metal_is_read() -> None:
    """Its limit stands in place of the GPU's memory."""
    message = (
        "MPS backend out of memory (MPS allocated: 9.02 GB, other allocations: 8.97 MB, max "
        "allowed: 9.07 GB). Tried to allocate 25.10 MB on private pool."
    )

    explanation = explain_data(message.encode())

    assert explanation.balance.limit is not None
    assert round(explanation.balance.limit.value / 2**30, 2) == 9.07
    assert explanation.cause.name == "too_large"
