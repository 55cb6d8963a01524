"""Searches that hooks need not wait for: one at a time, kept, and never in the way."""

import threading
from collections.abc import Callable

import pytest

from service.usecases.hooks.decision import Shortage
from service.usecases.hooks.way_out import MAX_WAITING, WayOuts
from tests.waiting import eventually

FOUND = Shortage(reason="does not fit", per_node=2)
PATIENT_S = 60.0


def test_a_search_that_takes_long_goes_on() -> None:
    """Who asks first has no number; who asks again has it, and no search runs twice."""
    ways, go_on, begun = WayOuts(), threading.Event(), list[int]()

    def search(_: Callable[[], None]) -> Shortage:
        begun.append(1)
        go_on.wait(PATIENT_S)
        return FOUND

    first = ways.find("q", search, wait_s=0.001)
    second = ways.find("q", search, wait_s=0.001)
    go_on.set()

    assert (first, second) == (None, None)
    assert ways.find("q", search, wait_s=PATIENT_S) == FOUND
    assert ways.find("q", search, wait_s=0.001) == FOUND
    assert begun == [1]


def test_who_needs_the_number_queues_behind_no_other_search() -> None:
    """Not behind one of the same question either, which a process that starts may hold up."""
    ways, go_on = WayOuts(), threading.Event()

    def hang(_: Callable[[], None]) -> Shortage:
        go_on.wait(PATIENT_S)
        return FOUND

    left = [ways.find(key, hang, wait_s=0.0) for key in ("q", "another")]
    found = ways.find("q", lambda _: FOUND, wait_s=PATIENT_S, is_awaited=True)
    go_on.set()

    assert left == [None, None]
    assert found == FOUND


def test_a_search_stands_still_while_hooks_answer() -> None:
    """At its next step, until the last of them has answered."""
    ways, steps = WayOuts(), list[str]()

    def search(give_way: Callable[[], None]) -> Shortage:
        give_way()
        steps.append("searched")
        return FOUND

    with ways.answer_first():
        assert not ways._is_idle.is_set()  # noqa: SLF001 - what the search looks at
        steps.append("answered")

    assert ways.find("q", search, wait_s=PATIENT_S) == FOUND
    assert steps == ["answered", "searched"]


def test_what_failed_is_searched_again() -> None:
    """Whoever waited hears of it."""
    ways = WayOuts()

    def fail(_: Callable[[], None]) -> Shortage:
        message = "no"
        raise ValueError(message)

    with pytest.raises(ValueError, match="no"):
        ways.find("q", fail, wait_s=PATIENT_S)

    assert ways.find("q", lambda _: FOUND, wait_s=PATIENT_S) == FOUND


def test_searches_do_not_pile_up() -> None:
    """Past a number none is begun until one has ended."""
    ways, go_on = WayOuts(), threading.Event()

    def search(_: Callable[[], None]) -> Shortage:
        go_on.wait(PATIENT_S)
        return FOUND

    for number in range(MAX_WAITING):
        ways.find(number, search, wait_s=0.0)
    refused = ways.find("one more", search, wait_s=PATIENT_S)
    go_on.set()

    assert refused is None
    eventually(lambda: ways.find("one more", search, wait_s=PATIENT_S) == FOUND)
