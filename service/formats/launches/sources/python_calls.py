"""Keyword arguments of calls in Python, which is never run."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings


def read_calls(name: str, text: str, callees: frozenset[str]) -> dict[str, Settings]:
    """Return the arguments of each first call by its name.

    ``callees`` are patterns of names, with what they are attributes of or without. Arguments
    without a name are ``argument_1``, …. A name that the file assigns once stands for its literal;
    anything else is left as its source.
    Raises LaunchFormatError for what is not Python.
    """
    try:
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else 1
        message = f"is not Python: {str(error)[:200]}"
        raise LaunchFormatError(message, where=f"{name}:{line}") from None
    constants = _list_constants(nodes)
    calls: dict[str, Settings] = {}
    for node in sorted((node for node in nodes if isinstance(node, ast.Call)), key=_get_place):
        callee = _get_callee(node)
        last = callee.rpartition(".")[2]
        is_named = any(fnmatchcase(callee, name) or last == name for name in callees)
        if is_named and last not in calls:
            calls[last] = Settings([*_list_arguments(node, constants, name)])
    return calls


def _get_place(node: ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _get_callee(node: ast.Call) -> str:
    """Return what is called, with its owner's name."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    if not isinstance(node.func, ast.Attribute):
        return ""
    owner = node.func.value
    return f"{owner.id}.{node.func.attr}" if isinstance(owner, ast.Name) else node.func.attr


def _list_constants(nodes: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the values of names that are assigned once."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
    return {name: assigned[0] for name, assigned in values.items() if len(assigned) == 1}


def _list_arguments(node: ast.Call, constants: dict[str, ast.expr], file: str) -> Iterator[Setting]:
    named = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
    for name, value in [*((f"argument_{n}", arg) for n, arg in enumerate(node.args, 1)), *named]:
        known = constants.get(value.id, value) if isinstance(value, ast.Name) else value
        yield Setting(key=name, value=_make_literal(known), where=f"{file}:{value.lineno}")


def _make_literal(value: ast.expr) -> object:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(value)[:200]
