"""From the models that were run to the model that was asked. Pure arithmetic over bytes.

Every stretch of a step is linear in depth, but their maximum is not: it moves from one stretch to another as the model
grows. So each stretch is extrapolated by itself and the maximum of an instant is taken last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from worker.probes.plan import Point

FIRST, SECOND, LAST = "first", "second", "last"
_LAYER = "layer:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Bytes of one run: the peak of each stretch by name (``backward/layer:3``), and what is held between steps."""

    point: Point
    live: Mapping[str, int]
    allocator: Mapping[str, int]
    steady_bytes: int
    load_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Bytes of the asked depth by instant."""

    instants: Mapping[str, int]
    steady_bytes: int


def instant_of(stretch: str) -> str:
    """Return the instant that a stretch belongs to: ``backward`` of ``backward/layer:3``."""
    return stretch.partition("/")[0]


def instants_of(stretches: Mapping[str, int]) -> dict[str, int]:
    """Return the highest bytes of each instant, in the order of the step."""
    highest: dict[str, int] = {}
    for stretch, num_bytes in stretches.items():
        instant = instant_of(stretch)
        highest[instant] = max(highest.get(instant, 0), num_bytes)
    return highest


def at_depth(readings: Iterable[Reading], num_layers: int) -> Answer:
    """Return the answer for ``num_layers`` from readings of one batch at one or two depths."""
    shallow, *deeper = sorted(readings, key=lambda reading: reading.point.num_layers)
    if not deeper:
        loaded = {"load": shallow.load_bytes}
        return Answer(instants=loaded | instants_of(shallow.live), steady_bytes=shallow.steady_bytes)
    deep = deeper[-1]

    def line(low: int, high: int) -> int:
        return _line(shallow.point.num_layers, low, deep.point.num_layers, high, num_layers)

    low, high = _aligned(shallow), _aligned(deep)
    stretches = {name: line(low[name], high[name]) for name in low if name in high}
    return Answer(
        instants={"load": line(shallow.load_bytes, deep.load_bytes)} | instants_of(stretches),
        steady_bytes=line(shallow.steady_bytes, deep.steady_bytes),
    )


def at_tokens(answers: Mapping[int, int], analytic: Mapping[int, int], *, num_tokens: int, analytic_bytes: int) -> int:
    """Return the bytes at ``num_tokens``: the analytic answer there, shifted by what the runs measured above or below it.

    ``answers`` and ``analytic`` hold the measured and the analytic bytes by tokens; their difference is linear in tokens.
    """
    (few, low), (many, high) = sorted((tokens, answers[tokens] - analytic[tokens]) for tokens in answers)
    return analytic_bytes + _line(few, low, many, high, num_tokens)


def _aligned(reading: Reading) -> dict[str, int]:
    """Name the layers by their place, so that runs of different depth can be compared; those in between lie in between."""
    last = reading.point.num_layers - 1
    places = {f"{_LAYER}0": (FIRST,), f"{_LAYER}1": (SECOND,)}
    places[f"{_LAYER}{last}"] = (*places.get(f"{_LAYER}{last}", ()), LAST)
    aligned: dict[str, int] = {}
    for stretch, num_bytes in reading.live.items():
        instant, _, part = stretch.partition("/")
        if not part.startswith(_LAYER):
            aligned[stretch] = num_bytes
            continue
        aligned.update({f"{instant}/{place}": num_bytes for place in places.get(part, ())})
    return aligned


def _line(x0: int, y0: int, x1: int, y1: int, x: int) -> int:
    """Return the value at ``x`` of the line through two points, exactly rounded."""
    return y0 + round((y1 - y0) * (x - x0) / (x1 - x0))
