"""A process of xdist, which is a fork of one that has collected the tests."""

import atexit
import sys


def main() -> None:
    """Do what execnet has a fresh interpreter do (``gateway_io.py``, ``popen_bootstrapline``)."""
    try:
        exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # noqa: S102, S307 - execnet's own line
    finally:
        # A fork ends without what an interpreter does at its end.
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name for it
