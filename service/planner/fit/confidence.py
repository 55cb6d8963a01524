"""Confidence levels that the intervals of an answer can have.

They go as high as the residuals that the intervals are made of carry.
"""

from service.estimator.memory.intervals.ends import HIGHEST, LEVEL, LOWEST
from service.estimator.memory.intervals.pooled_ends import NUM_GROUPS
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Engine, ServeWorkload, Workload


def check_confidence(confidence: float | None, workload: Workload) -> None:
    """Raise InvalidInputError for an unsupported confidence level.

    It names the highest level that the intervals of a workload can have.
    """
    if confidence is None:
        return
    prefix = f"confidence is {confidence:g}"
    if confidence < LOWEST:
        raise InvalidInputError(f"{prefix}; it must be {LOWEST:g} or more", field="confidence")
    if _has_endpoint_intervals(workload) and confidence > LEVEL:
        message = (
            f"{prefix}, and what an engine needs is known by the ends of its readings, which carry "
            f"{LEVEL:g} at most"
        )
        raise InvalidInputError(message, field="confidence")
    if confidence > HIGHEST:
        carry = (
            f"{NUM_GROUPS} groups of readings that the intervals rest on carry {HIGHEST:g} at most"
        )
        raise InvalidInputError(f"{prefix}, and the {carry}", field="confidence")


def list_confidence_notes(confidence: float | None, workload: Workload) -> tuple[str, ...]:
    """Return notes on a confidence level that changes nothing."""
    if confidence in {None, LEVEL} or not _has_endpoint_intervals(workload):
        return ()
    return (
        (
            f"confidence = {LEVEL:g}: an engine's parts are known by the ends of their readings, "
            f"at {confidence:g} as well"
        ),
    )


def format_percent(level: float) -> str:
    """Format a level as a percentage."""
    return f"{level * 100:g}%"


def _has_endpoint_intervals(workload: Workload) -> bool:
    return isinstance(workload, ServeWorkload) and workload.engine is not Engine.TRANSFORMERS
