"""Names and docstrings: the field's words, verbs first, one plain line."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.modules import PRODUCT, Module, list_nodes, load_modules

_FORBIDDEN = frozenset({"asked", "found", "held", "how", "said", "told", "whole"})
_RIDDLES = frozenset(
    """
    given here inside known kept made most one others ours own rest shown taken
    things wanted who words each beside least
    """.split()  # noqa: SIM905 - a list of words
)
_MOST_RIDDLES_PER_MILLE = 2
_WIRE = {"NotTodayAnswer.held"}
"""Fields of the contract, whose names are public."""
_MAX_WORDS = 12
_VAGUE_OPENINGS = frozenset({"What", "How", "Which", "Who"})
_LEAST_VERBS = 0.6
_PUBLISHED = ("service.contract.schemas.", "service.cli.commands.")
"""Docstrings that are sentences of the OpenAPI document and of ``--help``."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _list_bound_names(module: Module) -> Iterator[tuple[str, str]]:
    """Yield every name that a module binds, with the place of its binding."""
    for node in list_nodes(module.file):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, f"{module.name}:{node.lineno}"
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, f"{module.name}:{node.lineno}"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, f"{module.name}:{node.lineno}"
            case ast.ClassDef(name=name):
                yield name, f"{module.name}:{node.lineno}"


def _list_wire_fields(module: Module) -> set[str]:
    return {
        f"{module.name}:{field.lineno}"
        for node in list_nodes(module.file)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and f"{node.name}.{ast.unparse(field.target)}" in _WIRE
    }


def _list_docstrings(module: Module) -> Iterator[tuple[str, str]]:
    """Yield the first line of every docstring, with the place of its definition."""
    for node in list_nodes(module.file):
        if isinstance(node, ast.Module | Definition) and (text := ast.get_docstring(node)):
            yield f"{module.name}:{getattr(node, 'lineno', 1)}", text.splitlines()[0]


def test_nothing_has_a_name_of_a_house_dialect() -> None:
    """A variable is named for the thing, not for what happened to it."""
    modules = load_modules(*PRODUCT).values()
    wire = {place for module in modules for place in _list_wire_fields(module)}

    names = [pair for module in modules for pair in _list_bound_names(module)]

    assert [pair for pair in names if pair[0] in _FORBIDDEN and pair[1] not in wire] == []
    riddles = [pair for pair in names if pair[0] in _RIDDLES]
    assert 1000 * len(riddles) <= _MOST_RIDDLES_PER_MILLE * len(names), riddles


def test_a_docstring_begins_with_one_plain_line() -> None:
    """The first line has at most twelve words and begins with no question word."""
    lines = [
        (place, line)
        for module in load_modules(*PRODUCT).values()
        if not module.name.startswith(_PUBLISHED)
        for place, line in _list_docstrings(module)
    ]

    long = [pair for pair in lines if len(pair[1].split()) > _MAX_WORDS]
    vague = [pair for pair in lines if pair[1].split()[0] in _VAGUE_OPENINGS]

    assert (long, vague) == ([], [])


_VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("tree", PRODUCT)
def test_functions_begin_with_a_verb(tree: str) -> None:
    """At least three of five functions of each room say what they do."""
    counts: dict[str, list[bool]] = {}
    for module in load_modules(tree).values():
        room = ".".join(module.name.split(".")[:2])
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                verb = node.name.lstrip("_").split("_")[0]
                counts.setdefault(room, []).append(verb in _VERBS)

    shares = {room: sum(verbs) / len(verbs) for room, verbs in counts.items()}

    assert {room: share for room, share in shares.items() if share < _LEAST_VERBS} == {}
