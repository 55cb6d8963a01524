"""From the models that were run to the model that was asked. Pure arithmetic over bytes.

Every stretch of a step is linear in the layers of each kind before and after it, but their maximum is not: it moves from one
stretch to another as the model grows. So each stretch is extrapolated by itself, layer by layer of the asked model, and the
maximum of an instant is taken last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.jobs.contract import FailureKind
from service.probing.lines import LAYER_ROWS, Fit, LayerRow, Row, counted, fit
from service.probing.plan import Point
from service.probing.refusal import Refusal

LOAD = "load"
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
    """Bytes of the asked model by instant; ``residual_bytes`` is how far the runs lie from the lines drawn through them."""

    instants: Mapping[str, int]
    steady_bytes: int
    residual_bytes: int = 0
    notes: tuple[str, ...] = ()


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


def at_depth(readings: Iterable[Reading], layers: Sequence[int], kinds: Sequence[int]) -> Answer:
    """Return the answer for a model of these ``layers`` from readings of one batch; ``kinds`` has the kind of every layer.

    A model that was run itself answers for itself. Raises Refusal where the readings do not decide the answer.
    """
    taken, asked = tuple(readings), tuple(layers)
    for reading in taken:
        if reading.point.layers == asked:
            loaded = {LOAD: reading.load_bytes}
            return Answer(instants=loaded | instants_of(reading.live), steady_bytes=reading.steady_bytes)
    return _Lines(taken, asked, kinds).answer()


def at_tokens(answers: Mapping[int, int], analytic: Mapping[int, int], *, num_tokens: int, analytic_bytes: int) -> int:
    """Return the bytes at ``num_tokens``: the analytic answer there, shifted by what the runs measured above or below it.

    ``answers`` and ``analytic`` hold the measured and the analytic bytes by tokens; their difference is linear in tokens.
    """
    (few, low), (many, high) = sorted((tokens, answers[tokens] - analytic[tokens]) for tokens in answers)
    return analytic_bytes + low + round((high - low) * (num_tokens - few) / (many - few))


class _Lines:
    """The lines through some readings, and what they say about the asked layers."""

    def __init__(self, readings: Sequence[Reading], asked: Sequence[int], kinds: Sequence[int]) -> None:
        self._readings = readings
        self._kinds = {reading.point: tuple(kinds[layer] for layer in reading.point.layers) for reading in readings}
        self._asked = tuple(kinds[layer] for layer in asked)
        self._residual_bytes = 0.0

    def answer(self) -> Answer:
        """Return the bytes of the asked layers."""
        names = (name.partition(_LAYER)[0] for reading in self._readings for name in reading.live)
        stretches = {name: num_bytes for phase in dict.fromkeys(names) for name, num_bytes in self._phase(phase)}
        load = self._total({reading.point: reading.load_bytes for reading in self._readings})
        steady = self._total({reading.point: reading.steady_bytes for reading in self._readings})
        return Answer(
            instants={LOAD: load} | instants_of(stretches),
            steady_bytes=steady,
            residual_bytes=round(self._residual_bytes),
        )

    def _phase(self, phase: str) -> Iterator[tuple[str, int]]:
        """Yield the bytes of one stretch; where ``phase`` ends with a slash, of every layer's."""
        if not phase.endswith("/"):
            having = (reading for reading in self._readings if phase in reading.live)
            yield phase, self._total({reading.point: reading.live[phase] for reading in having})
            return
        drawn = [self._layers_fit(phase, row) for row in LAYER_ROWS]
        for place in range(len(self._asked)):
            yield f"{phase}{_LAYER}{place}", self._read(drawn, [row(self._asked, place) for row in LAYER_ROWS])

    def _layers_fit(self, phase: str, row: LayerRow) -> Fit:
        rows, values = [], []
        for reading in self._readings:
            kinds = self._kinds[reading.point]
            for place in range(len(kinds)):
                if (num_bytes := reading.live.get(f"{phase}{_LAYER}{place}")) is not None:
                    rows.append(row(kinds, place))
                    values.append(num_bytes)
        return fit(rows, values)

    def _total(self, values: Mapping[Point, int]) -> int:
        """Return a number that has a share for each layer, wherever it stands."""
        drawn = fit([counted(self._kinds[point]) for point in values], list(values.values()))
        return self._read([drawn], [counted(self._asked)])

    def _read(self, drawn: Sequence[Fit], rows: Sequence[Row]) -> int:
        """Return the number from the first of the fits that decides it."""
        for line, row in zip(drawn, rows, strict=True):
            if (found := line.at(row)) is not None:
                self._residual_bytes = max(self._residual_bytes, line.residual)
                return round(found)
        message = "the layers that were run do not decide the answer for the whole model: ask with full_depth"
        raise Refusal(FailureKind.UNSUPPORTED, message)
