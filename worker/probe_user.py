"""Unprivileged user of the probes of a worker that runs as root.

A probe builds a stranger's model, which needs no right of the worker's.
"""

import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from service.runtime.logs import get_logger
from service.runtime.process_user import PROBE_USER, ProcessUser

_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd")
_MODULES = "import worker.probes, service"
_TIMEOUT_S = 60.0
_PREFIX = "headroom-probe-"
_UNLOCKED_S = 60.0
"""Time that a worker may take from making its folder to locking it."""
_log = get_logger(__name__)


@contextmanager
def open_probe_user(python: str = sys.executable) -> Iterator[ProcessUser | None]:
    """Yield the user of probes, for a block.

    ``None``, and a warning that says why, where they have to run as root; where the worker is not
    root there is nothing to give up.
    """
    if os.geteuid() != 0:
        yield None
        return
    _remove_abandoned_homes()
    with _open_home() as home:
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


@contextmanager
def _open_home() -> Iterator[Path]:
    """Make the folder of a worker's homes, locked for a block."""
    home = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # A probe goes through to its own home, and neither reads nor writes here.
    home.chmod(stat.S_IRWXU | stat.S_IXGRP | stat.S_IXOTH)
    descriptor = _lock(home)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _remove_abandoned_homes() -> None:
    """Remove what workers left that were killed.

    Whether one lives, its lock says, wherever it runs: numbers of processes are each container's.
    """
    oldest = time.time() - _UNLOCKED_S
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        status = home.lstat()
        if status.st_uid not in {0, PROBE_USER} or status.st_mtime > oldest:
            continue
        descriptor = _lock(home)
        if descriptor is not None:
            shutil.rmtree(home, ignore_errors=True)
            os.close(descriptor)
            _log.info("worker.abandoned_home_removed", home=str(home))


def _lock(folder: Path) -> int | None:
    """Lock a folder for as long as its descriptor is open.

    ``None`` where somebody else has, or it is none any more.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


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
