"""Memory that calls of children take together."""

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from service.runtime.children.memory import ChildMemory
from tests.waiting import eventually


class LeftError(Exception):
    """Nobody waits any more."""


def leave() -> None:
    """Wait no longer than one look."""
    raise LeftError


def has_room(memory: ChildMemory, num_bytes: int, **options: int) -> bool:
    """Return whether a call need not wait."""
    try:
        with memory.take(num_bytes, leave, **options):
            return True
    except LeftError:
        return False


@pytest.mark.parametrize(
    ("total_bytes", "taken_bytes", "num_bytes", "spared_bytes", "room"),
    [
        (100, 60, 40, 0, True),
        (100, 60, 41, 0, False),
        (100, 60, 30, 11, False),
        (100, 60, 30, 10, True),
        (100, 0, 500, 50, True),
        (100, 1, 500, 0, False),
        (None, 60, 500, 50, True),
    ],
)
def test_calls_take_no_more_than_there_is(
    total_bytes: int | None, taken_bytes: int, num_bytes: int, spared_bytes: int, *, room: bool
) -> None:
    """One that would take too much beside others waits; one that is too large runs alone."""
    memory = ChildMemory(total_bytes)
    with ExitStack() as stack:
        if taken_bytes:
            stack.enter_context(memory.take(taken_bytes, leave))

        assert has_room(memory, num_bytes, spared_bytes=spared_bytes) is room
    assert has_room(memory, num_bytes)


def test_a_call_that_waits_goes_on_when_another_has_ended() -> None:
    """It need not be asked again."""
    memory, looks, ended = ChildMemory(100), list[int](), threading.Event()

    def wait() -> None:
        with memory.take(60, lambda: looks.append(1)):
            ended.set()

    with memory.take(60, leave):
        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: bool(looks))
        was_waiting = not ended.is_set()
    thread.join(timeout=60)

    assert was_waiting
    assert ended.is_set()


def test_a_call_that_failed_gives_its_memory_back() -> None:
    """Whatever it raised."""
    memory = ChildMemory(100)

    def fail(take: Callable[[], None]) -> None:
        with memory.take(100, leave):
            take()

    with pytest.raises(LeftError):
        fail(leave)

    assert has_room(memory, 100)
