"""Programs and servers that run as an unprivileged user.

There are a Postgres and a Redis on loopback, and programs that run as the images' user where they
cannot write.
"""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from service.embedded.binaries import find_postgres, find_redis
from tests.bench.servers import find_free_port

WITHIN_S = 60.0
STOP_S = 20.0
NAME = "headroom"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprivilegedRunner:
    """Runner of programs as a container's user.

    The user is ``uid:gid``. The directory is not his; he writes to /tmp.
    """

    user: str
    directory: Path

    def popen(
        self, argv: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> "subprocess.Popen[bytes]":
        """Start a program as this user.

        Only root can switch; anybody else stays the user that he is.
        """
        uid, gid = (
            (int(part) for part in self.user.split(":")) if os.geteuid() == 0 else (None, None)
        )
        with log.open("ab") as out:
            return subprocess.Popen(  # noqa: S603 - the commands of the images
                list(argv),
                cwd=self.directory,
                env=dict(environment),
                stdout=out,
                stderr=subprocess.STDOUT,
                user=uid,
                group=gid,
                extra_groups=[] if uid is not None else None,
                start_new_session=True,
            )

    def run(self, argv: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        """Run a program to its end; return its status."""
        process = self.popen(argv, environment, log)
        try:
            return process.wait(WITHIN_S)
        finally:
            stop_process(process)

    @contextmanager
    def running(
        self, argv: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a program for the length of a block."""
        process = self.popen(argv, environment, log)
        try:
            yield process
        finally:
            stop_process(process)


@contextmanager
def run_servers(root: Path) -> Iterator[tuple[str, str]]:
    """Run an independent Postgres and Redis and yield their URLs.

    They know nothing of each other or of us.
    """
    # Postgres runs as nobody without a name, and the images' user has one in the images only.
    account = pwd.getpwnam("nobody")
    runner = UnprivilegedRunner(user=f"{account.pw_uid}:{account.pw_gid}", directory=root)
    programs, redis = find_postgres(root), find_redis()
    assert redis is not None  # noqa: S101 - the extra that brings Postgres brings it
    data, log, ports = root / "data", root / "servers.log", (find_free_port(), find_free_port())
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(data, account.pw_uid, account.pw_gid)
    plain = {"PATH": os.defpath, "LC_ALL": "C"}
    initdb = [
        str(programs / "initdb"),
        "--auth=trust",
        f"--username={NAME}",
        "--encoding=UTF8",
        "--locale=C",
        str(data),
    ]
    if runner.run(initdb, plain, log):
        raise RuntimeError(log.read_text(errors="replace"))
    postgres = [
        str(programs / "postgres"),
        "-D",
        str(data),
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories=",
    ]
    client = [str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(ports[0]), "-U", NAME, NAME]
    with (
        runner.running([*postgres, "-p", str(ports[0])], plain, log),
        runner.running(
            [str(redis), "--port", str(ports[1]), "--bind", "127.0.0.1", "--save", ""], plain, log
        ),
    ):
        wait_until(lambda: runner.run(client, plain, log) == 0, "Postgres answers")
        yield f"postgresql://{NAME}@127.0.0.1:{ports[0]}/{NAME}", f"redis://127.0.0.1:{ports[1]}/0"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; raise when it does not in time."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            message = f"not within {WITHIN_S:g} s: {what}"
            raise RuntimeError(message)
        time.sleep(0.1)


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Stop a program and its process group."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
