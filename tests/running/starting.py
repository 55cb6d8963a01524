"""Starts of fork servers."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_REPOSITORY = Path(__file__).parents[2]
_CLIENT = Path(__file__).with_name("client.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkServerConnection:
    """Connection to a fork server, which ends with it.

    ``command`` has it start the program of that name.
    """

    control: socket.socket
    command: Path
    process: "subprocess.Popen[bytes]"
    folder: "TemporaryDirectory[str]"

    def end(self) -> None:
        """Have the server end, and wait for it."""
        self.control.close()
        self.process.wait()
        self.folder.cleanup()


def start_fork_server(module: str, arguments: Sequence[str], name: str) -> ForkServerConnection:
    """Start ``python -m MODULE CONTROL LISTENER ARGUMENTS``, and write the command of a program."""
    folder = TemporaryDirectory(prefix="headroom-")
    address, command = Path(folder.name) / "socket", Path(folder.name) / name
    command.write_text(f"#!{sys.executable} -IS\n{_CLIENT.read_text()}")
    command.chmod(0o755)
    control, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other_end, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        files = other_end.fileno(), listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, files), *arguments],
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            pass_fds=files,
        )
    return ForkServerConnection(control=control, command=command, process=process, folder=folder)
