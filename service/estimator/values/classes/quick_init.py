"""Quick construction of frozen values with many fields."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def init_quickly(cls: type[T]) -> type[T]:
    """Give a frozen, slotted, keyword-only dataclass a quicker ``__init__``.

    The library's sets each field by a call of ``object.__setattr__``, which takes thirty times as
    long as an assignment: a tenth of an answer from memory. This one makes the object one of a
    class of the same layout whose fields may be assigned, and at last one of its own class. Nobody
    sees it before.
    """
    own: Any = cls
    assigning = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    assignable = type(cls.__name__, cls.__bases__, {"__slots__": own.__slots__, **assigning})
    names: dict[str, object] = {"_set": object.__setattr__, "_cls": cls, "_assignable": assignable}
    parameters, lines = [], ['_set(self, "__class__", _assignable)']
    for item in fields(own):
        parameter, line = _write_field(item, names)
        parameters += [parameter] if item.init else []
        lines.append(line)
    lines.append("self.__class__ = _cls")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join(lines)
    source = f"def __init__(self, *, {', '.join(parameters)}):\n    {body}\n"
    exec(source, names)  # noqa: S102 - as dataclasses do, of names of fields alone
    init: Callable[..., None] = names["__init__"]  # type: ignore[assignment]  # what was written
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = dict(own.__init__.__annotations__)
    own.__init__ = init
    return cls


def _write_field(item: "Field[Any]", names: dict[str, object]) -> tuple[str, str]:
    """Return a field's parameter and its assignment; ``names`` gets what they name."""
    name, default = item.name, f"_default_{item.name}"
    if item.default_factory is not MISSING:
        names[default], names["_missing"] = item.default_factory, MISSING
        if not item.init:
            return "", f"self.{name} = {default}()"
        value = f"{default}() if {name} is _missing else {name}"
        return f"{name}=_missing", f"self.{name} = {value}"
    if item.default is MISSING:
        return name, f"self.{name} = {name}"
    names[default] = item.default
    return f"{name}={default}", f"self.{name} = {name}"
