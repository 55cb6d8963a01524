"""Unprivileged user of the probes of a worker that runs as root.

A probe builds a stranger's model, which needs no right of the worker's.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from service.runtime.logs import get_logger
from service.runtime.process_user import PROBE_USER, ProcessUser

_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd")
_MODULES = "import worker.probes, service"
_TIMEOUT_S = 60.0
_log = get_logger(__name__)


@contextmanager
def open_probe_user(python: str = sys.executable) -> Iterator[ProcessUser | None]:
    """Yield the user of probes, with a home for a block.

    ``None``, and a warning that says why, where they have to run as root; where the worker is not
    root there is nothing to give up.
    """
    if os.geteuid() != 0:
        yield None
        return
    home = Path(tempfile.mkdtemp(prefix="headroom-probe-"))
    try:
        os.chown(home, PROBE_USER, PROBE_USER)
        user = ProcessUser(uid=PROBE_USER, groups=list_device_groups(), home=home)
        reason = explain_unusable(user, python)
        if reason is None:
            _log.debug("worker.probe_user", uid=PROBE_USER, home=str(home))
        else:
            _log.warning(
                "worker.probes_as_root",
                reason=reason,
                mend="install where every user may read, or run `headroom worker` as another user",
            )
        yield user if reason is None else None
    finally:
        shutil.rmtree(home, ignore_errors=True)


def list_device_groups(
    root: Path = Path("/"), patterns: tuple[str, ...] = _DEVICES
) -> tuple[int, ...]:
    """Return the groups that may use GPUs, where others may not."""
    groups: set[int] = set()
    for pattern in patterns:
        for node in root.glob(pattern.lstrip("/")):
            status = node.stat()
            if status.st_gid != 0 and not status.st_mode & stat.S_IWOTH:
                groups.add(status.st_gid)
    return tuple(sorted(groups))


def explain_unusable(user: ProcessUser, python: str) -> str | None:
    """Return why a user cannot run probes, if so."""
    try:
        answer = subprocess.run(  # noqa: S603 - our own interpreter
            [python, "-c", _MODULES],
            **user.process_options,
            env=_keep_search_path(os.environ),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if answer.returncode == 0:
        return None
    lines = answer.stderr.strip().splitlines()
    return lines[-1] if lines else f"it ended with status {answer.returncode}"


def _keep_search_path(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environ.items() if name in {"PATH", "PYTHONPATH", "LANG"}
    }
