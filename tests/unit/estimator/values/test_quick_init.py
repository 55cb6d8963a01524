"""Values that are made quickly are what dataclasses makes of them."""

import copy
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from service.estimator.values.classes.quick_init import init_quickly


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A value to inherit from."""

    first: int
    second: int = 2


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick(Base):
    """A value with every kind of field."""

    third: str = "three"
    names: list[str] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be right."""
        if self.first < 0:
            message = f"first is {self.first}"
            raise ValueError(message)


def test_fields_have_what_is_said_and_their_defaults() -> None:
    """Inherited ones too, and each object has what a factory makes for it."""
    one, other = Quick(first=1), Quick(first=1, second=3, third="x", names=["a"])

    assert (one.first, one.second, one.third, one.names, one.kept) == (1, 2, "three", [], {})
    assert (other.first, other.second, other.third, other.names) == (1, 3, "x", ["a"])
    assert one.kept is not other.kept
    assert type(one) is Quick
    assert one == Quick(first=1) != other


def test_nothing_changes_once_it_is_made() -> None:
    """It is frozen as dataclasses freezes, and copies have its fields."""
    value = Quick(first=1, names=["a"])

    for name in ("first", "third"):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 5)
    assert replace(value, first=2) == Quick(first=2, names=["a"])
    assert copy.deepcopy(value) == value


@pytest.mark.parametrize("values", [{}, {"first": 1, "fourth": 4}, {"first": 1, "kept": {}}])
def test_fields_that_are_missing_or_unknown_are_refused(values: dict[str, object]) -> None:
    """As by any function with these parameters."""
    with pytest.raises(TypeError, match=r"Quick.__init__\(\)"):
        Quick(**values)  # type: ignore[arg-type]  # what is refused


def test_what_cannot_be_right_is_refused_at_last() -> None:
    """The check of a class sees every field."""
    with pytest.raises(ValueError, match="first is -1"):
        Quick(first=-1)
