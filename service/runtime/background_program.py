"""A program of ours beside a server, which ends with it."""

import subprocess
import sys
from collections.abc import Sequence

_ENDS_WITHIN_S = 2.0


class BackgroundProgram:
    """Python module that runs in a process beside the server."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        """Start nothing yet."""
        self._command = [sys.executable, "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it prints is not read."""
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def stop(self) -> None:
        """End it, if it has not ended by itself."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
