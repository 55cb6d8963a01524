"""New databases of tests: the first is created as the service does, and later ones are its copies.

``initdb`` costs a second of a processor, a copy a tenth.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from service.embedded import postgres


@contextmanager
def copying_first(folder: Path) -> Iterator[None]:
    """Have this process and its forks keep the first new database in ``folder``, and copy it."""
    initialize, template = postgres._initialize, folder / "template"  # noqa: SLF001 - what is slow

    def copy_or_initialize(draft: Path, programs: Path, creator: int | None) -> None:
        if not template.exists():
            initialize(draft, programs, creator)
            _keep(draft, template)
        else:
            shutil.copytree(template, draft, dirs_exist_ok=True)

    with mock.patch.object(postgres, "_initialize", copy_or_initialize):
        yield


def _keep(draft: Path, template: Path) -> None:
    """Copy a database; whoever is first among several wins."""
    copy = Path(tempfile.mkdtemp(dir=template.parent))
    shutil.copytree(draft, copy, dirs_exist_ok=True)
    try:
        os.rename(copy, template)  # noqa: PTH104 - to a name that is free, or it fails
    except OSError:
        shutil.rmtree(copy)
