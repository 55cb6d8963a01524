"""torchtitan's files as settings by section: TOML and Python.

Python is read with ``ast`` and never run: the function that returns ``Trainer.Config(…)``, what it
assigns to the fields of the configuration, and the function of the same file that it begins with.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from service.formats.launches.sources.documents import flatten
from service.formats.launches.sources.limits import MAX_DEPTH, MAX_NODES, check_size
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_TABLE = re.compile(r"\s*\[+\s*([A-Za-z0-9_.\"-]+)\s*\]+")
_KEY = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*=")
_MODULE = re.compile(
    r"from torchtitan\.(?:models|experiments)\.([a-z0-9_]+) import[^=]{0,500}?\bmodel_registry\b"
)
_MAX_NUMBER = 2**63
_SUFFIX = ".Config"
_KINDS = frozenset({"activation_checkpoint", "loss", "optimizer", "checkpoint", "tokenizer"})
"""Fields of a configuration whose class says what it is."""


def read_toml(name: str, text: str) -> Settings:
    """Return the values of a TOML file by table and key.

    Raises LaunchFormatError for what is no TOML.
    """
    check_size(name, text)
    depth = max((line.count("[") + line.count("{") for line in text.splitlines()), default=0)
    try:
        document = tomllib.loads(text) if depth <= 10 * MAX_DEPTH else None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        message = f"is no TOML: {str(error)[:200]}"
        raise LaunchFormatError(message, where=name) from None
    if document is None:
        message = "is nested too deeply"
        raise LaunchFormatError(message, where=name)
    lines = _list_lines(text)
    located = {
        path: Setting(
            key=path,
            value=setting.value,
            where=f"{name}:{lines[path]}" if path in lines else name,
        )
        for path, setting in flatten(document, name).take_all().items()
    }
    return Settings(located)


def _list_lines(text: str) -> dict[str, int]:
    """Return the line of each key below its table's head."""
    table, lines = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        head, key = _TABLE.match(line), _KEY.match(line)
        if head is not None:
            table = f"{head[1]}."
        elif key is not None:
            lines.setdefault(table + key[1], number)
    return lines


def read_config_file(name: str, text: str, function: str | None) -> Settings:
    """Return what a function of a Python file configures.

    Raises LaunchFormatError for what is no Python, or has several.
    """
    check_size(name, text)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else 1
        message = f"is not Python: {str(error)[:200]}"
        raise LaunchFormatError(message, where=f"{name}:{line}") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    configuring = [key for key, node in functions.items() if _configures(node)]
    if function is None and len(configuring) != 1:
        several = ", ".join(configuring[:12]) or "none"
        message = f"which of its configurations? name one by --config: {several}"
        raise LaunchFormatError(message, where=name)
    chosen = function or configuring[0]
    if chosen not in functions:
        message = f"has no function {chosen}; it has {', '.join(configuring[:12]) or 'none'}"
        raise LaunchFormatError(message, where=name)
    reader = _Configuration(name=name, functions=functions)
    try:
        reader.read_function(functions[chosen], 0)
    except RecursionError:
        message = f"{chosen} is nested too deeply"
        raise LaunchFormatError(message, where=name) from None
    settings = {path: reader.settings[path] for path in reader.settings}
    module = _MODULE.search(text)
    if module is not None:
        where = f"{name}:{text[: module.start()].count(chr(10)) + 1}"
        settings.setdefault("model.name", Setting(key="model", value=module[1], where=where))
    return Settings(settings)


def _configures(node: ast.FunctionDef) -> bool:
    """Return whether a function returns a trainer's configuration."""
    annotated = node.returns is not None and _name(node.returns).endswith("Trainer.Config")
    return annotated or any(
        isinstance(inner, ast.Call) and _name(inner.func).endswith("Trainer.Config")
        for inner in ast.walk(node)
    )


@dataclass(slots=True, kw_only=True)
class _Configuration:
    """Values of a configuration by their dotted paths."""

    name: str
    functions: Mapping[str, ast.FunctionDef]
    settings: dict[str, Setting] = field(default_factory=dict)
    left: int = MAX_NODES

    def read_function(self, node: ast.FunctionDef, depth: int) -> None:
        """Read what a function returns, and what it assigns before."""
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            message = "its functions begin with each other too often"
            raise LaunchFormatError(message, where=f"{self.name}:{node.lineno}")
        names: dict[str, ast.expr] = {}
        for statement in node.body:
            self._read_statement(statement, names, depth)

    def _read_statement(self, statement: ast.stmt, names: dict[str, ast.expr], depth: int) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                base = self._find_base(value)
                if base is not None:
                    self.read_function(base, depth + 1)
                else:
                    names[name] = value
                    self._read_trainer(value, names)
            case ast.Assign(targets=[ast.Attribute() as target], value=value):
                path = _name(target).partition(".")[2]
                self._forget(path)
                self._read_value(path, value, names, 0)
            case ast.Return(value=ast.expr() as value):
                base = self._find_base(value)
                if base is not None:
                    self.read_function(base, depth + 1)
                self._read_trainer(value, names)
            case _:
                return

    def _find_base(self, value: ast.expr) -> ast.FunctionDef | None:
        """Return the function that is called, None without."""
        return self.functions.get(_name(value.func)) if isinstance(value, ast.Call) else None

    def _read_trainer(self, value: ast.expr, names: Mapping[str, ast.expr]) -> None:
        if isinstance(value, ast.Call) and _name(value.func).endswith("Trainer.Config"):
            self._read_keywords("", value, names, 0)

    def _forget(self, path: str) -> None:
        """Drop what an assignment replaces."""
        for key in [key for key in self.settings if key == path or key.startswith(f"{path}.")]:
            del self.settings[key]
        if path == "model_spec":
            self._forget("model")

    def _read_keywords(
        self, prefix: str, call: ast.Call, names: Mapping[str, ast.expr], depth: int
    ) -> None:
        for keyword in call.keywords:
            if keyword.arg is not None:
                path = f"{prefix}.{keyword.arg}" if prefix else keyword.arg
                self._read_value(path, keyword.value, names, depth + 1)

    def _read_value(
        self, path: str, value: ast.expr, names: Mapping[str, ast.expr], depth: int
    ) -> None:
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            message = "is nested too deeply or holds too much"
            raise LaunchFormatError(message, where=f"{self.name}:{value.lineno}")
        if isinstance(value, ast.Name) and value.id in names:
            value = names[value.id]
        if path == "model_spec":
            self._read_model(value, names, depth)
        elif isinstance(value, ast.Call):
            if path in _KINDS:
                kind = _name(value.func).removesuffix(_SUFFIX).rpartition(".")[2]
                self._put(f"{path}.kind", kind, value)
            self._read_keywords(path, value, names, depth)
        else:
            self._put("activation_checkpoint.kind" if path in _KINDS else path, _fold(value), value)

    def _read_model(self, value: ast.expr, names: Mapping[str, ast.expr], depth: int) -> None:
        """Read the flavour of a model and its converters."""
        if not isinstance(value, ast.Call):
            return
        if value.args:
            self._put("model.flavor", _fold(value.args[0]), value)
        for keyword in value.keywords:
            if keyword.arg == "converters" and isinstance(keyword.value, ast.List):
                kinds = [
                    _name(item.func).removesuffix(_SUFFIX).rpartition(".")[2]
                    for item in keyword.value.elts
                    if isinstance(item, ast.Call)
                ]
                self._put("model.converters", kinds, keyword.value)
            elif keyword.arg is not None:
                name = "flavor" if keyword.arg == "flavor" else keyword.arg
                self._read_value(f"model.{name}", keyword.value, names, depth + 1)

    def _put(self, path: str, value: object, node: ast.expr) -> None:
        where = f"{self.name}:{node.lineno}"
        self.settings[path] = Setting(key=path, value=value, where=where)


def _name(node: ast.expr) -> str:
    """Return a dotted name, empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def _fold(node: ast.expr) -> object:
    """Return a literal, or a product of whole numbers; else its source."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        pass
    factors = list(_list_factors(node))
    if None in factors:
        return ast.unparse(node)[:200]
    product = 1
    for factor in factors[:8]:
        product = min(product * (factor or 0), _MAX_NUMBER)
    return product


def _list_factors(node: ast.expr) -> Iterator[int | None]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _list_factors(node.left)
        yield from _list_factors(node.right)
        return
    value = node.value if isinstance(node, ast.Constant) else None
    yield value if isinstance(value, int) else None
