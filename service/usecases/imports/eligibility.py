"""Whether a measurement that somebody brought can teach anything, and what it would have to tell to do so."""

from collections.abc import Collection, Mapping

from service.calibration.environment import environment_of
from service.estimator.values.workload import Engine, ServeWorkload, Workload
from service.formats.measured.reading import Quantity

_COUNTED = "what PyTorch's allocator counted as allocated, beside which everything else is learnt"
_LOOKS = frozenset({Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED})
_BOUND = (
    "tells all that was on the GPU and none of its parts: device_bytes of such a run, and of larger ones, are at least as much "
    "from now on; nothing else is corrected"
)
_RELEASES = "the releases of torch and transformers, which decide what it is evidence of (say them with environment)"


_FILLS = "corrects no answer: an engine fills its budget, and its answer follows its own release's code"


def why_silent(
    told: Collection[Quantity], environment: Mapping[str, object], workload: Workload, *, excess: str | None = None
) -> tuple[str, ...]:
    """Return in words why readings of a workload correct no answer, or only bound it; nothing where they teach all.

    ``excess`` says why what was seen on the device is no bound.
    """
    if isinstance(workload, ServeWorkload) and workload.engine is not Engine.TRANSFORMERS:
        return (_FILLS,)
    bounds = not _LOOKS.isdisjoint(told)
    lacking = [] if Quantity.ALLOCATED in told or bounds else [_COUNTED]
    if environment_of(environment) is None:
        lacking.append(_RELEASES)
    if lacking:
        return (f"corrects no answer: it does not tell {', nor '.join(lacking)}",)
    if Quantity.ALLOCATED in told:
        return ()
    return (_BOUND if excess is None else f"corrects no answer: {excess}",)
