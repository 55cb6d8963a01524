"""A moment of an answer: an instant's highest bytes by part, and what measurements add to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.corrections import NOTHING, Corrections, require_plausible

Parts = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The highest moment of an instant: allocated bytes, and the parts that they are made of."""

    name: str
    allocated_bytes: int
    parts: Parts


def all_corrected(moments: Sequence[Moment], corrections: Corrections | None, num_tokens: int) -> Sequence[Moment]:
    """Return the moments of a step with their corrections; the highest is raised to what a smaller run needed at least.

    Raises ImplausibleCorrectionError where the corrections make of the peak what it cannot be.
    """
    if corrections is None:
        return moments
    made = [corrected(moment, corrections, num_tokens) for moment in moments]
    highest = max(made, key=lambda moment: moment.allocated_bytes)
    asked = max(_asked(moment, corrections, num_tokens) for moment in moments)
    require_plausible(corrections, "allocated bytes", max(moment.allocated_bytes for moment in moments), asked)
    missing = corrections.at_least_bytes - highest.allocated_bytes
    if missing > 0:
        made[made.index(highest)] = _with_more(highest, missing)
    return made


def corrected(moment: Moment, corrections: Corrections | None, num_tokens: int) -> Moment:
    """Return the moment with its correction counted under activations, which cannot fall below nothing."""
    correction = corrections.instants.get(moment.name) if corrections is not None else None
    if correction is None:
        return moment
    kept = moment.parts.get("activations", 0)
    return _with_more(moment, max(correction.at(num_tokens, moment.allocated_bytes), -kept))


def _asked(moment: Moment, corrections: Corrections, num_tokens: int) -> int:
    """Return what a correction makes of a moment, be it less than what its weights alone take."""
    correction = corrections.instants.get(moment.name, NOTHING)
    return moment.allocated_bytes + correction.at(num_tokens, moment.allocated_bytes)


def _with_more(moment: Moment, added: int) -> Moment:
    kept = moment.parts.get("activations", 0)
    return Moment(
        name=moment.name,
        allocated_bytes=moment.allocated_bytes + added,
        parts=moment.parts | {"activations": kept + added},
    )
