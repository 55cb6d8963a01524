"""A program for shells and workers of tests that has a fork server start what it stands for.

It is copied beside the server's socket, by its name, and needs nothing but the standard library.
"""

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

_ANSWER_BYTES = 4096
MODULES = {
    "headroom": "service.__main__",
    "probe": "tests.running.probe",
    "recorder": "tests.e2e.http.quick_recorder",
    "worker": "tests.running.worker",
}


def list_inherited_files() -> list[int]:
    """Return the files that this program was given: a worker gives a probe more than three."""
    inherited = []
    for number in [int(file.name) for file in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):  # The folder's own is closed by now.
            if os.get_inheritable(number):
                inherited.append(number)
    return sorted(inherited)


def main() -> int:
    """Run the command to its end, with this program's files; return its exit code."""
    files = list_inherited_files()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(str(Path(__file__).with_name("socket")))
        request = {
            "module": MODULES[Path(__file__).name],
            "arguments": sys.argv[1:],
            "files": files,
            "environ": dict(os.environ),
            "directory": str(Path.cwd()),
            "leads": os.getsid(0) == os.getpid(),
        }
        socket.send_fds(server, [json.dumps(request).encode()], files)
        pid = json.loads(server.recv(_ANSWER_BYTES))
        server.send(json.dumps({"pid": pid, "is_awaited": True}).encode())
        code = int(json.loads(server.recv(_ANSWER_BYTES)))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
