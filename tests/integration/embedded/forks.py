"""A program whose children are forks of it, and what these do.

A test's own process has threads, and must not fork.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from service.base.startup_errors import EmbeddedServerError
from service.embedded.children import Child, keep_running, run_to_end, start
from service.embedded.events import NULL_LOG
from service.embedded.forking import ModuleMain, preload
from service.embedded.supervisor import hold_signals


def main(arguments: Sequence[str]) -> int:
    """Do what a child is told."""
    match arguments:
        case ["describe"]:
            surroundings = {
                "name": Path("/proc/self/comm").read_text(),
                "leads its session": os.getsid(0) == os.getpid(),
                "umask": os.umask(0),
                "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                "handled": [
                    number.name
                    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
                    if callable(signal.getsignal(number))
                ],
                "files": sorted(
                    # Not the folder's own, which is closed by then.
                    int(file.name)
                    for file in Path("/proc/self/fd").iterdir()
                    if file.exists()
                ),
                "environment": dict(os.environ),
                "input": sys.stdin.read(),
            }
            sys.stdout.write(json.dumps(surroundings))
        case ["end", code]:
            return int(code)
        case ["fail"]:
            message = "no such table"
            raise RuntimeError(message)
        case _:
            signal.pause()
    return 0


def make_child(root: Path, *arguments: str, **changes: object) -> Child:
    """Return a child that is a fork."""
    values: dict[str, object] = {
        "name": "child",
        "program": ModuleMain(module=__spec__.name, arguments=arguments),
        "record": root / "child.json",
        "log_file": root / "child.log",
        "is_ready": lambda _pid: True,
        "environment": {"A": "b"},
        **changes,
    }
    return Child(**values)  # type: ignore[arg-type]  # a builder takes what the value takes


def describe(root: Path) -> object:
    """Return what a fork finds around it, and the file that it is to have."""
    reader, writer = os.pipe()
    child = make_child(root, "describe", pass_fds=(reader,))
    with hold_signals(), child.log_file.open("ab"):
        run_to_end(child, NULL_LOG)
    os.close(writer)
    return json.loads(child.log_file.read_text()), reader


def end_each_way(root: Path) -> object:
    """Return how forks end: by a code, by an error and by a signal."""
    ends: list[object] = []
    for arguments in (("end", "3"), ("fail",)):
        try:
            run_to_end(make_child(root, *arguments), NULL_LOG)
        except EmbeddedServerError as error:
            ends.append(str(error))
    with keep_running(make_child(root), NULL_LOG) as process:
        ends.append(process.poll())
    return [*ends, process.poll(), process.wait()]


def leave(root: Path) -> object:
    """Return the id of a fork that is left behind."""
    return start(make_child(root), NULL_LOG).pid


def fork_beside_a_thread(root: Path) -> object:
    """Return what is said to a process that has two."""
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        start(make_child(root), NULL_LOG)
    except RuntimeError as error:
        return str(error)
    finally:
        waiting.set()
        thread.join()
    return None


if __name__ == "__main__":
    preload([__spec__.name])
    act = {act.__name__: act for act in (describe, end_each_way, leave, fork_beside_a_thread)}[
        sys.argv[1]
    ]
    sys.stdout.write(json.dumps(act(Path(sys.argv[2]))))
    sys.stdout.flush()
    if act is leave:
        os.kill(os.getpid(), signal.SIGKILL)
