"""Real clients of schedulers, each in an environment outside the repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

_ROOT = "/var/tmp/headroom-clients"  # noqa: S108 - hundreds of MB outside the repository


def install_client(requirement: str) -> Path:
    """Return where the programs of a package are, which is installed once.

    HEADROOM_CLIENTS_ROOT says below which folder.
    """
    root = Path(os.environ.get("HEADROOM_CLIENTS_ROOT", _ROOT))
    folder = root / re.sub(r"[^\w.]+", "-", requirement)
    programs, mark = folder / "bin", folder / "installed"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(programs / "pip"), "install", "--quiet", requirement], check=True)
        mark.touch()
    return programs


def make_environment(programs: Path, **variables: str) -> dict[str, str]:
    """Return an environment in which a client's programs are found first."""
    path = f"{programs}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    return {**os.environ, "PATH": path, **variables}
