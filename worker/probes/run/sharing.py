"""Tasks shared among forked processes.

They are forked, so that libraries are loaded and the model is built once.
"""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from service.probing.refusal import Refusal
from service.runtime.line_process import die_with_parent

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class HelperError(Exception):
    """Words of what a task raised in another process."""


@dataclass(slots=True, kw_only=True)
class _Helper:
    """A process, its pipe and its task's place."""

    process: BaseProcess
    pipe: "Connection[Any, Any]"
    place: int = -1


def run_each(
    run: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    processes: int,
    on_begin: Callable[[Task], None],
) -> Generator[tuple[Task, Outcome | Refusal], None, None]:
    """Yield what each task returns, as they end.

    A refusal is yielded too. Whoever stops asking ends the processes. Raises HelperError for what
    else a task raises.
    """
    if processes == 1 or len(tasks) == 1:
        yield from _run_here(run, tasks, on_begin)
        return
    with _start_helpers(run, min(processes, len(tasks))) as idle:
        waiting = list(range(len(tasks)))
        busy: list[_Helper] = []
        while waiting or busy:
            while waiting and idle:
                helper = idle.pop()
                helper.place = waiting.pop(0)
                on_begin(tasks[helper.place])
                helper.pipe.send(tasks[helper.place])
                busy.append(helper)
            ready = wait([helper.pipe for helper in busy])
            for helper in [helper for helper in busy if helper.pipe in ready]:
                busy.remove(helper)
                idle.append(helper)
                yield tasks[helper.place], _receive(helper)


def _run_here(
    run: Callable[[Task], Outcome], tasks: Sequence[Task], on_begin: Callable[[Task], None]
) -> Iterator[tuple[Task, Outcome | Refusal]]:
    for task in tasks:
        on_begin(task)
        try:
            outcome: Outcome | Refusal = run(task)
        except Refusal as refusal:
            outcome = refusal
        yield task, outcome


@contextmanager
def _start_helpers(run: Callable[[Task], Outcome], count: int) -> Iterator[list[_Helper]]:
    """Start processes for a block, and leave none of them."""
    context = multiprocessing.get_context("fork")
    helpers: list[_Helper] = []
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(run, theirs, os.getpid()))
            process.start()
            theirs.close()
            helpers.append(_Helper(process=process, pipe=ours))
        yield list(helpers)
    finally:
        for helper in helpers:
            helper.process.kill()
            helper.process.join()
            helper.pipe.close()


def _serve(run: Callable[[Task], Outcome], pipe: "Connection[Any, Any]", parent: int) -> None:
    """Run tasks for as long as there is a parent."""
    die_with_parent(parent)
    while True:
        # What is left by now stays: tasks that look for garbage look at their own alone.
        gc.collect()
        gc.freeze()
        task = pipe.recv()
        outcome: object
        try:
            outcome = run(task)
        except (Refusal, MemoryError) as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - libraries' exceptions need not be sendable
            outcome = HelperError(f"{type(error).__name__}: {error}")
        pipe.send(outcome)


def _receive(helper: _Helper) -> Any:  # noqa: ANN401 - what a pipe gives
    """Return what a helper's task returned.

    Where a signal ended the helper it ends this process too: whoever follows it reads the signal.
    """
    try:
        outcome = helper.pipe.recv()
    except EOFError:
        helper.process.join()
        os.kill(os.getpid(), max(-(helper.process.exitcode or 0), signal.SIGTERM))
        raise
    if isinstance(outcome, HelperError | MemoryError):
        raise outcome
    return outcome
