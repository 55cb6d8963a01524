"""Which levels an answer may be asked at: as high as the residuals that its intervals are made of carry."""

from service.estimator.memory.intervals.ends import HIGHEST, LEVEL, LOWEST
from service.estimator.memory.intervals.table import NUM_GROUPS
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Engine, ServeWorkload, Workload


def require_confidence(confidence: float | None, workload: Workload) -> None:
    """Raise InvalidInputError for a level that the intervals of a workload cannot have, naming the highest that they can."""
    if confidence is None:
        return
    said = f"confidence is {confidence:g}"
    if confidence < LOWEST:
        raise InvalidInputError(f"{said}; it must be {LOWEST:g} or more", field="confidence")
    if _rests_on_ends(workload) and confidence > LEVEL:
        message = f"{said}, and what an engine needs is known by the ends of its readings, which carry {LEVEL:g} at most"
        raise InvalidInputError(message, field="confidence")
    if confidence > HIGHEST:
        carry = f"{NUM_GROUPS} groups of readings that the intervals rest on carry {HIGHEST:g} at most"
        raise InvalidInputError(f"{said}, and the {carry}", field="confidence")


def confidence_notes(confidence: float | None, workload: Workload) -> tuple[str, ...]:
    """Return what an answer is to say of a level that changes nothing."""
    if confidence in {None, LEVEL} or not _rests_on_ends(workload):
        return ()
    return (f"confidence = {LEVEL:g}: an engine's parts are known by the ends of their readings, at {confidence:g} as well",)


def in_percent(level: float) -> str:
    """Return a level as people say it."""
    return f"{level * 100:g}%"


def _rests_on_ends(workload: Workload) -> bool:
    return isinstance(workload, ServeWorkload) and workload.engine is not Engine.TRANSFORMERS
