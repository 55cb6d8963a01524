"""Whether a measurement that somebody brought can teach anything, and what it would have to tell to do so."""

from collections.abc import Collection, Mapping

from service.calibration.environment import environment_of
from service.formats.measured.reading import Quantity

_COUNTED = "what PyTorch's allocator counted as allocated, beside which everything else is learnt"
_RELEASES = "the releases of torch and transformers, which decide what it is evidence of (say them with environment)"


def why_silent(told: Collection[Quantity], environment: Mapping[str, object]) -> tuple[str, ...]:
    """Return in words why readings of these quantities correct no answer; nothing where they can."""
    lacking = [] if Quantity.ALLOCATED in told else [_COUNTED]
    if environment_of(environment) is None:
        lacking.append(_RELEASES)
    return (f"corrects no answer: it does not tell {', nor '.join(lacking)}",) if lacking else ()
