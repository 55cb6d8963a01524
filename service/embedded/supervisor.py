"""Supervisor of child processes.

Starts them in order, restarts what dies, and ends them in the opposite order.
"""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

from service.base.startup_errors import EmbeddedServerError
from service.embedded.children import (
    Child,
    Process,
    describe_exit,
    read_log_tail,
    start,
    stop,
    wait_ready,
)
from service.embedded.events import Log

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
STEADY_AFTER_S = 60.0
"""A child that ran this long has recovered: its next death counts as the first."""
_POLL_S = 1.0


class StopRequested(BaseException):
    """Request that the supervisor stop.

    Like KeyboardInterrupt it is no error, so that nothing catches it by accident.
    """


@dataclass(slots=True)
class SupervisedChild:
    """Child with its supervision state.

    Times are on the monotonic clock.
    """

    child: Child
    process: Process | None
    started_s: float
    deaths: int = 0
    restart_s: float = 0.0


@contextmanager
def hold_signals() -> Iterator[None]:
    """Block the stop signals and SIGCHLD during a block.

    Whoever waits for them receives them.
    """
    blocked = STOP_SIGNALS | {signal.SIGCHLD}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # nohup wants it that way. A background job's ignored SIGINT is only about the terminal's
        # Ctrl-C, so it is heard.
        blocked -= {signal.SIGHUP}
    handlers = {number: signal.signal(number, _ignore_signal) for number in blocked}
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        yield
    finally:
        while signal.sigtimedwait(blocked, 0) is not None:
            continue
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def check_stop() -> None:
    """Raise StopRequested if a stop signal is pending."""
    if signal.sigpending() & STOP_SIGNALS:
        raise StopRequested


@contextmanager
def keep_children(children: Sequence[Child], log: Log) -> Iterator[list[SupervisedChild]]:
    """Start children together and yield once they are ready.

    Only those that may not fail are waited for. They are ended in the opposite order.
    """
    with ExitStack() as stack:
        entries = [_start_child(child, log, stack) for child in children]
        for entry in entries:
            _wait_until_ready(entry)
        yield entries


def supervise(entries: Sequence[SupervisedChild], log: Log) -> None:
    """Restart children that die until a stop signal arrives.

    Signals must be blocked.
    """
    while True:
        for entry in entries:
            _check_child(entry, log)
        due = [entry.restart_s for entry in entries if entry.process is None]
        pause_s = min([_POLL_S, *(max(0.0, at - time.monotonic()) for at in due)])
        received = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, pause_s)
        if received is not None and received.si_signo in STOP_SIGNALS:
            return


def compute_pause(deaths: int) -> float:
    """Return the seconds to wait before the next start.

    Twice as long after each death, up to a limit.
    """
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(deaths - 1, 16))


def _start_child(child: Child, log: Log, stack: ExitStack) -> SupervisedChild:
    entry = SupervisedChild(child=child, process=start(child, log), started_s=time.monotonic())
    stack.callback(_stop_child, entry, log)
    return entry


def _stop_child(entry: SupervisedChild, log: Log) -> None:
    if entry.process is not None:
        stop(entry.child, entry.process, log)


def _wait_until_ready(entry: SupervisedChild) -> None:
    if not entry.child.may_fail and entry.process is not None:
        wait_ready(entry.child, entry.process, check_stop)


def _check_child(entry: SupervisedChild, log: Log) -> None:
    now = time.monotonic()
    code = None if entry.process is None else entry.process.poll()
    if entry.process is not None and code is not None:
        _handle_exit(entry, entry.process, code, now, log)
    if entry.process is None and now >= entry.restart_s:
        _restart(entry, now, log)


def _handle_exit(entry: SupervisedChild, process: Process, code: int, now: float, log: Log) -> None:
    entry.deaths = 1 if now - entry.started_s > STEADY_AFTER_S else entry.deaths + 1
    pause_s = compute_pause(entry.deaths)
    # The leader is gone, its group may not be.
    stop(entry.child, process, log)
    entry.process, entry.restart_s = None, now + pause_s
    exit_words = describe_exit(code)
    log.warning(
        "child.died",
        name=entry.child.name,
        exit=exit_words,
        restart_in_s=pause_s,
        said=read_log_tail(entry.child).lstrip("; "),
    )


def _restart(entry: SupervisedChild, now: float, log: Log) -> None:
    try:
        entry.process = start(entry.child, log)
    except (EmbeddedServerError, OSError) as error:
        entry.deaths += 1
        entry.restart_s = now + compute_pause(entry.deaths)
        log.warning(
            "child.not_started",
            name=entry.child.name,
            reason=str(error),
            restart_in_s=entry.restart_s - now,
        )
    else:
        entry.started_s = now
        log.info("child.restarted", name=entry.child.name, pid=entry.process.pid)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing with a signal.

    It is waited for elsewhere; this handler keeps it from being ignored or from ending the process.
    """
