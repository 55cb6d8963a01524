"""mypyc's decorator, where it is not installed too.

Modules that ``deploy/release/native/compiled.txt`` lists may be compiled together. Both forms are
the same code.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    T = TypeVar("T")

    def mypyc_attr(*_names: str, **_values: object) -> Callable[[T], T]:
        """Return a decorator that changes nothing: only a compiler reads it."""
        return lambda decorated: decorated
