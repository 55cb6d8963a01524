"""User of processes that build strangers' models, where their parent is root."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

PROBE_USER = 65_531
"""In Debian's reserved range, beside the embedded servers' 65,530; nothing else has it."""
_NAMES = frozenset({"LOGNAME", "TEMP", "TMP", "USER"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUser:
    """User that a process becomes, of a parent that is root.

    Its temporary files, caches and working directory are in ``home``, which may be gone through by
    everybody; ``groups`` are those beside its own.
    """

    uid: int
    groups: tuple[int, ...]
    home: Path

    @contextmanager
    def open_home(self) -> Iterator[Self]:
        """Yield this user with a new home, for a block.

        It is below its own. What one process leaves there, even as a file that Python or a compiler
        would take up, no other finds.
        """
        home = Path(tempfile.mkdtemp(dir=self.home))
        try:
            os.chown(home, self.uid, self.uid)
            yield replace(self, home=home)
        finally:
            shutil.rmtree(home, ignore_errors=True)

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

        Nothing of the home is imported: neither as the working directory of ``python -m`` nor as
        packages of the user.
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
