"""Rules of thumb beside our figures."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.memo import Memo

MAX_COMPARED = 8
"""Kinds of GPUs whose contexts differ, of which few are asked about in turns."""


@init_quickly
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBytes:
    """Bytes that a rule says, before they are compared.

    They compare with ``our_bytes``; None are those of the device.
    """

    name: str
    bytes: int
    why: str
    source: str
    our_bytes: int | None = None

    def compare(self, device_bytes: int) -> RuleOfThumb:
        """Return the rule beside our figure."""
        our_bytes = device_bytes if self.our_bytes is None else self.our_bytes
        return RuleOfThumb(
            name=self.name,
            bytes=self.bytes,
            our_bytes=our_bytes,
            off_by=compute_deviation(self.bytes, our_bytes),
            why=self.why,
            source=self.source,
        )


class RulesOfThumb:
    """Rules of one configuration, and how they lately compared.

    The memory of a GPU, or the level of confidence, changes no comparison.
    """

    __slots__ = ("_compared", "_rules")

    def __init__(self, rules: Iterable[RuleBytes]) -> None:
        """Keep ``rules`` in their order."""
        self._rules = tuple(rules)
        self._compared: Memo[tuple[RuleOfThumb, ...]] = Memo(MAX_COMPARED)

    def compare(self, device_bytes: int) -> tuple[RuleOfThumb, ...]:
        """Return the rules beside our figures; any thread may ask."""
        compared = self._compared.get(device_bytes)
        if compared is None:
            compared = tuple([rule.compare(device_bytes) for rule in self._rules])
            self._compared.store(device_bytes, compared)
        return compared


def compute_deviation(rule: float, estimated: float) -> float:
    """Return a rule over our figure less one."""
    return round(rule / estimated - 1, 4)
