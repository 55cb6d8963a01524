"""Every regular expression of the service and the worker, and how it is used."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
_USES = frozenset(("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A regular expression, where it stands.

    ``modes`` are ``match``, ``fullmatch`` and ``all``; ``pattern`` is None for one that is made
    while the program runs.
    """

    place: str
    source: str
    pattern: str | bytes | None
    flags: int
    modes: frozenset[str]


@cache
def list_expressions() -> tuple[Expression, ...]:
    """Return every expression that is compiled or used by ``re`` or a schema."""
    return tuple(
        expression
        for package in ("service", "worker")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "generated" not in path.parts
        for expression in _iter_expressions(path)
    )


def _iter_expressions(path: Path) -> Iterator[Expression]:
    text = path.read_text()
    if "re." not in text and "pattern=" not in text:
        return
    tree, name = ast.parse(text), ".".join(path.relative_to(ROOT).with_suffix("").parts)
    uses = _list_uses(tree)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        argument = _find_pattern(call)
        if argument is not None:
            module = import_module(name.removesuffix(".__init__"))
            pattern, flags = _evaluate(argument, module), _read_flags(call, module)
            if isinstance(pattern, re.Pattern):
                pattern, flags = pattern.pattern, pattern.flags
            yield Expression(
                place=str(path.relative_to(ROOT)),
                source=ast.unparse(argument),
                pattern=pattern if isinstance(pattern, str | bytes) else None,
                flags=flags,
                modes=_find_modes(call, parents, uses),
            )


def _find_pattern(call: ast.Call) -> ast.expr | None:
    """Return the argument of a call that is a regular expression."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=name) if name in _USES | {"compile"}:
            return call.args[0]
        case ast.Name(id="Meta"):
            return next((word.value for word in call.keywords if word.arg == "pattern"), None)
        case _:
            return None


def _evaluate(node: ast.expr, module: ModuleType) -> object:
    """Return the value of an expression of a module; None for one of a function."""
    try:
        return eval(compile(ast.Expression(node), "pattern", "eval"), vars(module))  # noqa: S307 - our own source
    except NameError:
        return None


def _read_flags(call: ast.Call, module: ModuleType) -> int:
    node = next((word.value for word in call.keywords if word.arg == "flags"), None)
    if node is None and ast.unparse(call.func) == "re.compile" and len(call.args) > 1:
        node = call.args[1]
    value = 0 if node is None else _evaluate(node, module)
    assert isinstance(value, int)
    return int(value)


def _list_uses(tree: ast.Module) -> dict[str, set[str]]:
    """Return the methods that are called on each name of a module."""
    uses: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in _USES:
                uses[name].add(method)
            case _:
                pass
    return uses


def _find_modes(
    call: ast.Call, parents: dict[ast.AST, ast.AST], uses: dict[str, set[str]]
) -> frozenset[str]:
    """Return how an expression is used, ``all`` where that is not to be seen."""
    assert isinstance(call.func, ast.Attribute | ast.Name)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _USES:
        methods = {call.func.attr}
    else:
        match parents.get(call):
            case ast.Attribute(attr=method):
                methods = {method}
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                # What other modules import has its name without an underscore.
                methods = uses.get(name, set()) if name.startswith("_") else {"search"}
            case _:
                methods = {"search"}
    return frozenset(
        method if method in {"match", "fullmatch"} else "all" for method in methods or {"search"}
    )
