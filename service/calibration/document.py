"""Calibrations as JSON documents, in storage and in the API."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from service.calibration.curve import Curve
from service.calibration.derive import Bound, Calibration, Exact, LeaveOneOut
from service.calibration.evidence import MeasuredPoint, Quantity
from service.calibration.shrinkage import Mean
from service.calibration.sift import RejectedMeasurement


def to_document(calibration: Calibration) -> dict[str, object]:
    """Return the calibration as JSON values; ``from_document`` reads them back."""
    return asdict(calibration)


def from_document(document: Mapping[str, Any]) -> Calibration:
    """Read a calibration from the document of ``to_document``.

    A document of another shape raises KeyError, TypeError or ValueError.
    """
    return Calibration(
        quantity=Quantity(document["quantity"]),
        curves={name: Curve(**values) for name, values in document["curves"].items()},
        shares=dict(document["shares"]),
        relative_error=document["relative_error"],
        evidence=tuple(document["evidence"]),
        exact=tuple(
            Exact(
                **{
                    **exact,
                    "point": MeasuredPoint(**exact["point"]),
                    "residuals": dict(exact["residuals"]),
                },
            )
            for exact in document["exact"]
        ),
        at_least=_read_bounds(document["at_least"]),
        at_most=_read_bounds(document["at_most"]),
        rejected=tuple(RejectedMeasurement(**item) for item in document["rejected"]),
        means={name: Mean(**values) for name, values in document["means"].items()},
        left_out=tuple(LeaveOneOut(**item) for item in document["left_out"]),
        # Calibrations that were stored before imports were counted do not tell.
        num_claimed=document.get("num_claimed", 0),
        # Nor did they tell of machines.
        speeds={name: Mean(**values) for name, values in document.get("speeds", {}).items()},
    )


def _read_bounds(documents: list[dict[str, Any]]) -> tuple[Bound, ...]:
    return tuple(
        Bound(
            measurement=item["measurement"],
            point=MeasuredPoint(**item["point"]),
            bytes=item["bytes"],
        )
        for item in documents
    )
