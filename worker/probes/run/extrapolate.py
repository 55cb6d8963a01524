"""Extrapolation from the runs to the full model. Pure arithmetic on bytes.

Every stretch of a step is linear in the layers of each kind before and after it, but their maximum
is not: it moves from one stretch to another as the model grows. So each stretch is extrapolated by
itself, layer by layer of the requested model, and the maximum of an instant is taken last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.jobs.contract import FailureKind
from service.probing.lines import LAYER_ROWS, Fit, LayerRow, Row, count_kinds, fit
from service.probing.plan import Point
from service.probing.refusal import Refusal

LOAD = "load"
_LAYER = "layer:"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointReading:
    """Bytes of one run: the peak of each stretch, and between steps.

    Stretches are named as in ``backward/layer:3``; ``steady_bytes`` are held between steps.
    """

    point: Point
    live: Mapping[str, int]
    allocator: Mapping[str, int]
    steady_bytes: int
    load_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolatedBytes:
    """Bytes of the requested model by instant.

    ``residual_bytes`` is how far the runs lie from the lines fitted to them.
    """

    instants: Mapping[str, int]
    steady_bytes: int
    residual_bytes: int = 0
    notes: tuple[str, ...] = ()


def get_instant(stretch: str) -> str:
    """Return the instant of a stretch: ``backward`` of ``backward/layer:3``."""
    return stretch.partition("/")[0]


def compute_instant_peaks(stretches: Mapping[str, int]) -> dict[str, int]:
    """Compute the highest bytes of each instant, in order of the step."""
    highest: dict[str, int] = {}
    for stretch, num_bytes in stretches.items():
        instant = get_instant(stretch)
        highest[instant] = max(highest.get(instant, 0), num_bytes)
    return highest


def extrapolate_layers(
    readings: Iterable[PointReading], layers: Sequence[int], kinds: Sequence[int]
) -> ExtrapolatedBytes:
    """Extrapolate the readings of one batch to a model of ``layers``.

    ``kinds`` has the kind of every layer. A model that was run itself needs no extrapolation.
    Raises Refusal where the readings do not determine the result.
    """
    runs, target_layers = tuple(readings), tuple(layers)
    for reading in runs:
        if reading.point.layers == target_layers:
            loaded = {LOAD: reading.load_bytes}
            return ExtrapolatedBytes(
                instants=loaded | compute_instant_peaks(reading.live),
                steady_bytes=reading.steady_bytes,
            )
    return _LayerFits(runs, target_layers, kinds).extrapolate()


def extrapolate_tokens(
    answers: Mapping[int, int], analytic: Mapping[int, int], *, num_tokens: int, analytic_bytes: int
) -> int:
    """Extrapolate measured bytes to ``num_tokens``.

    The result is the analytic one there, shifted by what the runs measured above or below theirs.
    ``answers`` and ``analytic`` hold the measured and the analytic bytes by tokens; their
    difference is linear in tokens.
    """
    (few, low), (many, high) = sorted(
        (tokens, answers[tokens] - analytic[tokens]) for tokens in answers
    )
    return analytic_bytes + low + round((high - low) * (num_tokens - few) / (many - few))


class _LayerFits:
    """Lines fitted to some readings, evaluated for the requested layers."""

    def __init__(
        self, readings: Sequence[PointReading], target_layers: Sequence[int], kinds: Sequence[int]
    ) -> None:
        self._readings = readings
        self._kinds = {
            reading.point: tuple(kinds[layer] for layer in reading.point.layers)
            for reading in readings
        }
        self._target_kinds = tuple(kinds[layer] for layer in target_layers)
        self._residual_bytes = 0.0

    def extrapolate(self) -> ExtrapolatedBytes:
        """Extrapolate to the requested layers."""
        names = (name.partition(_LAYER)[0] for reading in self._readings for name in reading.live)
        stretches = {
            name: num_bytes
            for phase in dict.fromkeys(names)
            for name, num_bytes in self._extrapolate_phase(phase)
        }
        load = self._extrapolate_total(
            {reading.point: reading.load_bytes for reading in self._readings}
        )
        steady = self._extrapolate_total(
            {reading.point: reading.steady_bytes for reading in self._readings}
        )
        return ExtrapolatedBytes(
            instants={LOAD: load} | compute_instant_peaks(stretches),
            steady_bytes=steady,
            residual_bytes=round(self._residual_bytes),
        )

    def _extrapolate_phase(self, phase: str) -> Iterator[tuple[str, int]]:
        """Yield the bytes of one stretch, or of every layer's.

        A ``phase`` that ends with a slash has one stretch for each layer.
        """
        if not phase.endswith("/"):
            runs = (reading for reading in self._readings if phase in reading.live)
            yield (
                phase,
                self._extrapolate_total({reading.point: reading.live[phase] for reading in runs}),
            )
            return
        fits = [self._fit_layers(phase, row) for row in LAYER_ROWS]
        for place in range(len(self._target_kinds)):
            yield (
                f"{phase}{_LAYER}{place}",
                self._evaluate(fits, [row(self._target_kinds, place) for row in LAYER_ROWS]),
            )

    def _fit_layers(self, phase: str, row: LayerRow) -> Fit:
        rows, values = [], []
        for reading in self._readings:
            kinds = self._kinds[reading.point]
            for place in range(len(kinds)):
                if (num_bytes := reading.live.get(f"{phase}{_LAYER}{place}")) is not None:
                    rows.append(row(kinds, place))
                    values.append(num_bytes)
        return fit(rows, values)

    def _extrapolate_total(self, values: Mapping[Point, int]) -> int:
        """Extrapolate a number with a share for each layer.

        The share does not depend on the layer's position.
        """
        line = fit([count_kinds(self._kinds[point]) for point in values], list(values.values()))
        return self._evaluate([line], [count_kinds(self._target_kinds)])

    def _evaluate(self, fits: Sequence[Fit], rows: Sequence[Row]) -> int:
        """Evaluate the first of the fits that determines the number."""
        for line, row in zip(fits, rows, strict=True):
            if (value := line.evaluate(row)) is not None:
                self._residual_bytes = max(self._residual_bytes, line.residual)
                return round(value)
        message = (
            "the layers that were run do not decide the answer for the whole model: ask with "
            "full_depth"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
