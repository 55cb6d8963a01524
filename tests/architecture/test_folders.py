"""Folders: what lies in one is of one kind, few, and no two know each other."""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.architecture.modules import (
    GENERATED,
    PRODUCT,
    ROOT,
    find_cycles,
    load_imports,
    load_modules,
)

_MAX_MODULES = 20


Graph = dict[str, set[str]]


def _build_folder_graph() -> Graph:
    """Return which folders each folder imports from, by the modules that lie in it."""
    modules = load_modules(*PRODUCT)
    graph: Graph = {}
    for name, imports in load_imports(*PRODUCT).items():
        folders = {modules[imported].folder for imported in imports}
        graph.setdefault(modules[name].folder, set()).update(folders - {modules[name].folder})
    return graph


def _build_sibling_graph(package: str) -> Graph:
    """Return which parts of a package import each other: its modules and its folders as wholes."""
    depth = package.count(".") + 2

    def list_parts(names: Iterable[str]) -> set[str]:
        return {
            ".".join(name.split(".")[:depth]) for name in names if name.startswith(f"{package}.")
        }

    graph: Graph = {}
    for name, imports in load_imports(*PRODUCT).items():
        for part in list_parts([name]):
            graph.setdefault(part, set()).update(list_parts(imports) - {part})
    return graph


def test_no_folders_import_each_other() -> None:
    """Arrows between folders go one way, lazy imports and import strings included."""
    assert find_cycles(_build_folder_graph()) == []


def test_no_parts_of_a_folder_import_each_other() -> None:
    """Below every folder, its modules and its folders as wholes have an order."""
    packages = {name.rpartition(".")[0] for name in load_modules(*PRODUCT)} - {""}

    cycles = {package: find_cycles(_build_sibling_graph(package)) for package in sorted(packages)}

    assert {package: parts for package, parts in cycles.items() if parts} == {}


@pytest.mark.parametrize("tree", ["service", "worker", "tests", "deploy", "migrations"])
def test_a_folder_can_be_taken_in_at_a_glance(tree: str) -> None:
    """No folder holds more than twenty modules."""
    files = [file for file in (ROOT / tree).rglob("*.py") if not file.is_relative_to(GENERATED)]
    sizes = Counter(str(file.parent) for file in files if file.stem != "__init__")

    assert {folder: size for folder, size in sizes.items() if size > _MAX_MODULES} == {}


def test_a_cycle_is_seen() -> None:
    """Two that import each other are one component; a third that they import is none of it."""
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": set[str]()}

    assert find_cycles(graph) == [("a", "b")]
