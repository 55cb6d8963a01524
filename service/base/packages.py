"""Packages that an installation may lack."""

from collections.abc import Sequence
from importlib.util import find_spec


def list_missing_packages(names: Sequence[str]) -> list[str]:
    """Return those of some packages that are not installed here.

    None of them is loaded.
    """
    return [name for name in names if find_spec(name) is None]
