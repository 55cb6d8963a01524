"""Eligibility of imported measurements to correct answers."""

from collections.abc import Collection, Mapping

from service.calibration.environment import parse_environment
from service.estimator.values.workload import Engine, ServeWorkload, Workload
from service.formats.measured.reading import Quantity

_NEEDS_ALLOCATED = (
    "what PyTorch's allocator counted as allocated, beside which everything else is learnt"
)
_DEVICE_QUANTITIES = frozenset({Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED})
_BOUNDS_ONLY = (
    "tells all that was on the GPU and none of its parts: device_bytes of such a run, and of "
    "larger ones, are at least as much from now on; nothing else is corrected"
)
_NEEDS_RELEASES = (
    "the releases of torch and transformers, which decide what it is evidence of (say them with "
    "environment)"
)


_ENGINE_FILLS_BUDGET = (
    "corrects no answer: an engine fills its budget, and its answer follows its own release's code"
)


def explain_ineligibility(
    quantities: Collection[Quantity],
    environment: Mapping[str, object],
    workload: Workload,
    *,
    excess: str | None = None,
) -> tuple[str, ...]:
    """Return the reasons why readings correct no answer.

    Readings that only bound an answer have a reason too; there are none where they teach all.
    ``excess`` is the reason why device memory is no bound.
    """
    if isinstance(workload, ServeWorkload) and workload.engine is not Engine.TRANSFORMERS:
        return (_ENGINE_FILLS_BUDGET,)
    bounds = not _DEVICE_QUANTITIES.isdisjoint(quantities)
    missing = [] if Quantity.ALLOCATED in quantities or bounds else [_NEEDS_ALLOCATED]
    if parse_environment(environment) is None:
        missing.append(_NEEDS_RELEASES)
    if missing:
        return (f"corrects no answer: it does not tell {', nor '.join(missing)}",)
    if Quantity.ALLOCATED in quantities:
        return ()
    return (_BOUNDS_ONLY if excess is None else f"corrects no answer: {excess}",)
