"""Column types that refuse what Postgres cannot hold before it is sent."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DontWrapMixin
from sqlalchemy.types import TypeDecorator

from service.base.errors import UnstorableTextError


class UnstorableValueError(UnstorableTextError, DontWrapMixin):
    """UnstorableTextError that SQLAlchemy does not wrap."""


class StorableText(TypeDecorator[str]):
    """Text without NUL and lone surrogates, which UTF-8 in Postgres cannot hold."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Refuse text that Postgres would refuse, with a clear message."""
        del dialect
        if value is not None:
            _check(value)
        return value


class StorableJSON(TypeDecorator[Any]):
    """JSONB whose keys and strings pass the check of StorableText."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        """Refuse JSON that Postgres would refuse, with a clear message."""
        del dialect
        for text in _iter_texts(value):
            _check(text)
        return value


def _iter_texts(value: object) -> Iterator[str]:
    """Yield all keys and strings without recursion.

    A document may be nested deeper than Python's stack.
    """
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case Mapping() as mapping:
                pending += [*mapping.keys(), *mapping.values()]
            case list() | tuple() as items:
                pending += items


def _check(text: str) -> None:
    for character in text:
        if character == "\0" or "\ud800" <= character <= "\udfff":
            message = (
                f"the text {text[:60]!r} holds the character U+{ord(character):04X}, which cannot "
                "be stored"
            )
            raise UnstorableValueError(message)
