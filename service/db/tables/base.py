"""Declarative base of all tables: constraint names and column types."""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import ARRAY, BigInteger, DateTime, Double, MetaData, Uuid
from sqlalchemy.orm import DeclarativeBase

from service.db.tables.types import StorableJSON, StorableText

Json = dict[str, Any]


class Base(DeclarativeBase):
    """Base class that gives every constraint a name for migrations."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        },
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: StorableText(),
        int: BigInteger(),
        float: Double(),
        datetime: DateTime(timezone=True),
        uuid.UUID: Uuid(),
        Json: StorableJSON(),
        list[Json]: StorableJSON(),
        list[str]: StorableJSON(),
        list[uuid.UUID]: ARRAY(Uuid()),
    }


def make_membership_condition(column: str, values: Iterable[str]) -> str:
    """Return the SQL condition that a column holds a listed value."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"
