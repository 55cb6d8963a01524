"""Memory from step to step, and whether it grows.

Only counters of the present, or peaks that the program resets at each line: a peak since the start
never falls. DeepSpeed's ``see_memory_usage`` (deepspeed/runtime/utils.py), torchtitan's metrics
(components/metrics.py), axolotl's callback (utils/bench.py), mmengine's ``memory:``
(runner/log_processor.py), torchtune's ``peak_memory_alloc``, Megatron's ``report_memory``
(training/utils.py), RETURNN's ``mem_usage``.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from service.formats.failures.failure import Growth, Span, make_span
from service.formats.failures.wording import NUMBER, compile_wording

MARKS = ("MA ", "emory", "mem_usage")
MIN_STEPS = 6
WARM_UP = 2
"""Steps before the second one's end have no optimizer states, or not all kernels."""
MAX_SERIES = 64
MAX_READINGS = 2048
"""Of a longer series every other reading is kept, then every fourth, and so on."""
_SMALLEST_SHARE = 0.02
"""Growth below this share of the last reading is no reason to fail."""
_RISING_SHARE = 0.8
_UNITS = r"(B|kB|KB|MB|GB|KiB|MiB|GiB)"
_SERIES = (
    ("MA ", compile_wording(rf"\bMA {NUMBER} {_UNITS}"), ""),
    (
        "while training",
        compile_wording(rf"GPU memory usage while training: {NUMBER}{_UNITS}"),
        "",
    ),
    (
        "memory/max_",
        compile_wording(
            rf"memory/max_(?:mem_)?+(?:active|allocated)[ _]?+\((?:gib|GiB)\)'?+: '?+{NUMBER}"
        ),
        "GiB",
    ),
    ("peak_memory_", compile_wording(rf"\bpeak_memory_(?:alloc|active):{NUMBER}"), "GiB"),
    ("memory (MB)", compile_wording(rf"memory \(MB\) \| allocated: {NUMBER}"), "MB"),
    (
        "mem_usage:",
        compile_wording(rf"\bmem_usage:(?:cuda:)?+[0-9]{{0,3}}+ {NUMBER}{_UNITS}"),
        "",
    ),
    (" memory: ", compile_wording(rf" memory: {NUMBER} {{1,4}}+(?:loss|grad)"), "MB"),
    ("memory: ", compile_wording(rf"\bmemory: {{1,3}}+{NUMBER}(GiB)\("), ""),
    (
        "allocated",
        compile_wording(rf"[Mm]emory[ _]allocated[:=] ?+{NUMBER} ?+{_UNITS}"),
        "",
    ),
)
"""Each with a text that is in its line, by which others are told apart at once."""


@dataclass(slots=True)
class Series:
    """Readings of one counter of one rank, thinned where there are many."""

    readings: list[tuple[int, Span]] = field(default_factory=list)
    last: tuple[int, Span] | None = None
    count: int = 0
    stride: int = 1

    def add(self, line: int, span: Span) -> None:
        """Add a reading; those of the warm-up count for nothing."""
        self.count += 1
        position = self.count - WARM_UP - 1
        if position < 0:
            return
        self.last = line, span
        if position % self.stride:
            return
        self.readings.append((line, span))
        if len(self.readings) >= MAX_READINGS:
            del self.readings[1::2]
            self.stride *= 2

    def list_readings(self) -> list[tuple[int, Span]]:
        """Return the readings that are kept, the last one among them."""
        is_last = self.last is None or self.readings[-1] == self.last
        return self.readings if is_last else [*self.readings, self.last]  # type: ignore[list-item]


class GrowthReader:
    """Readings of memory by step, for each rank and counter."""

    def __init__(self) -> None:
        """Start without any."""
        self._series: dict[tuple[int, str | None], Series] = {}

    def feed(self, text: str, *, line: int, rank: str | None) -> None:
        """Read one line."""
        for index, (mark, pattern, unit) in enumerate(_SERIES):
            if mark not in text or (match := pattern.search(text)) is None:
                continue
            series = self._series.get((index, rank))
            if series is None:
                if len(self._series) >= MAX_SERIES:
                    return
                series = self._series[index, rank] = Series()
            series.add(line, make_span(match[1], unit or match[2]))
            return

    def find(self) -> Growth | None:
        """Return the greatest growth, ``None`` where nothing grows."""
        grown = [
            growth
            for (_, rank), series in self._series.items()
            if (growth := _assess(series, rank)) is not None
        ]
        return max(grown, key=lambda growth: growth.bytes_per_step, default=None)


def _assess(series: Series, rank: str | None) -> Growth | None:
    num_steps = series.count - WARM_UP
    if num_steps < MIN_STEPS - WARM_UP:
        return None
    readings = series.list_readings()
    values = [span.value for _, span in readings]
    growth = values[-1] - values[0]
    steps = [after - before for before, after in pairwise(values)]
    rising = sum(step > 0 for step in steps)
    if (
        growth < _SMALLEST_SHARE * values[-1]
        or rising < _RISING_SHARE * len(steps)
        or min(steps) < -growth / len(steps)
    ):
        return None
    return Growth(
        num_steps=num_steps,
        first=readings[0][1],
        last=readings[-1][1],
        first_line=readings[0][0],
        last_line=readings[-1][0],
        rank=rank,
    )
