"""A worker's main loop, and when a signal may break it off."""

import signal
from collections.abc import Iterator
from typing import cast

import pytest
from rq.exceptions import StopRequested

from service.jobs.contract import ProbeDevice
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, workers
from service.usecases.jobs.workers import WorkerInfo
from service.usecases.stored import Sessions
from worker.context import WorkerContext
from worker.loop import STOP_SIGNALS, WorkerLoop


@pytest.fixture(autouse=True)
def _handlers_of_before() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in STOP_SIGNALS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> WorkerLoop:
    """Return a worker whose database and whose clock take no time and hold no job."""
    monkeypatch.setattr(workers, "register", lambda *_: None)
    monkeypatch.setattr(workers, "mark_stopped", lambda *_: None)
    monkeypatch.setattr(workers, "record_heartbeat", lambda *_, **__: None)
    monkeypatch.setattr(attempts, "find_queued", lambda *_, **__: None)
    context = WorkerContext(
        settings=Settings(redis_url=None), name="w", device=ProbeDevice.CPU, probe_command=()
    )
    info = WorkerInfo(name="w", host="h", pid=1, devices=[], versions={})
    sessions = cast("Sessions", None)
    return WorkerLoop(context=context, info=info, sessions=sessions, open_sessions=lambda: sessions)


@pytest.mark.parametrize("signum", sorted(STOP_SIGNALS))
def test_a_signal_breaks_off_no_query(
    monkeypatch: pytest.MonkeyPatch, worker: WorkerLoop, signum: signal.Signals
) -> None:
    """A connection would be left in the middle of a statement; the loop ends after it."""
    ended = []

    def be_interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signum)
        ended.append(True)

    monkeypatch.setattr(attempts, "find_queued", be_interrupted)

    worker.work()

    assert ended == [True]


def test_a_signal_breaks_off_a_registration_no_more(
    monkeypatch: pytest.MonkeyPatch, worker: WorkerLoop
) -> None:
    """The first query of all is one too."""
    steps = []

    def be_interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        steps.append("registered")

    monkeypatch.setattr(workers, "register", be_interrupted)
    monkeypatch.setattr(workers, "mark_stopped", lambda *_: steps.append("unregistered"))

    worker.work()

    assert steps == ["registered", "unregistered"]


def test_a_signal_ends_a_wait(monkeypatch: pytest.MonkeyPatch, worker: WorkerLoop) -> None:
    """Nothing is held while nothing runs."""
    ended = []

    def sleep(_seconds: float) -> None:
        signal.raise_signal(signal.SIGTERM)
        ended.append(True)

    monkeypatch.setattr("worker.loop.time.sleep", sleep)

    worker.work()

    assert ended == []


def test_a_worker_that_was_told_to_stop_begins_nothing(
    monkeypatch: pytest.MonkeyPatch, worker: WorkerLoop
) -> None:
    """A burst's poll after the signal is one too many."""
    monkeypatch.setattr(workers, "register", lambda *_: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(attempts, "find_queued", lambda *_, **__: pytest.fail("polled"))

    worker.work(burst=True)

    with pytest.raises(StopRequested):
        worker.run_queued()
