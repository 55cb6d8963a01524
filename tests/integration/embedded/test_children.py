"""Children in general: tied to their owner, ended with their group, restarted when they die."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.base.startup_errors import EmbeddedServerError
from service.embedded.children import Child, keep_running, run_to_end, start, stop
from service.embedded.events import NULL_LOG
from service.embedded.identity import identify, is_alive, read_record, write_record
from service.embedded.supervisor import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    StopRequested,
    check_stop,
    compute_pause,
    hold_signals,
    keep_children,
    supervise,
)
from tests.waiting import eventually

_SLEEP = "import signal; signal.pause()"


def build_child(root: Path, script: str, *, name: str = "child", **changes: object) -> Child:
    """Return a child that runs a Python script and is ready at once."""
    values: dict[str, object] = {
        "name": name,
        "program": (sys.executable, "-S", "-c", script),
        "record": root / f"{name}.json",
        "log_file": root / f"{name}.log",
        "is_ready": lambda _pid: True,
        "stop_signals": ((signal.SIGTERM, 5.0),),
        **changes,
    }
    return Child(**values)  # type: ignore[arg-type]  # a builder takes what the value takes


def _pid(child: Child) -> int:
    record = read_record(child.record)
    return record.pid if record else 0


@pytest.fixture
def interrupter() -> Iterator[list[threading.Thread]]:
    """Collect the threads of a test and wait for them at its end."""
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join(timeout=20)


def _tell_us(number: signal.Signals) -> None:
    """Signal the main thread: one sent to the process would go to any thread that a test runner has
    beside it.
    """
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, number)


def test_a_child_has_no_way_to_its_owners_terminal(tmp_path: Path) -> None:
    """It leads a session of its own, keeps its files private and blocks no signal."""
    mask = "signal.pthread_sigmask(signal.SIG_BLOCK, ())"
    script = (
        f"import os, signal; print(os.getsid(0) == os.getpid(), oct(os.umask(0)), sorted({mask}))"
    )
    child = build_child(tmp_path, script)
    with hold_signals():
        run_to_end(child, NULL_LOG)

    assert child.log_file.read_text() == "True 0o77 []\n"


def test_an_owner_that_is_gone_starts_nothing(tmp_path: Path) -> None:
    """A child that lost its parent before it could be tied to it does not start."""
    launcher = Path(sys.modules["service.embedded.children"].__file__ or "").with_name("launch.py")
    trace = tmp_path / "trace"
    command = [
        sys.executable,
        str(launcher),
        "--parent",
        "1",
        "--death-signal",
        "9",
        "--",
        "/usr/bin/touch",
        str(trace),
    ]

    assert subprocess.run(command, check=False).returncode == 70
    assert not trace.exists()


def test_a_stubborn_child_is_killed(tmp_path: Path) -> None:
    """A child that ignores the polite signal is ended by SIGKILL, and its record goes with it."""
    script = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
        "signal.pause()"
    )
    child = build_child(tmp_path, script, stop_signals=((signal.SIGTERM, 0.05),))
    child = build_child(
        tmp_path,
        script,
        stop_signals=((signal.SIGTERM, 0.05),),
        is_ready=lambda _pid: child.log_file.read_text() == "deaf\n",
    )
    with keep_running(child, NULL_LOG) as process:
        pass

    assert process.returncode == -signal.SIGKILL
    assert not child.record.exists()


def test_a_childs_own_children_end_with_it(tmp_path: Path) -> None:
    """What a child started in its group does not outlive it."""
    script = "import os, signal; pid = os.fork(); pid and print(pid, flush=True); signal.pause()"
    child = build_child(tmp_path, script)
    process = start(child, NULL_LOG)
    eventually(lambda: child.log_file.read_text().endswith("\n"))
    grandchild = identify(int(child.log_file.read_text()))
    assert grandchild is not None
    stop(child, process, NULL_LOG)

    eventually(lambda: not is_alive(grandchild))


def test_a_left_child_is_ended_before_the_next_one_starts(tmp_path: Path) -> None:
    """A recorded process that still runs belongs to a dead owner and is ended."""
    child = build_child(tmp_path, _SLEEP)
    with subprocess.Popen([sys.executable, "-S", "-c", _SLEEP], start_new_session=True) as left:
        identity = identify(left.pid)
        assert identity is not None
        write_record(child.record, identity)

        with keep_running(child, NULL_LOG):
            assert left.wait(timeout=20) == -signal.SIGTERM


def test_a_recycled_id_is_left_alone(tmp_path: Path) -> None:
    """A record whose process id is another program's by now ends nobody."""
    child = build_child(tmp_path, _SLEEP)
    with subprocess.Popen([sys.executable, "-S", "-c", _SLEEP], start_new_session=True) as stranger:
        child.record.write_text(
            f'{{"pid": {stranger.pid}, "start_ticks": 1, "boot_id": "another"}}'
        )
        with keep_running(child, NULL_LOG):
            pass

        assert stranger.poll() is None
        stranger.kill()


def test_a_failing_start_shows_the_last_words(tmp_path: Path) -> None:
    """A child that ends before it is ready is reported with the end of what it said."""
    child = build_child(tmp_path, "raise SystemExit('no such table')", is_ready=lambda _pid: False)

    with (
        pytest.raises(
            EmbeddedServerError, match=r"exit code 1 before it was ready(?s:.*)no such table"
        ),
        keep_running(child, NULL_LOG),
    ):
        pass


def test_a_failing_task_shows_the_last_words(tmp_path: Path) -> None:
    """A task that ends badly is reported with the end of what it said."""
    with pytest.raises(
        EmbeddedServerError, match=r"task ended with exit code 1(?s:.*)no such table"
    ):
        run_to_end(
            build_child(tmp_path, "raise SystemExit('no such table')", name="task"), NULL_LOG
        )


def test_a_dead_child_is_restarted_until_told_to_stop(
    tmp_path: Path, interrupter: list[threading.Thread]
) -> None:
    """The supervisor replaces a killed child, and a signal ends the supervisor and all children."""
    child = build_child(tmp_path, _SLEEP)

    def kill_then_stop() -> None:
        first = _pid(child)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: _pid(child) not in {0, first})
        _tell_us(signal.SIGTERM)

    with hold_signals(), keep_children([child], NULL_LOG) as entries:
        interrupter.append(threading.Thread(target=kill_then_stop))
        interrupter[0].start()
        supervise(entries, NULL_LOG)

        assert entries[0].deaths == 1
    assert not child.record.exists()


def test_a_start_can_be_interrupted(tmp_path: Path) -> None:
    """A signal while a child is not ready ends the start and the child."""
    child = build_child(tmp_path, _SLEEP, is_ready=lambda _pid: False)
    with hold_signals():
        _tell_us(signal.SIGINT)

        with pytest.raises(StopRequested), keep_children([child], NULL_LOG):
            pass
    assert not child.record.exists()


def test_signals_are_as_before_afterwards() -> None:
    """Holding signals leaves neither a mask nor a handler nor a pending signal behind."""
    handlers = [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    ]
    with hold_signals():
        _tell_us(signal.SIGTERM)
        with pytest.raises(StopRequested):
            check_stop()

    assert [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    ] == handlers
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_a_hangup_that_is_ignored_stays_ignored(
    tmp_path: Path, interrupter: list[threading.Thread]
) -> None:
    """Under nohup the terminal's end is no reason to stop; SIGTERM still is."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    child = build_child(tmp_path, _SLEEP)

    def hang_up_then_stop() -> None:
        first = _pid(child)
        _tell_us(signal.SIGHUP)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: _pid(child) not in {0, first})
        _tell_us(signal.SIGTERM)

    try:
        with hold_signals(), keep_children([child], NULL_LOG) as entries:
            interrupter.append(threading.Thread(target=hang_up_then_stop))
            interrupter[0].start()
            supervise(entries, NULL_LOG)

            assert entries[0].deaths == 1
    finally:
        signal.signal(signal.SIGHUP, before)


def test_pauses_grow_to_a_limit() -> None:
    """Each death in a row doubles the pause, and no number of deaths exceeds the limit."""
    pauses = [compute_pause(deaths) for deaths in (1, 2, 3, 100_000)]

    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S, LONGEST_PAUSE_S]
