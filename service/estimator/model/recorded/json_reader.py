"""JSON values of a recording, checked where they are read."""

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TypeVar

from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.stepped_sizes import AnySize, SteppedSize
from service.estimator.tape.sizes import Size
from service.estimator.values.errors import InvalidInputError

Choice = TypeVar("Choice", bound=StrEnum)
MAX_SIZE = 2**62
"""Largest coefficient of a size: no tensor of a GPU comes near it."""
_MONOMIALS = 6


class Reader:
    """A JSON value with its place in the document.

    A place is spelled out where something is wrong there: a document has a hundred thousand.
    """

    __slots__ = ("_parent", "_step", "value")

    def __init__(self, value: object, step: str | int, parent: "Reader | None" = None) -> None:
        """Take a value, and its name or index in its parent."""
        self.value = value
        self._step = step
        self._parent = parent

    @property
    def place(self) -> str:
        """Where the value is in the document."""
        if self._parent is None:
            return str(self._step)
        step = f"[{self._step}]" if isinstance(self._step, int) else f".{self._step}"
        return self._parent.place + step

    def fail(self, expected: str) -> InvalidInputError:
        """Return the error that says what is right here."""
        return InvalidInputError(f"{self.place} must be {expected}", field=self.place)

    def get(self, name: str) -> "Reader":
        """Return a field of an object."""
        if not isinstance(self.value, Mapping) or name not in self.value:
            message = f"{self.place} lacks {name!r}"
            raise InvalidInputError(message, field=f"{self.place}.{name}")
        return Reader(self.value[name], name, self)

    def entries(self) -> "list[tuple[str, Reader]]":
        """Return the fields of an object with their names."""
        if not isinstance(self.value, Mapping):
            raise self.fail("an object")
        return [(str(name), Reader(part, str(name), self)) for name, part in self.value.items()]

    def items(self, count: int | None = None) -> "list[Reader]":
        """Return the members of a list, of so many where ``count`` says."""
        return [Reader(part, index, self) for index, part in enumerate(self.read_list(count))]

    def read_list(self, count: int | None = None) -> list[object]:
        """Return the values of a list, of so many where ``count`` says."""
        if not isinstance(self.value, list) or (count is not None and len(self.value) != count):
            raise self.fail("a list" if count is None else f"a list of {count}")
        return self.value

    def read_text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            raise self.fail("a string")
        return self.value

    def read_choice(self, choices: type[Choice]) -> Choice:
        """Return a member of an enumeration."""
        if isinstance(self.value, str):
            with suppress(ValueError):
                return choices(self.value)
        raise self.fail(f"one of {', '.join(choices)}")

    def read_flag(self) -> bool:
        """Return a boolean."""
        if not isinstance(self.value, bool):
            raise self.fail("true or false")
        return self.value

    def read_count(self) -> int:
        """Return an integer of 0 or more."""
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, int)
            or not 0 <= self.value <= MAX_SIZE
        ):
            raise self.fail(f"an integer from 0 to {MAX_SIZE}")
        return self.value

    def read_index(self, limit: int) -> int:
        """Return an integer below ``limit``."""
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, int)
            or not 0 <= self.value < limit
        ):
            raise self.fail(f"an integer from 0 to {limit - 1}")
        return self.value

    def read_optional_index(self, limit: int) -> int | None:
        """Return an integer below ``limit``, or None."""
        return None if self.value is None else self.read_index(limit)

    def read_indices(self, limit: int) -> tuple[int, ...]:
        """Return integers below ``limit``."""
        values = self.read_list()
        numbers = tuple(part for part in values if type(part) is int and 0 <= part < limit)
        if len(numbers) == len(values):
            return numbers
        return tuple(item.read_index(limit) for item in self.items())

    def read_optional_indices(self, limit: int) -> tuple[int | None, ...]:
        """Return integers below ``limit``, or None for some."""
        values = self.read_list()
        numbers = tuple(
            part for part in values if part is None or (type(part) is int and 0 <= part < limit)
        )
        if len(numbers) == len(values):
            return numbers
        return tuple(item.read_optional_index(limit) for item in self.items())

    def read_any_size(self) -> AnySize:
        """Return the coefficients of a size and of its steps."""
        if not isinstance(self.value, list) or len(self.value) == _MONOMIALS:
            return self.read_size()
        tokens, begun, *steps = self.items(2 * _MONOMIALS + 2)[_MONOMIALS:]
        size = SteppedSize(
            plain=Reader(self.value[:_MONOMIALS], self.place).read_size(),
            tokens=tokens.read_count(),
            begun=begun.read_flag(),
            steps=Reader([part.value for part in steps], self.place).read_size(),
        )
        if not size.tokens:
            raise tokens.fail("tokens of a step, 1 or more")
        return size

    def read_size(self) -> Size:
        """Return the coefficients of a size."""
        coefficients = self.read_list(_MONOMIALS)
        if any(
            isinstance(c, bool) or not isinstance(c, int) or abs(c) > MAX_SIZE for c in coefficients
        ):
            raise self.fail(f"{_MONOMIALS} integers")
        a, b, c, d, e, f = (int(str(part)) for part in coefficients)
        return (a, b, c, d, e, f)

    def read_weight(self) -> Weight:
        """Return a parameter tensor."""
        name, kind, shape = self.items(3)
        return Weight(
            name.read_text(), kind.read_text(), tuple(part.read_count() for part in shape.items())
        )

    def read_linear(self) -> Linear:
        """Return a linear layer."""
        name, kind, in_features, out_features, bias = self.items(5)
        return Linear(
            name=name.read_text(),
            kind=kind.read_text(),
            in_features=in_features.read_count(),
            out_features=out_features.read_count(),
            bias=bias.read_flag(),
        )
