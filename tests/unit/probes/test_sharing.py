"""Tasks that forked processes share."""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable

import pytest

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.run.sharing import HelperError, run_each


@pytest.fixture(autouse=True, scope="module")
def _freeze_objects() -> None:
    """Keep what tests before these left from the collections of each helper."""
    gc.collect()
    gc.freeze()


def run_twice(run: Callable[[int], object], *tasks: int) -> dict[int, object]:
    """Return what each task gives in two processes."""
    return dict(run_each(run, tasks, processes=2, on_begin=lambda _: None))


def test_tasks_are_shared_among_processes() -> None:
    """Each is begun and answered once, and none of them here."""
    begun: list[int] = []

    outcomes = dict(
        run_each(lambda n: (n * n, os.getpid()), (1, 2, 3), processes=2, on_begin=begun.append)
    )

    assert begun == [1, 2, 3]
    assert {n: square for n, (square, _) in outcomes.items()} == {1: 1, 2: 4, 3: 9}  # type: ignore[misc]  # no task is refused
    assert os.getpid() not in {pid for _, pid in outcomes.values()}  # type: ignore[misc]  # as above


def test_a_refusal_comes_back_as_it_was() -> None:
    """Its words are told to the user."""

    def refuse(_: int) -> None:
        raise Refusal(FailureKind.UNSUPPORTED, "no stack")

    outcome = run_twice(refuse, 1, 2)[1]

    assert isinstance(outcome, Refusal)
    assert (outcome.kind, outcome.message) == (FailureKind.UNSUPPORTED, "no stack")


def test_other_errors_come_back_as_words() -> None:
    """An exception of a library need not be sendable."""

    def fail(_: int) -> None:
        message = "no such layer"
        raise LookupError(message)

    with pytest.raises(HelperError, match="LookupError: no such layer"):
        run_twice(fail, 1, 2)


def test_who_stops_asking_leaves_no_process() -> None:
    """A refused variant ends the recording of the others."""
    outcomes = run_each(abs, (1, 2, 3), processes=2, on_begin=lambda _: None)

    next(outcomes)
    outcomes.close()

    assert not multiprocessing.active_children()


def test_the_signal_that_ends_a_helper_ends_its_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows the recorder reads of it that a bound was met."""
    ended: list[int] = []

    def die(_: int) -> None:
        signal.raise_signal(signal.SIGXCPU)

    monkeypatch.setattr(os, "kill", lambda _pid, number: ended.append(number))
    with pytest.raises(EOFError):
        run_twice(die, 1, 2)

    assert ended[0] == signal.SIGXCPU
