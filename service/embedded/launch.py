"""Launcher that drops privileges and dies with its parent.

It sets a private umask and executes another program. Run as a file by a fresh interpreter: between
fork and exec only this may run, so that a start from a program with threads is safe. Standard
library only.
"""

import argparse
import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
PARENT_IS_GONE = 70


def main() -> None:
    """Drop privileges, tie this process to its parent, and execute."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--death-signal", type=int, required=True)
    parser.add_argument("--user", type=int)
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    prepare(parent=options.parent, death_signal=options.death_signal, user=options.user)
    os.execv(options.program[0], options.program)  # noqa: S606 - a path and its arguments, no shell


def prepare(*, parent: int, death_signal: int, user: int | None) -> None:
    """Drop privileges, and tie this process to its parent."""
    if user is not None:
        _become(user)
    _die_with(parent, death_signal)
    os.umask(0o077)
    # A supervisor waits for signals with a mask, and a mask would survive the exec.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _become(user: int) -> None:
    os.setgroups(())
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _die_with(parent: int, death_signal: int) -> None:
    # After setresuid: a change of user clears the death signal (prctl(2)).
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        raise SystemExit(PARENT_IS_GONE)


if __name__ == "__main__":
    main()
