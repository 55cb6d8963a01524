# ruff: noqa: INP001 - one file, which a job brings along
"""Run a job, and send Headroom what PyTorch counted of it.

``python -m headroom_report torchrun train.py …`` in place of ``torchrun train.py …``, where no
node sends it: in tasks of SkyPilot, runs of dstack, jobs of Ray. Each process of the job imports
``headroom_stats``. Of the environment it reads

- ``HEADROOM_QUESTION_DIGEST``, which Headroom's hooks and ``headroom submit`` put there;
- ``HEADROOM_URL``, the server, and ``HEADROOM_API_KEY``, a key with the scope ``field``;
- ``HEADROOM_CLUSTER``, the stored cluster that it runs on, if the question does not name it.

Without these, and whatever goes wrong here, it is the job alone that runs and whose code it ends
with.
"""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path
from types import FrameType

_DIGEST = re.compile(r"[0-9a-f]{32}")
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_TIMEOUT_S = 10.0
_MAX_FILES, _MAX_FILE_BYTES = 4096, 65_536
_NOT_FOUND, _NOT_STARTED = 127, 126
"""Codes of a shell for a command that there is not, and one that cannot be run."""


def main(command: list[str]) -> int:
    """Run a command; return its code."""
    if not command:
        sys.stderr.write("usage: python -m headroom_report COMMAND …\n")
        return 2
    digest, url = os.environ.get("HEADROOM_QUESTION_DIGEST", ""), os.environ.get("HEADROOM_URL", "")
    if not _DIGEST.fullmatch(digest) or not url.startswith(("http://", "https://")):
        return _run(command, os.environ.copy())
    with tempfile.TemporaryDirectory(prefix="headroom-", ignore_cleanup_errors=True) as folder:
        code = _run(command, {**os.environ, "HEADROOM_STATS": folder})
        try:
            report = _write_report(Path(folder))
            if report is not None:
                for reason in _send(url, digest, report):
                    sys.stderr.write(f"headroom: left out of what the job used: {reason}\n")
        except (OSError, ValueError) as error:
            sys.stderr.write(f"headroom: what the job used was not sent: {error}\n")
    return code


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Return the code of a command, to which signals are passed on.

    One that cannot be started has a shell's code.
    """
    try:
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own command
    except OSError as error:
        sys.stderr.write(f"headroom_report: {command[0]}: {error.strerror}\n")
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED
    with process:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            with suppress(ProcessLookupError):
                process.send_signal(number)

        for number in _SIGNALS:
            signal.signal(number, pass_on)
        code = process.wait()
    # As shells count a process that a signal ended.
    return code if code >= 0 else 128 - code


def _write_report(folder: Path) -> str | None:
    """Return what all processes left here, None where none did."""
    paths = sorted(folder.glob("rank-*.json"))[:_MAX_FILES]
    ranks = [path.read_text()[:_MAX_FILE_BYTES] for path in paths]
    if not ranks:
        return None
    lines = ["headroom-node 1", f"job {uuid.uuid4()}", f"host {socket.gethostname()}"]
    return "\n".join([*lines, *(f"[rank]\n{rank}" for rank in ranks)])


def _send(url: str, digest: str, report: str) -> list[str]:
    """Send a report; return why parts of it were left out, such as a part of the ranks."""
    body: dict[str, object] = {
        "question": digest,
        "format": "node",
        "dry_run": False,
        "content_base64": base64.b64encode(report.encode()).decode(),
    }
    cluster = os.environ.get("HEADROOM_CLUSTER")
    if cluster:
        body["cluster"] = cluster
    headers = {"Content-Type": "application/json"}
    key = os.environ.get("HEADROOM_API_KEY")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        f"{url.rstrip('/')}/v1/measurements/import", json.dumps(body).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - as above
            answer = response.read()
    except urllib.error.HTTPError as error:
        with error:
            detail = error.read(500).decode(errors="replace")
        message = f"{error.code} {detail}"
        raise ValueError(message) from error
    return [f"{part['what']}: {part['reason']}" for part in json.loads(answer)["left_out"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
