"""Fields of a processor's configuration, with their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError

FIELD = "workload.inputs.processor"
_MOST = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Fields of a preprocessor_config.json, read by type.

    Each reader raises InvalidInputError for a value of another type.
    """

    values: Mapping[str, object]

    def read_integer(self, name: str) -> int:
        """Return a positive integer."""
        return _check_integer(name, self.values.get(name))

    def read_number(self, name: str) -> float:
        """Return a positive number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
            raise _refuse(name, value, "a positive number")
        return float(value)

    def read_flag(self, name: str) -> bool:
        """Return a boolean; null is false, as Python reads it."""
        value = self.values.get(name)
        if not isinstance(value, bool | None):
            raise _refuse(name, value, "true or false")
        return bool(value)

    def read_edges(self, name: str = "size") -> tuple[int, int]:
        """Return ``shortest_edge`` and ``longest_edge`` of a size."""
        size = self._read_object(name)
        return (
            _check_integer(f"{name}.shortest_edge", size.get("shortest_edge")),
            _check_integer(f"{name}.longest_edge", size.get("longest_edge")),
        )

    def read_longest(self, name: str = "size") -> int:
        """Return ``longest_edge`` of a size."""
        return _check_integer(f"{name}.longest_edge", self._read_object(name).get("longest_edge"))

    def read_square(self, name: str = "size") -> int:
        """Return the side of a square size, however it is written."""
        value = self.values.get(name)
        if isinstance(value, list | tuple) and len(value) == 2:  # noqa: PLR2004 - height and width
            value = {"height": value[0], "width": value[1]}
        if not isinstance(value, Mapping):
            return _check_integer(name, value)
        if "shortest_edge" in value:
            return _check_integer(f"{name}.shortest_edge", value["shortest_edge"])
        sides = [_check_integer(f"{name}.{side}", value.get(side)) for side in ("height", "width")]
        if sides[0] != sides[1]:
            raise _refuse(name, value, "as high as wide")
        return sides[0]

    def read_pairs(self, name: str) -> list[tuple[int, int]]:
        """Return a list of pairs of integers."""
        value = self.values.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= 1024:  # noqa: PLR2004 - far above any checkpoint's
            raise _refuse(name, value, "a list of pairs")
        pairs = []
        for pair in value:
            if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004 - a pair
                raise _refuse(name, value, "a list of pairs")
            pairs.append((_check_integer(name, pair[0]), _check_integer(name, pair[1])))
        return pairs

    def read_integers(self, name: str) -> list[int]:
        """Return a list of positive integers."""
        value = self.values.get(name)
        if not isinstance(value, list | tuple):
            raise _refuse(name, value, "a list of integers")
        return [_check_integer(name, number) for number in value]

    def read_count(self, name: str) -> int:
        """Return an integer of 0 or more."""
        value = self.values.get(name)
        return 0 if value == 0 and not isinstance(value, bool) else _check_integer(name, value)

    def _read_object(self, name: str) -> Mapping[str, object]:
        value = self.values.get(name)
        if not isinstance(value, Mapping):
            raise _refuse(name, value, "an object")
        return value


def _check_integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise _refuse(name, value, f"an integer from 1 to {_MOST:,}")
    return value


def _refuse(name: str, value: object, expected: str) -> InvalidInputError:
    message = f"field {name!r} of the processor is {value!r:.60}; it must be {expected}"
    return InvalidInputError(message, field=FIELD)
