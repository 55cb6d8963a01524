"""A program for shells and workers of tests that has a fork server start what it stands for.

It is copied beside the server's socket, by its name, and needs nothing but the standard library.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

_POLL_S = 0.01
_ANSWER_BYTES = 4096
MODULES = {"headroom": "service.__main__", "probe": "worker.probes.__main__"}


def main() -> int:
    """Run the command to its end, with this program's files; return its exit code."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(str(Path(__file__).with_name("socket")))
        request = {
            "module": MODULES[Path(__file__).name],
            "arguments": sys.argv[1:],
            "files": [0, 1, 2],
            "environ": dict(os.environ),
            "directory": str(Path.cwd()),
            # A worker gives a probe a session of its own, which the probe makes nice as a whole.
            "leads": os.getsid(0) == os.getpid(),
        }
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        pid = json.loads(server.recv(_ANSWER_BYTES))
        while True:
            server.send(json.dumps({"pid": pid}).encode())
            code = json.loads(server.recv(_ANSWER_BYTES))
            if code is not None:
                return int(code) if code >= 0 else 128 - code
            time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main())
