"""Program of ours in another network: ``python -m tests.chaos.entering NAMESPACE MODULE WORD…``.

It is what nsenter(1) does, for forks that have the program's modules loaded.
"""

import ctypes
import os
import sys
from importlib import import_module

NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2) and unshare(2)."""


def main() -> None:
    """Enter the network and be the program."""
    namespace, module, *arguments = sys.argv[1:]
    enter(namespace)
    program = import_module(f"{module}.__main__")
    sys.argv = [str(program.__file__), *arguments]
    sys.exit(program.main())


def enter(namespace: str) -> None:
    """Have this process's sockets be those of a namespace; raises OSError."""
    file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call_libc("setns", file, NEW_NETWORK)
    finally:
        os.close(file)


def call_libc(name: str, *arguments: int) -> None:
    """Call a function of the C library that returns 0; raises OSError where it does not."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
