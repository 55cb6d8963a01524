"""Highest bytes of each phase of a pipeline's call."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.logs import Kind, Log, Peaks, evaluate
from service.estimator.pipelines.residence import Residence


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePeak:
    """Highest bytes of a phase, and what they are made of.

    ``bound_bytes`` have the most that workspaces of convolutions take besides. ``weight_bytes`` of
    its own component are those at the peak.
    """

    peak_bytes: int
    bound_bytes: int
    weight_bytes: int
    end_bytes: int
    """Bytes of tensors that stay when it ends."""

    @property
    def activation_bytes(self) -> int:
        """Bytes of the peak that are no weights."""
        return self.peak_bytes - self.weight_bytes


Request = tuple[bool, object, int]
"""A block is asked for or given back, its key and its bytes."""


def iterate_requests(
    log: Log, extents: Extents, residence: Residence, *, workspaces: bool = False
) -> Iterator[Request]:
    """Yield a pass's requests of the allocator, those of weights included."""
    sizes = log.price(extents)
    for what, number, kind in log.iterate():
        if what is Kind.ALLOCATE or what is Kind.FREE:
            if workspaces or kind not in log.workspaces:
                yield what is Kind.ALLOCATE, number, sizes[kind]
            continue
        name = log.modules[number]
        for place, size in enumerate(residence.by_module.get(name, ())):
            yield what is Kind.ENTER, (name, place), size


def find_peak(log: Log, extents: Extents, residence: Residence) -> PhasePeak:
    """Return the highest bytes of a pass with its resident weights."""
    constant = sum(residence.constant)
    sizes = log.price(extents)
    by_module = [sum(residence.by_module.get(name, ())) for name in log.modules]
    live, weights = 0, constant
    peak, bound, at_peak = constant, constant, constant
    for what, number, kind in log.iterate():
        if what is Kind.ALLOCATE:
            if kind in log.workspaces:
                bound = max(bound, live + weights + sizes[kind])
                continue
            live += sizes[kind]
        elif what is Kind.FREE:
            live -= 0 if kind in log.workspaces else sizes[kind]
        else:
            weights += by_module[number] if what is Kind.ENTER else -by_module[number]
        if live + weights > peak:
            peak, at_peak = live + weights, weights
    return PhasePeak(
        peak_bytes=peak, bound_bytes=max(peak, bound), weight_bytes=at_peak, end_bytes=live
    )


def find_video_peak(peaks: Peaks, extents: Extents, residence: Residence) -> PhasePeak:
    """Return the highest bytes of a pass without an order of events.

    Weights that come and go count as the largest module's.
    """
    weights = sum(residence.constant) + max(
        (sum(sizes) for sizes in residence.by_module.values()), default=0
    )
    peak = max(evaluate(line, extents) for line in peaks.peaks)
    bound = max(evaluate(line, extents) for line in peaks.bounds)
    return PhasePeak(
        peak_bytes=peak + weights, bound_bytes=bound + weights, weight_bytes=weights, end_bytes=0
    )
