"""Keyword arguments of calls in Python, which is never run."""

import ast
from collections.abc import Iterator

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings


def read_calls(name: str, text: str, callees: frozenset[str]) -> dict[str, Settings]:
    """Return keyword arguments by the last part of what is called.

    A name that the file assigns once stands for its literal; anything else is left as its source.
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
    for node in nodes:
        callee = _get_callee(node)
        if callee in callees and isinstance(node, ast.Call):
            settings = calls.setdefault(callee, Settings())
            for setting in _list_keywords(node, constants, name):
                settings.add(setting.key, setting)
    return calls


def _get_callee(node: ast.AST) -> str:
    """Return the last part of a call's name, empty without."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _list_constants(nodes: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the values of names that are assigned once."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
    return {name: assigned[0] for name, assigned in values.items() if len(assigned) == 1}


def _list_keywords(node: ast.Call, constants: dict[str, ast.expr], file: str) -> Iterator[Setting]:
    for keyword in node.keywords:
        if keyword.arg is None:
            continue
        value = keyword.value
        if isinstance(value, ast.Name):
            value = constants.get(value.id, value)
        where = f"{file}:{keyword.value.lineno}"
        yield Setting(key=keyword.arg, value=_make_literal(value), where=where)


def _make_literal(value: ast.expr) -> object:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(value)[:200]
