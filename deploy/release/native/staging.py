"""The source tree as the package that is installed: everything below ``headroom``.

In the repository the rooms are ``service``, ``worker`` and ``migrations``, words that belong to
everybody: in an environment they would stand before packages of those who install this. So a build
copies them below one name of ours, and says that name in every import, in strings that name a
module, and where a program starts another of ours.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

PACKAGE = "headroom"
ROOMS = {"service": PACKAGE, "worker": f"{PACKAGE}.worker", "migrations": f"{PACKAGE}.migrations"}
"""Packages of the repository by the names that they are installed under."""
FRONT = {
    "deploy/release/native/front/init.py": "__init__.py",
    "deploy/release/native/front/models.py": "models.py",
}
"""What people import, by the names it has in the package: it lies in none of the rooms."""
_COPIED = ("README.md", "LICENSE")
_ROOM = "|".join(ROOMS)
_IMPORT = re.compile(rf"^(\s*(?:from|import) )({_ROOM})(?=[. ])", re.MULTILINE)
_NAMED = re.compile(rf"(?<=[\"'])({_ROOM})((?:\.\w+)+)")
_STARTED = re.compile(rf"(\"-m\", \"|files\(\")({_ROOM})(?=\")")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc", "*.egg-info", ".*cache")


def stage(root: Path, into: Path) -> None:
    """Write the project to build below ``into``: one package, its metadata, its licence."""
    for room, name in ROOMS.items():
        target = into.joinpath(*name.split("."))
        shutil.copytree(root / room, target, ignore=_LEFT_OUT, dirs_exist_ok=True)
    write_front(root, into)
    is_module = make_module_check(root)
    for file in (into / PACKAGE).rglob("*.py"):
        file.write_text(rename(file.read_text(encoding="utf-8"), is_module), encoding="utf-8")
    for name in _COPIED:
        shutil.copy(root / name, into / name)
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    (into / "pyproject.toml").write_text(rename_project(project), encoding="utf-8")


def write_front(root: Path, into: Path) -> None:
    """Write what people import below ``into``, over the rooms as the repository names them."""
    (into / PACKAGE).mkdir(parents=True, exist_ok=True)
    for source, name in FRONT.items():
        shutil.copy(root / source, into / PACKAGE / name)


def rename(text: str, is_module: Callable[[str], bool]) -> str:
    """Return a module's text with the names that its rooms are installed under.

    A string is renamed as far as it names a module: ``service.name`` of OpenTelemetry is none.
    """
    text = _IMPORT.sub(lambda match: match[1] + ROOMS[match[2]], text)
    text = _STARTED.sub(lambda match: match[1] + ROOMS[match[2]], text)

    def rename_string(match: re.Match[str]) -> str:
        first = match[2].split(".")[1]
        return ROOMS[match[1]] + match[2] if is_module(f"{match[1]}.{first}") else match[0]

    return _NAMED.sub(rename_string, text)


def make_module_check(root: Path) -> Callable[[str], bool]:
    """Return a check of whether a dotted name is a module or a package of the repository."""

    def is_module(name: str) -> bool:
        path = root.joinpath(*name.split("."))
        return path.is_dir() or path.with_suffix(".py").is_file()

    return is_module


def rename_project(text: str) -> str:
    """Return ``pyproject.toml`` for a build of the staged tree by setuptools alone."""
    rest = text.partition("[project]")[2]
    include = re.compile(r"^include = \[.*\]$", re.MULTILINE)
    rest = include.sub(f'include = ["{PACKAGE}*"]', rest, count=1)
    rest = rest.replace('"service.__main__:main"', f'"{PACKAGE}.__main__:main"')
    # Tools of the repository have no part in a package, and would name rooms that it has not.
    project = rest.partition("[tool.ruff]")[0]
    return f'[build-system]\nrequires = ["setuptools"]\n\n[project]{project}'
