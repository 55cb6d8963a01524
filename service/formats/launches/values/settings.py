"""Settings of a launch, each of which is accounted for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from service.formats.launches.values.errors import LaunchFormatError

T = TypeVar("T")
_TRUE = frozenset({"true", "1", "yes", "on", "y", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "n", "f"})
_NONE = frozenset({"none", "null", "~"})
_SHOWN = 60
_DEFAULT = "default: "
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting as its author wrote it.

    ``where`` is its file and line, ``command``, ``arguments``, or the source of a default.
    ``is_source`` says that the value is an expression's source, which nobody evaluated.
    """

    key: str
    value: object
    where: str
    is_source: bool = False

    def as_int(self, *, minimum: int | None = 0) -> int:
        """Return a whole number; ``minimum`` None allows any."""
        value = self.value
        if isinstance(value, str) and len(value) <= _MAX_DIGITS:
            text = value.strip().replace("_", "")
            value = int(text) if text.removeprefix("-").isdecimal() else value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse("a whole number")
        if minimum is not None and value < minimum:
            raise self.refuse(f"a whole number from {minimum} on")
        return value

    def as_float(self) -> float:
        """Return a finite number."""
        value = self.value
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self.refuse("a number") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse("a number")
        number = float(value) if abs(value) < 10**_MAX_DIGITS else float("inf")
        if number - number != 0.0:
            raise self.refuse("a finite number")
        return number

    def as_bool(self) -> bool:
        """Return a truth value, in the words of command lines and YAML."""
        value = self.value
        if isinstance(value, bool):
            return value
        text = str(value).strip().casefold()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise self.refuse("true or false")

    def as_text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.refuse("a text")
        return self.value.strip()

    def as_list(self) -> list[object]:
        """Return a list; a text is cut at commas and blanks."""
        if isinstance(self.value, str):
            return [word for word in self.value.replace(",", " ").split() if word]
        if isinstance(self.value, list | tuple):
            return list(self.value)
        raise self.refuse("a list")

    def as_choice(self, choices: Mapping[str, T]) -> T:
        """Return what the word stands for, in either case."""
        value = self.value
        word = str(value).lower() if isinstance(value, bool) else str(value).strip()
        folded = {key.casefold(): choice for key, choice in choices.items()}
        if word.casefold() not in folded:
            raise self.refuse(f"one of {', '.join(choices)}")
        return folded[word.casefold()]

    def refuse(self, expected: str) -> LaunchFormatError:
        """Return the refusal of its value."""
        quoted = repr(self.value)
        quoted = quoted if len(quoted) <= _SHOWN else f"{quoted[:_SHOWN]}…"
        return LaunchFormatError(f"{self.key} is {quoted}; expected {expected}", where=self.where)


def make_default(key: str, value: object, source: str) -> Setting:
    """Return a setting that was left out; ``source`` is whose default."""
    return Setting(key=key, value=value, where=f"{_DEFAULT}{source}")


def is_default(setting: Setting) -> bool:
    """Return whether its author left it out."""
    return setting.where.startswith(_DEFAULT)


class Settings:
    """Settings by the names that a reader knows them by.

    A setting that is taken is accounted for. The name is the launcher's own; the setting's key is
    what its author wrote, which differs where one launcher hands its settings to another.
    """

    def __init__(self, settings: Mapping[str, Setting] | Iterable[Setting] = ()) -> None:
        """Keep settings by name, or by their keys."""
        self._settings: dict[str, Setting] = (
            dict(settings)
            if isinstance(settings, Mapping)
            else {setting.key: setting for setting in settings}
        )
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Return whether it is set to something; this does not take it."""
        setting = self._settings.get(name)
        return setting is not None and not is_unset(setting)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._settings)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._settings)

    def peek(self, name: str) -> Setting | None:
        """Return a setting without taking it; None where it is not set."""
        return self._settings[name] if name in self else None

    def take(self, *names: str) -> Setting | None:
        """Return the first of these that is set; take all."""
        present = [self._settings[name] for name in names if name in self]
        self._taken |= {name for name in names if name in self._settings}
        return present[0] if present else None

    def take_group(self, prefix: str) -> "Settings":
        """Return those below ``prefix.``, without it; they are accounted for there."""
        below = {
            name: setting
            for name, setting in self._settings.items()
            if name.startswith(f"{prefix}.")
        }
        self._taken |= set(below)
        return Settings({name[len(prefix) + 1 :]: setting for name, setting in below.items()})

    def add(self, name: str, setting: Setting) -> None:
        """Add a setting under a name that is free."""
        self._settings.setdefault(name, setting)

    def merge(self, additional: "Settings") -> "Settings":
        """Return these and others, which are accounted for here; these win."""
        return Settings({**additional.take_all(), **self.take_all()})

    def take_all(self) -> dict[str, Setting]:
        """Return every setting by its name; all are accounted for there."""
        self._taken |= set(self._settings)
        return dict(self._settings)

    def list_left(self) -> list[tuple[str, Setting]]:
        """Return names and settings that nobody took."""
        return [
            (name, setting) for name, setting in self._settings.items() if name not in self._taken
        ]


def is_unset(setting: Setting) -> bool:
    """Return whether a setting says that it is not set."""
    value = setting.value
    return (
        value is None
        or value in ({}, [])
        or (isinstance(value, str) and value.strip().casefold() in {"", *_NONE})
    )
