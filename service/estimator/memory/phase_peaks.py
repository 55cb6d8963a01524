"""A moment of an answer: an instant's highest bytes by part, or in sum alone, and what measurements add to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from service.estimator.values.corrections import NOTHING, Corrections, require_plausible

Parts = dict[str, int]
M = TypeVar("M", "Moment", "Height")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The highest moment of an instant: allocated bytes, and the parts that they are made of."""

    name: str
    allocated_bytes: int
    parts: Parts

    @property
    def activations(self) -> int:
        """Bytes that count under activations."""
        return self.parts.get("activations", 0)

    def with_more(self, added: int) -> "Moment":
        """Return the moment with more bytes, which count under activations."""
        parts = self.parts | {"activations": self.activations + added}
        return Moment(name=self.name, allocated_bytes=self.allocated_bytes + added, parts=parts)


class Height(NamedTuple):
    """A moment without its parts, for a search that asks for nothing else: the gradients and activations of its bytes."""

    name: str
    allocated_bytes: int
    gradients: int
    activations: int

    def with_more(self, added: int) -> "Height":
        """Return the height with more bytes, which count under activations."""
        return Height(self.name, self.allocated_bytes + added, self.gradients, self.activations + added)


def all_corrected(moments: Sequence[M], corrections: Corrections | None, num_tokens: int) -> Sequence[M]:
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
        made[made.index(highest)] = highest.with_more(missing)
    return made


def corrected(moment: M, corrections: Corrections | None, num_tokens: int) -> M:
    """Return the moment with its correction counted under activations, which cannot fall below nothing."""
    correction = corrections.instants.get(moment.name) if corrections is not None else None
    if correction is None:
        return moment
    return moment.with_more(max(correction.at(num_tokens, moment.allocated_bytes), -moment.activations))


def _asked(moment: Moment | Height, corrections: Corrections, num_tokens: int) -> int:
    """Return what a correction makes of a moment, be it less than what its weights alone take."""
    correction = corrections.instants.get(moment.name, NOTHING)
    return moment.allocated_bytes + correction.at(num_tokens, moment.allocated_bytes)
