"""Keep children running until told to stop: start in order, restart what dies, end in the opposite order."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

from service.base.errors import EmbeddedServerError
from service.embedded.children import Child, Process, describe_exit, last_words, start, stop, wait_ready
from service.embedded.events import Log

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
STEADY_AFTER_S = 60.0
"""A child that ran this long has recovered: its next death counts as the first."""
_LOOK_S = 1.0


class StopRequested(BaseException):
    """Somebody asked the supervisor to stop; like KeyboardInterrupt no error, so that nothing catches it by accident."""


@dataclass(slots=True)
class Kept:
    """A child with what the supervisor remembers of it; times on the monotonic clock."""

    child: Child
    process: Process | None
    started_s: float
    deaths: int = 0
    restart_s: float = 0.0


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold the signals that stop, and those that tell of a child's end, for whoever waits for them."""
    held = STOP_SIGNALS | {signal.SIGCHLD}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # nohup wants it that way. A background job's ignored SIGINT is only about the terminal's Ctrl-C, so it is heard.
        held -= {signal.SIGHUP}
    handlers = {number: signal.signal(number, _take_note) for number in held}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        while signal.sigtimedwait(held, 0) is not None:
            continue
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def check_stop() -> None:
    """Raise when somebody asked to stop."""
    if signal.sigpending() & STOP_SIGNALS:
        raise StopRequested


@contextmanager
def kept(children: Sequence[Child], log: Log) -> Iterator[list[Kept]]:
    """Start children together and yield when all that may not fail are ready; end them in the opposite order."""
    with ExitStack() as stack:
        entries = [_enter(child, log, stack) for child in children]
        for entry in entries:
            _await(entry)
        yield entries


def supervise(entries: Sequence[Kept], log: Log) -> None:
    """Restart what dies until a signal says stop; signals must be held."""
    while True:
        for entry in entries:
            _look_after(entry, log)
        due = [entry.restart_s for entry in entries if entry.process is None]
        pause_s = min([_LOOK_S, *(max(0.0, at - time.monotonic()) for at in due)])
        received = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, pause_s)
        if received is not None and received.si_signo in STOP_SIGNALS:
            return


def pause_after(deaths: int) -> float:
    """Return how many seconds to wait before the next start: twice as long after each death, up to a limit."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(deaths - 1, 16))


def _enter(child: Child, log: Log, stack: ExitStack) -> Kept:
    entry = Kept(child=child, process=start(child, log), started_s=time.monotonic())
    stack.callback(_leave, entry, log)
    return entry


def _leave(entry: Kept, log: Log) -> None:
    if entry.process is not None:
        stop(entry.child, entry.process, log)


def _await(entry: Kept) -> None:
    if not entry.child.may_fail and entry.process is not None:
        wait_ready(entry.child, entry.process, check_stop)


def _look_after(entry: Kept, log: Log) -> None:
    now = time.monotonic()
    if entry.process is not None and entry.process.poll() is not None:
        _bury(entry, entry.process, now, log)
    if entry.process is None and now >= entry.restart_s:
        _revive(entry, now, log)


def _bury(entry: Kept, process: Process, now: float, log: Log) -> None:
    entry.deaths = 1 if now - entry.started_s > STEADY_AFTER_S else entry.deaths + 1
    pause_s = pause_after(entry.deaths)
    # The leader is gone, its group may not be.
    stop(entry.child, process, log)
    entry.process, entry.restart_s = None, now + pause_s
    exit_words = describe_exit(process.returncode)
    log.warning(
        "child.died", name=entry.child.name, exit=exit_words, restart_in_s=pause_s, said=last_words(entry.child).lstrip("; ")
    )


def _revive(entry: Kept, now: float, log: Log) -> None:
    try:
        entry.process = start(entry.child, log)
    except (EmbeddedServerError, OSError) as error:
        entry.deaths += 1
        entry.restart_s = now + pause_after(entry.deaths)
        log.warning("child.not_started", name=entry.child.name, reason=str(error), restart_in_s=entry.restart_s - now)
    else:
        entry.started_s = now
        log.info("child.restarted", name=entry.child.name, pid=entry.process.pid)


def _take_note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal is waited for; this keeps it from being ignored or from ending the process."""
