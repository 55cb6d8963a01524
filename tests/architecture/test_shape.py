"""The house rules that no linter knows: sizes of files and functions, empty packages, names that
say nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.architecture.modules import list_nodes

_ROOT = Path(__file__).resolve().parents[2]
_TREES = ("service", "worker", "migrations", "tests", "deploy")
_MAX_FILE_LINES, _MAX_FUNCTION_LINES, _MEDIAN_FUNCTION_LINES = 300, 60, 10
# Made by a generator (deploy.release.client) and compared with it in a test: nobody reads or mends
# it by hand.
_GENERATED = _ROOT / "service" / "client" / "generated"
_EMPTY_WORDS = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}


def _files(*trees: str) -> Iterator[Path]:
    for tree in trees:
        yield from sorted(
            file for file in (_ROOT / tree).rglob("*.py") if not file.is_relative_to(_GENERATED)
        )


def _functions(*trees: str) -> Iterator[tuple[str, int]]:
    """Yield every function with its length in lines, from ``def`` to its last line."""
    for file in _files(*trees):
        for node in list_nodes(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (
                    f"{file.relative_to(_ROOT)}:{node.lineno} {node.name}",
                    (node.end_lineno or node.lineno) - node.lineno + 1,
                )


def _iter_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module and of its classes, where pytest looks for tests."""
    for node in tree.body:
        yield node
        if isinstance(node, ast.ClassDef):
            yield from node.body


def test_a_file_has_one_subject() -> None:
    """A file of more than 300 lines has two."""
    too_long = {
        str(file.relative_to(_ROOT)): len(file.read_text().splitlines()) for file in _files(*_TREES)
    }

    assert {name: lines for name, lines in too_long.items() if lines > _MAX_FILE_LINES} == {}


def test_a_function_fits_on_a_screen() -> None:
    """No function has more than 60 lines, and half of them have fewer than ten."""
    functions = dict(_functions("service", "worker"))

    assert {name: lines for name, lines in functions.items() if lines > _MAX_FUNCTION_LINES} == {}
    assert median(functions.values()) < _MEDIAN_FUNCTION_LINES


def test_packages_are_empty() -> None:
    """An ``__init__.py`` holds nothing, so that importing a module imports that module alone."""
    packages = [file for file in _files(*_TREES) if file.name == "__init__.py"]

    assert [file for file in packages if file.read_text().strip()] == []


@pytest.mark.parametrize("tree", _TREES)
def test_a_name_says_what_is_inside(tree: str) -> None:
    """No module is called util, common, helper or manager."""
    vague = [
        file
        for file in _files(tree)
        if _EMPTY_WORDS & {*file.stem.split("_"), *file.parent.name.split("_")}
    ]

    assert vague == []


def test_every_test_says_what_it_holds() -> None:
    """Every test has a docstring of one sentence."""
    silent = [
        f"{file.relative_to(_ROOT)}::{node.name}"
        for file in _files("tests")
        for node in _iter_statements(ast.parse(file.read_bytes()))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert silent == []
