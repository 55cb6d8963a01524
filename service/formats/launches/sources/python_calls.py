"""Keyword arguments of calls in Python, which is never run."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_MAX_CALLEES = 16
_MUTATIONS = frozenset({"update", "pop", "popitem", "setdefault", "clear", "append", "extend"})
_SHOWN = 200
_CELL = "cell"


def read_calls(name: str, text: str, callees: frozenset[str]) -> dict[str, Settings]:
    """Return the arguments of each first call by its name.

    ``callees`` are patterns of names, with what they are attributes of or without; a name that is
    imported as another is known by its first. Arguments without a name are ``argument_1``, …. A
    name that the file assigns once stands for its literal; anything else is left as its source.
    Raises LaunchFormatError for what is not Python, or calls too much.
    """
    try:
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else 1
        message = f"is not Python: {str(error)[:_SHOWN]}"
        raise LaunchFormatError(message, where=f"{name}:{line}") from None
    aliases = _list_aliases(nodes)
    constants = _list_constants(nodes)
    calls: dict[str, Settings] = {}
    for node in sorted((node for node in nodes if isinstance(node, ast.Call)), key=_get_place):
        callee = _get_callee(node, aliases)
        last = callee.rpartition(".")[2]
        is_named = any(fnmatchcase(callee, name) or last == name for name in callees)
        if is_named and last not in calls:
            calls[last] = Settings(_list_arguments(node, constants, name))
        if len(calls) > _MAX_CALLEES:
            message = f"calls more than {_MAX_CALLEES} trainers, configs and loaders"
            raise LaunchFormatError(message, where=f"{name}:{node.lineno}")
    return calls


def _get_place(node: ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _list_aliases(nodes: list[ast.AST]) -> dict[str, str]:
    """Return what is imported as another name, by that."""
    return {
        alias.asname: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
        if alias.asname is not None
    }


def _get_callee(node: ast.Call, aliases: Mapping[str, str]) -> str:
    """Return what is called, with its owner's name."""
    if not isinstance(node.func, ast.Attribute):
        return _get_last(node.func, aliases)
    owner = _get_last(node.func.value, aliases)
    return f"{owner}.{node.func.attr}" if owner else node.func.attr


def _get_last(node: ast.expr, aliases: Mapping[str, str]) -> str:
    """Return a name, or the last one of dotted ones."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    return node.attr if isinstance(node, ast.Attribute) else ""


def _list_constants(nodes: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the values of names that are assigned once, and left alone."""
    values: dict[str, ast.expr] = {}
    counts: Counter[str] = Counter()
    shared = {id(parameter) for node in nodes for parameter in _list_cell_parameters(node)}
    for node in nodes:
        if isinstance(node, ast.Assign):
            values |= {
                target.id: node.value for target in node.targets if isinstance(target, ast.Name)
            }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values |= {} if node.value is None else {node.target.id: node.value}
        counts.update([] if id(node) in shared else _list_changed(node))
    return {name: value for name, value in values.items() if counts[name] == 1}


def _list_cell_parameters(node: ast.AST) -> list[ast.arg]:
    """Return the parameters of a notebook's cell, which other cells assign.

    marimo writes notebooks as functions, ``@app.cell``, of the names that each cell reads.
    """
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return node.args.args if any(_get_last(each, {}) == _CELL for each in decorators) else []


def _list_changed(node: ast.AST) -> list[str]:
    """Return the name that a node assigns, twice where it changes it."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    is_item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    is_method = isinstance(node, ast.Attribute) and node.attr in _MUTATIONS
    owner = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
    return [owner.id] * 2 if (is_item or is_method) and isinstance(owner, ast.Name) else []


def _list_arguments(
    node: ast.Call, constants: Mapping[str, ast.expr], file: str
) -> dict[str, Setting]:
    named = [(f"argument_{n}", value) for n, value in enumerate(node.args, 1)]
    named += _open_keywords(node.keywords, constants, set())
    return {name: _make_setting(name, value, constants, file) for name, value in named}


def _open_keywords(
    keywords: list[ast.keyword], constants: Mapping[str, ast.expr], opened: set[str]
) -> Iterator[tuple[str, ast.expr]]:
    """Yield named arguments, those of mappings (``**``) with them.

    A mapping that nobody knows stands for itself.
    """
    for keyword in keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value
        else:
            yield from _open_mapping(keyword.value, constants, opened)


def _open_mapping(
    value: ast.expr, constants: Mapping[str, ast.expr], opened: set[str]
) -> Iterator[tuple[str, ast.expr]]:
    """Yield the entries of a literal or its name."""
    assigned = value
    if isinstance(value, ast.Name) and value.id not in opened:
        opened.add(value.id)
        assigned = constants.get(value.id, value)
    if isinstance(assigned, ast.Dict):
        for key, entry in zip(assigned.keys, assigned.values, strict=True):
            if key is None:
                yield from _open_mapping(entry, constants, opened)
            else:
                text = key.value if isinstance(key, ast.Constant) else f"**{_show(key)}"
                yield str(text), entry
    elif (
        isinstance(assigned, ast.Call) and _get_callee(assigned, {}) == "dict" and not assigned.args
    ):
        yield from _open_keywords(assigned.keywords, constants, opened)
    else:
        yield f"**{_show(value)}", value


def _make_setting(
    key: str, value: ast.expr, constants: Mapping[str, ast.expr], file: str
) -> Setting:
    assigned = constants.get(value.id, value) if isinstance(value, ast.Name) else value
    where = f"{file}:{value.lineno}"
    try:
        return Setting(key=key, value=ast.literal_eval(assigned), where=where)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return Setting(key=key, value=_show(assigned), where=where, is_source=True)


def _show(value: ast.expr) -> str:
    """Return the source of an expression."""
    try:
        return ast.unparse(value)[:_SHOWN]
    except RecursionError:
        return "an expression"
