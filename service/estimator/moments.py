"""A moment of an answer: an instant's highest bytes by part, and what measurements add to it."""

from dataclasses import dataclass

from service.estimator.corrections import Corrections

Parts = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The highest moment of an instant: allocated bytes, and the parts that they are made of."""

    name: str
    allocated_bytes: int
    parts: Parts


def corrected(moment: Moment, corrections: Corrections | None, num_tokens: int) -> Moment:
    """Return the moment with its correction counted under activations, which cannot fall below nothing."""
    correction = corrections.instants.get(moment.name) if corrections is not None else None
    if correction is None:
        return moment
    kept = moment.parts.get("activations", 0)
    added = max(correction.at(num_tokens), -kept)
    return Moment(
        name=moment.name,
        allocated_bytes=moment.allocated_bytes + added,
        parts=moment.parts | {"activations": kept + added},
    )
