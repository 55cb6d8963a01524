"""One rule of thumb beside our figure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOfThumb:
    """A rule's bytes, or seconds of a step, beside our own.

    Bytes are of one GPU unless ``why`` says what else. ``off_by`` is the rule over our figure less
    one, ``why`` says which figure and what the rule leaves out, ``source`` where it is from.
    """

    name: str
    off_by: float
    why: str
    source: str
    bytes: int | None = None
    our_bytes: int | None = None
    seconds: float | None = None
    our_seconds: float | None = None


def compute_deviation(rule: float, estimated: float) -> float:
    """Return a rule over our figure less one."""
    return round(rule / estimated - 1, 4)
