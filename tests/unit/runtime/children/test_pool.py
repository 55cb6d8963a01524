"""Calls of functions in children with limits."""

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import psutil
import pytest

from service.base.errors import InvalidRequestError
from service.runtime.children import pool as pools
from service.runtime.children.limits import Limits
from service.runtime.children.messages import Inbox, is_silent
from service.runtime.children.pool import (
    ChildDiedError,
    ChildPool,
    MemoryExceededError,
    TimeExceededError,
    TravelError,
)
from service.runtime.children.starting import ChildStarter, ChildStartError
from tests.unit.runtime.children import functions
from tests.unit.runtime.children.functions import MIB
from tests.waiting import eventually

ENDLESS = "tests.unit.runtime.children.endless"
LIMITS = Limits(memory_bytes=64 * MIB, processor_s=5.0, reply_bytes=MIB)


@pytest.fixture(scope="module")
def starter() -> Iterator[ChildStarter]:
    """Start one fork server for all of these tests."""
    starter = ChildStarter([functions.__name__])
    yield starter
    starter.close()


@pytest.fixture(scope="module")
def pool(starter: ChildStarter) -> ChildPool:
    """Return a pool whose calls have a child each."""
    return ChildPool(starter, keeps=False)


@pytest.fixture(scope="module")
def kept() -> Iterator[ChildPool]:
    """Return a pool whose child goes on to the next call."""
    pool = ChildPool(ChildStarter([functions.__name__]), keeps=True)
    yield pool
    pool.close()


def test_each_call_has_a_process_of_its_own(pool: ChildPool) -> None:
    """What one file leaves behind, the next does not meet."""
    pids = {pool.call(functions.get_pid, limits=LIMITS) for _ in range(3)}

    assert len(pids | {os.getpid()}) == 4
    assert not any(psutil.pid_exists(pid) for pid in pids - {os.getpid()})


def test_a_kept_child_answers_the_next_call() -> None:
    """What it remembers serves the next question; it ends with the pool."""
    kept = ChildPool(ChildStarter([functions.__name__]), keeps=True)

    first, second = (kept.call(functions.get_pid, limits=LIMITS) for _ in range(2))
    kept.close()

    assert first == second
    eventually(lambda: not psutil.pid_exists(first))
    assert kept.is_closed
    with pytest.raises(ChildStartError, match="the server stops"):
        kept.call(functions.get_pid, limits=LIMITS)


def test_a_refusal_arrives_as_it_is(pool: ChildPool) -> None:
    """It has its words and its fields, and where it was raised."""
    with pytest.raises(InvalidRequestError) as raised:
        pool.call(functions.refuse, "no such column", limits=LIMITS)

    assert raised.value.detail == "no such column"
    assert raised.value.extra == {"errors": [{"field": "content", "message": "no such column"}]}
    assert "functions.py" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("function", "size", "reason"),
    [(functions.allocate, 80 * MIB, "of memory"), (functions.repeat, 2 * MIB, "returned more")],
)
def test_memory_has_a_limit(pool: ChildPool, function: object, size: int, reason: str) -> None:
    """What a call takes has one, and so has what it returns; below it is served."""
    with pytest.raises(MemoryExceededError, match=reason):
        pool.call(function, size, limits=LIMITS)  # type: ignore[arg-type]  # either function

    assert pool.call(functions.allocate, 40 * MIB, limits=LIMITS) == 40 * MIB


def test_time_has_a_limit(pool: ChildPool) -> None:
    """The kernel counts it, so that no C call outlives it."""
    spent: list[float] = []
    limits = Limits(memory_bytes=MIB, processor_s=0.1)

    with pytest.raises(TimeExceededError, match=r"more than 0\.1 s"):
        pool.call(functions.spin, limits=limits, count=spent.append)

    assert spent == [0.1]


def test_a_child_that_dies_takes_nobody_along(pool: ChildPool) -> None:
    """Its caller is told how, and the next call has another."""
    with pytest.raises(ChildDiedError, match="SIGSEGV"):
        pool.call(functions.die, limits=LIMITS)

    assert pool.call(functions.get_pid, limits=LIMITS)


def test_a_call_ends_when_nobody_waits(pool: ChildPool, tmp_path: Path) -> None:
    """Its process is gone when its caller hears of it."""
    place = tmp_path / "pid"

    def check() -> None:
        if place.exists() and place.read_text():
            raise InterruptedError

    with pytest.raises(InterruptedError):
        pool.call(functions.wait, str(place), limits=LIMITS, check=check)

    assert not psutil.pid_exists(int(place.read_text()))


def test_whoever_waits_for_a_first_child_may_leave() -> None:
    """Neither he nor the server's end waits until the modules are loaded."""
    starter = ChildStarter([ENDLESS])

    with pytest.raises(InterruptedError):
        starter.start(check=interrupt)

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(starter.start)
        starter.close()
        refusal = waiting.exception()
    assert isinstance(refusal, ChildStartError)


def test_what_cannot_travel_harms_nobody(kept: ChildPool) -> None:
    """Neither a question nor an answer without a name elsewhere; the child goes on."""
    before = kept.call(functions.get_pid, limits=LIMITS)

    with pytest.raises(TravelError, match="lambda"):
        kept.call(functions.call, lambda: 7, limits=LIMITS)
    with pytest.raises(TravelError, match="lambda"):
        kept.call(functions.make_function, limits=LIMITS)

    assert kept.call(functions.get_pid, limits=LIMITS) == before


def test_a_server_without_memory_to_send_says_so(
    kept: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be sent has nothing wrong with it."""

    def encode_message(_message: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(pools, "encode_message", encode_message)

    with pytest.raises(MemoryError):
        kept.call(functions.get_pid, limits=LIMITS)


def test_a_cancelled_child_is_kept(kept: ChildPool) -> None:
    """It leaves its call at the next check, with what it remembers; what it took is counted."""
    before = kept.call(functions.get_pid, limits=LIMITS)

    spent: list[float] = []
    with pytest.raises(InterruptedError):
        kept.call(functions.check_on, limits=LIMITS, check=interrupt, count=spent.append)

    assert kept.call(functions.get_pid, limits=LIMITS) == before
    assert 0 < spent[0] < LIMITS.processor_s


def test_a_child_that_remembers_too_much_ends(kept: ChildPool) -> None:
    """The next call has another one, whose memory is small again."""
    before = kept.call(functions.keep_nothing, limits=LIMITS)

    assert kept.call(functions.get_pid, limits=LIMITS) != before


def test_a_message_that_came_in_part_is_read_to_its_end() -> None:
    """Whoever leaves while it comes does not take its middle for the next one."""
    one, other = socket.socketpair()
    one.settimeout(0.001)
    inbox = Inbox(one)
    with one, other:
        other.sendall((3).to_bytes(8) + b"ab")
        with pytest.raises(InterruptedError):
            inbox.receive(interrupt)
        other.sendall(b"c" + (1).to_bytes(8) + b"d")

        assert [inbox.receive(interrupt), inbox.receive(interrupt)] == [
            bytearray(b"abc"),
            bytearray(b"d"),
        ]


def test_read_only_mappings_travel(pool: ChildPool) -> None:
    """There and back."""
    mapping = MappingProxyType({"a": 1})

    assert pool.call(functions.give_back, mapping, limits=LIMITS) == mapping


def test_a_server_with_many_files_knows_whether_a_child_is_there() -> None:
    """select(2) knows no file beyond the 1,024th."""
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    one, other = socket.socketpair()
    with one, other, socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 1500)) as late:
        before = is_silent(late)
        other.send(b"x")

        assert (before, is_silent(late)) == (True, False)


def interrupt() -> None:
    """Leave, as somebody does who waits no more."""
    raise InterruptedError


def test_children_give_way_and_know_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are ready run first; the environment has no database's URL."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    pool = ChildPool(ChildStarter([functions.__name__]), keeps=False)

    niceness, policy = pool.call(functions.get_policy, limits=LIMITS)
    environ = pool.call(functions.get_environ, limits=LIMITS)
    pool.close()

    assert niceness >= 10
    assert policy == os.SCHED_BATCH
    assert "DATABASE_URL" not in environ


def test_a_fork_server_that_ended_is_started_again(pool: ChildPool, starter: ChildStarter) -> None:
    """It ends where nobody has asked it for long, and somebody may kill it."""
    pool.call(functions.get_pid, limits=LIMITS)
    server = starter._process  # noqa: SLF001 - whoever kills it, kills it by its number
    assert server is not None
    server.kill()
    server.wait()

    assert pool.call(functions.get_pid, limits=LIMITS)


SERVER = """
import sys, threading
from service.runtime.children.limits import Limits
from service.runtime.children import pool as pools
from service.runtime.children.pool import ChildPool
from service.runtime.children.starting import ChildStarter
from tests.unit.runtime.children import functions
pool = ChildPool(ChildStarter([functions.__name__]), keeps=True)
pool.call(functions.wait, sys.argv[1], limits=Limits(memory_bytes=2**26, processor_s=60.0))
"""


def test_no_process_outlives_a_killed_server(tmp_path: Path) -> None:
    """Neither the fork server nor a child that computes."""
    place = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", SERVER, str(place)]) as server:
        eventually(lambda: place.exists() and place.read_text(), within_s=60)
        child = psutil.Process(int(place.read_text()))
        processes = [child, *child.parents()[:1]]

        server.send_signal(signal.SIGKILL)

    eventually(lambda: not any(process.is_running() for process in processes))
