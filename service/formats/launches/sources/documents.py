"""YAML and JSON documents as settings, each with its line.

A document is read as events, so that its depth and its aliases are bounded before anything is
built of them. No tag makes an object of a class.
"""

from collections.abc import Iterator, Mapping

import yaml

from service.formats.launches.sources.limits import MAX_DEPTH, MAX_NODES, check_size
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_MAX_BITS = 1024
"""Of a whole number below the largest float (IEEE 754, binary64)."""
_MAX_DIGITS = 2 + 2 * _MAX_BITS
"""Of a number in the longest way that YAML has for it: bits, with a line between any two. What is
longer is text: a number of a base of sixty is made in the square of its length.
"""
_MERGE = "tag:yaml.org,2002:merge"
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where the package was built with it: twenty times as fast."""


def read_document(name: str, text: str) -> Settings:
    """Return the leaves of a YAML or JSON mapping by paths.

    Lists are leaves. JSON is read as the YAML that it is, but for tabs.
    """
    check_size(name, text)
    node = _compose(name, text)
    if not isinstance(node, yaml.MappingNode):
        message = "expected a mapping of names to values"
        raise LaunchFormatError(message, where=name)
    settings: dict[str, Setting] = {}
    for path, value, line in _walk(_Builder(name), node):
        settings[path] = Setting(key=path, value=value, where=f"{name}:{line}")
    return Settings(settings)


def read_mapping(name: str, text: str) -> dict[str, object]:
    """Return a YAML or JSON mapping as a plain document.

    An empty text is an empty one. Raises LaunchFormatError for what is none, is too large or is
    nested too deeply.
    """
    check_size(name, text)
    node = _compose(name, text)
    document = {} if node is None else _Builder(name).make_value(node)
    if not isinstance(document, dict):
        message = "expected a mapping of names to values"
        raise LaunchFormatError(message, where=name)
    return document


def flatten(document: Mapping[str, object], where: str) -> Settings:
    """Return the leaves of a plain document by their dotted paths."""
    settings: dict[str, Setting] = {}
    pending: list[tuple[str, object, int]] = [("", document, 0)]
    while pending:
        path, value, depth = pending.pop()
        if depth > MAX_DEPTH or len(settings) + len(pending) > MAX_NODES:
            message = "is nested too deeply or holds too much"
            raise LaunchFormatError(message, where=where)
        if isinstance(value, Mapping) and value:
            below = [
                (f"{path}.{name}" if path else str(name), inner, depth + 1)
                for name, inner in value.items()
            ]
            pending += reversed(below)
        elif path:
            if any(_is_long(entry) for entry in (value if isinstance(value, list) else [value])):
                message = f"{path} has too many digits"
                raise LaunchFormatError(message, where=where)
            settings[path] = Setting(key=path, value=value, where=where)
    return Settings(settings)


def _compose(name: str, text: str) -> yaml.Node | None:
    text = text.replace("\t", "  ") if text.lstrip()[:1] == "{" else text
    try:
        _count_events(name, text)
        return yaml.compose(text, Loader=_LOADER)
    except LaunchFormatError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = name if mark is None else f"{name}:{mark.line + 1}"
        message = f"is neither YAML nor JSON: {error.problem or error.context}"
        raise LaunchFormatError(message, where=where) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        message = f"is neither YAML nor JSON: {str(error)[:200]}"
        raise LaunchFormatError(message, where=name) from None


def _count_events(name: str, text: str) -> None:
    """Refuse what is nested too deeply before a recursive reader meets it."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or number > 2 * MAX_NODES:
            message = "is nested too deeply or holds too much"
            raise LaunchFormatError(message, where=name)


class _Builder:
    """Plain values of nodes, counted as aliases repeat them."""

    def __init__(self, name: str) -> None:
        """Count from nothing."""
        self.name = name
        self.left = MAX_NODES
        self._scalars = yaml.SafeLoader("")

    def count(self, node: yaml.Node) -> None:
        """Count a node; refuse one too many."""
        self.left -= 1
        if self.left < 0:
            message = f"holds more than {MAX_NODES:,} values, those of aliases counted"
            raise LaunchFormatError(message, where=self.get_place(node))

    def get_place(self, node: yaml.Node) -> str:
        """Return the file and line of a node."""
        return f"{self.name}:{node.start_mark.line + 1}"

    def make_value(self, node: yaml.Node, depth: int = 0) -> object:
        """Return the plain value of a node."""
        self.count(node)
        if depth > MAX_DEPTH:
            message = "is nested too deeply"
            raise LaunchFormatError(message, where=self.get_place(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.make_value(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            pairs = self.list_pairs(node, depth)
            return {key: self.make_value(value, depth + 1) for key, value in pairs.items()}
        return self._make_scalar(node)

    def list_pairs(self, node: yaml.MappingNode, depth: int = 0) -> dict[str, yaml.Node]:
        """Return a mapping's nodes by key: its own win over merged ones."""
        if depth > MAX_DEPTH:
            message = "is nested too deeply"
            raise LaunchFormatError(message, where=self.get_place(node))
        explicit: dict[str, yaml.Node] = {}
        merged: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = str(self.make_value(key_node, depth + 1))
            if key_node.tag != _MERGE:
                explicit[key] = value_node
                continue
            is_list = isinstance(value_node, yaml.SequenceNode)
            for source in value_node.value if is_list else [value_node]:
                self.count(source)
                if not isinstance(source, yaml.MappingNode):
                    message = f"{key} merges mappings, or a list of them"
                    raise LaunchFormatError(message, where=self.get_place(source))
                for name, inner in self.list_pairs(source, depth + 1).items():
                    merged.setdefault(name, inner)
        return merged | explicit

    def _make_scalar(self, node: yaml.Node) -> object:
        """Return a scalar; a date or a tagged one is text."""
        if isinstance(node, yaml.ScalarNode) and _may_be_plain(node):
            try:
                value: object = self._scalars.construct_object(node)
            except (yaml.YAMLError, ValueError):
                return node.value
            return node.value if _is_long(value) else value
        return node.value


def _may_be_plain(node: yaml.ScalarNode) -> bool:
    return node.tag in _SCALARS and len(node.value) <= _MAX_DIGITS


def _is_long(value: object) -> bool:
    """Return whether a whole number is none that a float holds."""
    return isinstance(value, int) and value.bit_length() > _MAX_BITS


_SCALARS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))


def _walk(
    builder: _Builder, node: yaml.MappingNode, prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, object, int]]:
    """Yield path, value and line of every leaf."""
    for key, value_node in builder.list_pairs(node, depth).items():
        builder.count(value_node)
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from _walk(builder, value_node, path, depth + 1)
        elif path:
            yield path, builder.make_value(value_node), value_node.start_mark.line + 1
