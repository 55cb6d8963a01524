"""Measurements that an answer rests on, in lines."""

from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]


_LEVELS = {
    "point": "this very configuration was measured",
    "key": "the same configuration in other sizes",
    "family": "models of the same family",
    "global": "models of every family",
}


def _describe_calibration(answer: Document) -> str:
    count = answer["calibration_measurements"]
    measured = f"{count} measurement{'' if count == 1 else 's'}"
    return (
        f"rests on calibration {answer['calibration']}: {measured}, "
        f"{_LEVELS[answer['calibration_level']]}"
    )


def iter_evidence(answer: Document) -> Iterator[str]:
    """Yield whose measurements an answer rests on, and what of it does."""
    if answer["calibration"] is not None:
        yield _describe_calibration(answer)
    yield from _iter_bases(answer["bases"])
    if "cluster" in answer:
        yield _describe_cluster(answer["cluster"])


def _describe_cluster(cluster: Document) -> str:
    measured = ", ".join(name.replace("_", " ") for name in cluster["quantities"])
    if not measured:
        return f"cluster {cluster['name']}: nothing of it was measured there"
    return f"cluster {cluster['name']}: its own measurements decide {measured}"


def _iter_bases(bases: Document) -> Iterator[str]:
    """Yield which quantities rest on measurements, where any does."""
    for basis in ("measured", "calibrated"):
        names = [name.replace("_", " ") for name, value in bases.items() if value == basis]
        if names:
            yield f"{basis}: {', '.join(names)}"
