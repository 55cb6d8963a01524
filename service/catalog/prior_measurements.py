"""Measurements shipped with the catalogue, with place, date and method.

They are read from a folder ``priors`` beside this file, which is absent while the estimator meets
every measured curve by itself. Each file there says once what its entries have in common:
environment, date, how they were made. An entry is a request and a result in the terms of the job
contract, without the model's structure, which the catalogue has.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from service.catalog.models import resolve_model

_DATA = Path(__file__).with_name("priors")
_FILE_FIELDS = frozenset({"source", "how", "date", "environment", "measurements"})
_ENTRY_FIELDS = frozenset({"model", "config", "request", "result"})
_OPTIONAL_FIELDS = frozenset({"config"})


class PriorError(ValueError):
    """An incomplete file of shipped measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorMeasurement:
    """One shipped measurement.

    ``config`` are the entries of the model's config.json that differ from the catalogue's.
    """

    id: str
    source: str
    method: str
    date: datetime
    model: str
    config: Mapping[str, Any]
    request: Mapping[str, Any]
    result: Mapping[str, Any]


@cache
def list_priors() -> tuple[PriorMeasurement, ...]:
    """Return all shipped measurements."""
    return tuple(
        prior
        for path in sorted(_DATA.glob("*.json"))
        for prior in read_priors(path.stem, path.read_bytes())
    )


def read_priors(name: str, text: bytes) -> Iterator[PriorMeasurement]:
    """Read the measurements of one file.

    Raises PriorError where the file leaves out where, when or how something was measured.
    """
    document = json.loads(text)
    _check_fields(document, _FILE_FIELDS, name)
    for field in ("source", "how", "date"):
        if not str(document[field]).strip():
            raise PriorError(
                f"{name}: {field} is empty; a shipped measurement says where, when and how it was "
                "made"
            )
    if not document["environment"]:
        raise PriorError(
            f"{name}: environment is empty; say the releases, the driver and the device"
        )
    date = datetime.fromisoformat(document["date"]).replace(tzinfo=UTC)
    for number, entry in enumerate(document["measurements"]):
        _check_fields(
            entry, _ENTRY_FIELDS - _OPTIONAL_FIELDS, f"{name} {number}", optional=_OPTIONAL_FIELDS
        )
        yield PriorMeasurement(
            id=f"{name}/{number}",
            source=document["source"],
            method=document["how"],
            date=date,
            model=resolve_model(entry["model"]).name,
            config=entry.get("config", {}),
            request=entry["request"],
            result={"environment": document["environment"], **entry["result"]},
        )


def _check_fields(
    document: Mapping[str, Any],
    fields: frozenset[str],
    where: str,
    *,
    optional: frozenset[str] = frozenset(),
) -> None:
    missing, unknown = fields - document.keys(), document.keys() - fields - optional
    if missing or unknown:
        raise PriorError(
            f"{where}: lacks {sorted(missing)}, has {sorted(unknown)} that no one reads"
        )
