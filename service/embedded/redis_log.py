"""Mending of the embedded Redis's append-only log.

A server does not start on a log that a full disk or a failing one has damaged. It holds limits of
keys and notifications, which can be repeated: what stands before the damage is kept.
"""

import re
import shutil
import subprocess
from pathlib import Path

from service.embedded.events import Log

_CHECKER = "redis-check-aof"
"""Name under which Redis and Valkey check a log instead of serving."""
_GOOD = re.compile(rb"ok_up_to=([0-9]{1,18})")
_CHECK_S = 60.0


def mend_log(program: Path, folder: Path, log: Log) -> None:
    """Cut damaged logs of ``folder`` at their first fault.

    A copy of each stays beside it. ``program`` is the server that will read them. Logs are one file
    up to Redis 6, and parts in a folder from 7 on.
    """
    for file in sorted((*folder.glob("appendonly.aof"), *folder.glob("appendonlydir/*.incr.aof"))):
        if file.stat().st_size:
            _mend(program, file, log)


def _mend(program: Path, file: Path, log: Log) -> None:
    try:
        checked = subprocess.run(  # noqa: S603 - the server's own program, no shell
            [_CHECKER, str(file)],
            executable=str(program),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("redis.log_unchecked", file=str(file), reason=str(error))
        return
    good = _GOOD.search(checked.stdout)
    if checked.returncode == 0 or good is None:
        return
    size, end = file.stat().st_size, int(good[1])
    copy = file.with_name(f"{file.name}.damaged")
    shutil.copyfile(file, copy)
    with file.open("r+b") as damaged:
        damaged.truncate(end)
    log.warning(
        "redis.log_cut", file=str(file), kept_bytes=end, lost_bytes=size - end, copy=str(copy)
    )
