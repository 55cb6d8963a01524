"""What a stored calibration says about one question: JSON in, corrections for the estimator out."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from service.calibration.derive import EXACT_SHARE, Calibration, Exact, MeasuredPoint
from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections, InstantCorrection
from service.estimator.layout import Layout
from service.estimator.workload import TrainWorkload, Workload

MEASURED, CALIBRATED = "measured", "calibrated"


def point_of(architecture: Architecture, workload: Workload, layout: Layout) -> MeasuredPoint:
    """Return where on its curve a question lies."""
    if isinstance(workload, TrainWorkload):
        return MeasuredPoint(
            num_layers=architecture.num_hidden_layers,
            micro_batch_size=workload.micro_batch_size,
            sequence_length=workload.sequence_length,
            num_gpus=layout.num_gpus,
        )
    return MeasuredPoint(
        num_layers=architecture.num_hidden_layers,
        micro_batch_size=workload.num_sequences,
        sequence_length=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
        num_gpus=layout.num_gpus,
    )


def corrections_at(calibration: Calibration, point: MeasuredPoint, *, calibration_id: str) -> Corrections:
    """Return the corrections for one point: its own residuals where it was measured itself, else the curve's."""
    for exact in calibration.exact:
        if exact.point == point:
            own = {name: InstantCorrection(fixed_bytes=residual) for name, residual in exact.residuals.items()}
            return Corrections(calibration=calibration_id, basis=MEASURED, instants=own, relative_error=EXACT_SHARE)
    return Corrections(
        calibration=calibration_id,
        basis=CALIBRATED,
        instants=calibration.instants,
        relative_error=calibration.relative_error,
    )


def to_document(calibration: Calibration) -> dict[str, object]:
    """Return the calibration as JSON values; ``from_document`` reads them back."""
    return asdict(calibration)


def from_document(document: Mapping[str, Any]) -> Calibration:
    """Read what ``to_document`` wrote; a document of another shape raises KeyError or TypeError."""
    return Calibration(
        instants={name: InstantCorrection(**values) for name, values in document["instants"].items()},
        relative_error=document["relative_error"],
        evidence=tuple(document["evidence"]),
        exact=tuple(
            Exact(point=MeasuredPoint(**exact["point"]), residuals=dict(exact["residuals"])) for exact in document["exact"]
        ),
        rejected=tuple(document["rejected"]),
    )
