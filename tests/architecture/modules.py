"""First-party modules of a checkout: their files, folders and imports."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("service", "worker")
GENERATED = ROOT / "service" / "client" / "generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module with its syntax tree."""

    name: str
    """Dotted name; a package's own is that of its folder."""
    file: Path
    is_package: bool
    tree: ast.Module

    @property
    def folder(self) -> str:
        """Dotted name of the folder that it lies in."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


@cache
def load_modules(*trees: str) -> Mapping[str, Module]:
    """Return the modules below some folders of the repository, by name, generated ones left out."""
    return {module.name: module for tree in trees for module in _iter_modules(tree)}


@cache
def parse_file(file: Path) -> ast.Module:
    """Return the syntax tree of a product's file, parsed once for all tests."""
    return ast.parse(file.read_bytes())


@cache
def list_nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a product's file, walked once for all tests."""
    return tuple(ast.walk(parse_file(file)))


def _iter_modules(tree: str) -> Iterator[Module]:
    for file in sorted((ROOT / tree).rglob("*.py")):
        if file.is_relative_to(GENERATED):
            continue
        parts = file.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module(name=name, file=file, is_package=is_package, tree=parse_file(file))


@cache
def load_imports(*trees: str) -> Mapping[str, set[str]]:
    """Return the first-party modules that each module imports.

    Lazy imports count, and so do literal strings given to ``import_module``.
    """
    modules = load_modules(*trees)
    return {module.name: _find_imports(module, modules) for module in modules.values()}


def _find_imports(module: Module, modules: Mapping[str, Module]) -> set[str]:
    imports = {name for node in list_nodes(module.file) for name in _list_names(node)}
    return {known for name in imports if (known := _get_known(name, modules))} - {module.name}


def _list_names(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.ImportFrom(module=str(package), names=names):
            return [f"{package}.{alias.name}" for alias in names]
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [name]
    return []


def _get_known(name: str, modules: Mapping[str, Module]) -> str | None:
    """Return the module that an imported name is, or is in."""
    return next((known for known in (name, name.rpartition(".")[0]) if known in modules), None)


def find_cycles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the strongly connected components of more than one node (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[tuple[str, ...]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for neighbour in sorted(graph.get(node, ())):
            if neighbour not in order:
                visit(neighbour)
                lowest[node] = min(lowest[node], lowest[neighbour])
            elif neighbour in stack:
                lowest[node] = min(lowest[node], order[neighbour])
        if lowest[node] == order[node]:
            position = stack.index(node)
            component = stack[position:]
            del stack[position:]
            if len(component) > 1:
                cycles.append(tuple(sorted(component)))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return cycles
