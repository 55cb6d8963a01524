"""The command on a machine without torch, which its parts do not find either."""

import sys

from service import __main__ as program


def main() -> int:
    """Run the command."""
    # A module that is None in sys.modules is one that Python cannot find.
    sys.modules["torch"] = None  # type: ignore[assignment]  # what the import system expects
    return program.main()
