"""Prices of the points of a recorded step on one rank."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from service.estimator.memory.deciding_prices import select_deciding
from service.estimator.memory.phase_peaks import Parts
from service.estimator.memory.static import StaticMemory
from service.estimator.passes.config import PeakCandidates
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, Section
from service.estimator.tape.sizes import Size
from service.estimator.values.units import ceil_div

INSTANTS = {
    "forward": (Section.FORWARD,),
    "loss": (Section.LOSS_FORWARD, Section.LOSS_BACKWARD),
    "backward": (Section.BACKWARD,),
}
SECTION_INSTANTS = tuple(
    (section, instant) for instant, members in INSTANTS.items() for section in members
)
_BACKWARD = frozenset({Section.LOSS_BACKWARD, Section.BACKWARD})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SectionPrices:
    """Bytes of a section's points, polynomials in batch and sequence.

    What is resident and the gradients, which cost each rank its own, are part of them.
    """

    resident: Parts
    """Bytes that are there whatever the point, by part."""
    resident_bytes: int
    points: tuple[Point, ...]
    prices: tuple[Size, ...]
    """Bytes of each point beside the resident ones, with gradients rounded down."""
    gradients: tuple[int, ...]
    """Bytes of the gradients of each point, rounded up."""
    roundings: tuple[int, ...]
    _parts: dict[int, tuple[Parts, tuple[tuple[str, Size], ...]]] = field(default_factory=dict)

    def find_highest(self, values: Size) -> tuple[int, int]:
        """Return the bytes and the index of the highest point.

        Of equal points it is the first. A section without one has the resident bytes, and the index
        -1. Every answer prices dozens of points: the polynomial is written out here, because a call
        for each would cost more than it.
        """
        _, g, h, i, j, k = values
        highest, index = -1, -1
        for place, (a, b, c, d, e, f) in enumerate(self.prices):
            price = a + b * g + c * h + d * i + e * j + f * k
            if price > highest:
                highest, index = price, place
        if index < 0:
            return self.resident_bytes, index
        return self.resident_bytes + highest + self.roundings[index], index

    def get_gradient_bytes(self, index: int) -> int:
        """Return the bytes of a point's gradients, 0 without a point."""
        return 0 if index < 0 else self.gradients[index]

    def get_activation_bytes(self, index: int, values: Size) -> int:
        """Return the bytes of a point's activations, 0 without a point."""
        return 0 if index < 0 else self.points[index].evaluate_part("activations", values)

    def evaluate_parts(self, index: int, values: Size) -> Parts:
        """Return the live bytes at a point, by part."""
        if index < 0:
            return dict(self.resident)
        split = self._parts.get(index)
        if split is None:
            split = self._parts[index] = self._split_parts(index)
        fixed, growing = split
        parts = fixed.copy()
        _, g, h, i, j, k = values
        for name, (a, b, c, d, e, f) in growing:
            parts[name] = a + b * g + c * h + d * i + e * j + f * k
        return parts

    def _split_parts(self, index: int) -> tuple[Parts, tuple[tuple[str, Size], ...]]:
        """Return a point's parts, and the polynomials of growing ones."""
        fixed = dict(self.resident)
        fixed["gradients"] += self.gradients[index]
        growing: list[tuple[str, Size]] = []
        for name, (a, b, c, d, e, f) in self.points[index].parts:
            fixed[name] = fixed.get(name, 0) + a
            if b or c or d or e or f:
                growing.append((name, (fixed[name], b, c, d, e, f)))
        return fixed, tuple(growing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPrices:
    """Prices of all sections of a step on one rank."""

    static_memory: StaticMemory
    sections: dict[Section, SectionPrices]
    peaks: tuple[Size, ...]
    """Prices one of which is the highest at any batch and sequence; empty where rounding tells."""
    peak_instants: tuple[str, ...]
    """The instant of each of them."""


def price_step(static_memory: StaticMemory, candidates: PeakCandidates) -> StepPrices:
    """Return the prices of a recorded step on a rank."""
    sections = {
        section: _price_section(static_memory, section, points)
        for section, points in candidates.items()
    }
    peaks = list(_iter_peaks(static_memory, sections))
    if any(any(sections[section].roundings) for section, _ in SECTION_INSTANTS):
        # Points of a section are compared by gradients rounded down: one loop would not be equal.
        peaks = []
    deciding = select_deciding([price for _, price in peaks])
    return StepPrices(
        static_memory=static_memory,
        sections=sections,
        peaks=tuple(peaks[index][1] for index in deciding),
        peak_instants=tuple(peaks[index][0] for index in deciding),
    )


def _iter_peaks(
    static_memory: StaticMemory, sections: dict[Section, SectionPrices]
) -> Iterator[tuple[str, Size]]:
    """Yield the prices that could be the peak, by instant.

    They are in the order of the instants.
    """
    yield "load", sizes.constant(static_memory.loaded_bytes)
    for section, instant in SECTION_INSTANTS:
        resident = sizes.constant(sections[section].resident_bytes)
        if not sections[section].prices:
            yield instant, resident
        for price in sections[section].prices:
            yield instant, sizes.add(price, resident)
    yield "optimizer_step", sizes.constant(static_memory.step_bytes)


def _price_section(
    static_memory: StaticMemory, section: Section, points: tuple[Point, ...]
) -> SectionPrices:
    resident = dict(static_memory.resident)
    backward_bytes = static_memory.buckets.backward if section in _BACKWARD else 0
    resident["communication_buffers"] += backward_bytes
    shards = static_memory.shards.gradients
    gradients = [point.gradients * static_memory.grad_bytes for point in points]
    prices = [
        sizes.add(point.bytes, sizes.constant(bytes_ // shards))
        for point, bytes_ in zip(points, gradients, strict=True)
    ]
    deciding = select_deciding(prices)
    return SectionPrices(
        resident=resident,
        resident_bytes=static_memory.resident_bytes + backward_bytes,
        points=tuple(points[index] for index in deciding),
        prices=tuple(prices[index] for index in deciding),
        gradients=tuple(ceil_div(gradients[index], shards) for index in deciding),
        roundings=tuple(
            ceil_div(gradients[index], shards) - gradients[index] // shards for index in deciding
        ),
    )
