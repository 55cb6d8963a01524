"""User of processes that build strangers' models, where their parent is root."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROBE_USER = 65_531
"""In Debian's reserved range, beside the embedded servers' 65,530; nothing else has it."""
_NAMES = frozenset({"LOGNAME", "TEMP", "TMP", "USER"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUser:
    """User that a process becomes, of a parent that is root.

    Its temporary files, caches and working directory are in ``home``; ``groups`` are those beside
    its own.
    """

    uid: int
    groups: tuple[int, ...]
    home: Path

    @property
    def process_options(self) -> dict[str, Any]:
        """Arguments of `subprocess.Popen` that make a process this user's."""
        return {
            "user": self.uid,
            "group": self.uid,
            "extra_groups": list(self.groups),
            "cwd": self.home,
        }

    def move_home(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return an environment without directories of the parent's user.

        What an earlier process left in the home is not imported: neither as the working directory
        of ``python -m`` nor as packages of the user.
        """
        variables = {
            name: value
            for name, value in environ.items()
            if name not in _NAMES and not name.startswith("XDG_")
        }
        return {
            **variables,
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "PYTHONNOUSERSITE": "1",
            "PYTHONSAFEPATH": "1",
        }
