"""The table of imports in docs/architecture.md is true."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.modules import list_nodes

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = (_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_TABLE = _PAGE.partition("<!-- imports")[2].partition("\n\n")[0]
_ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
_GENERATED = _ROOT / "service" / "client" / "generated"
_PROBES = _ROOT / "worker" / "probes"
_FIRST_PARTY = {"service", "worker"}


def test_every_room_has_a_row() -> None:
    """A folder of ``service`` that is added is added to the table."""
    rooms = {
        f"service/{path.name}" for path in (_ROOT / "service").iterdir() if any(path.glob("*.py"))
    }

    assert rooms | {"worker", "worker/probes"} == {room for room, _, _ in _ROW.findall(_TABLE)}


def test_rooms_import_what_the_table_allows() -> None:
    """No room imports another one, or a package, that its row leaves out."""
    surplus = {}
    for room, rooms, packages in _ROW.findall(_TABLE):
        allowed = {room.removeprefix("service/"), *re.findall(r"`([^`]+)`", f"{rooms}{packages}")}
        if extra := {name for name in _iter_imports(room) if name not in {*allowed, ""}}:
            surplus[room] = sorted(extra)

    assert surplus == {}


def _iter_imports(room: str) -> Iterator[str]:
    """Yield the rooms and the packages that the modules of a room import."""
    for file in sorted((_ROOT / room).rglob("*.py")):
        if not file.is_relative_to(_GENERATED) and (
            room == "worker/probes" or not file.is_relative_to(_PROBES)
        ):
            for node in list_nodes(file):
                if isinstance(node, ast.ImportFrom) and node.module:
                    yield from (_get_owner(f"{node.module}.{alias.name}") for alias in node.names)
                elif isinstance(node, ast.Import):
                    yield from (_get_owner(alias.name) for alias in node.names)


def _get_owner(module: str) -> str:
    """Return the room of a module, the package of a foreign one, nothing of the library."""
    top, *below = module.split(".")
    if top not in _FIRST_PARTY:
        return "" if top in sys.stdlib_module_names else top
    if top == "worker":
        return "worker/probes" if below[:1] == ["probes"] else top
    return below[0]
