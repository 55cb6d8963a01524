"""Memory from step to step, and whether it grows.

Only counters of the present, or peaks that the program resets at each line: a peak since the start
never falls. DeepSpeed's ``see_memory_usage`` (deepspeed/runtime/utils.py), torchtitan's metrics
(components/metrics.py), axolotl's callback (utils/bench.py), mmengine's ``memory:``
(runner/log_processor.py), torchtune's ``peak_memory_alloc``, Megatron's ``report_memory``
(training/utils.py), RETURNN's ``mem_usage``.
"""

from collections.abc import Sequence
from itertools import pairwise

from service.formats.failures.failure import Growth, Span, make_span
from service.formats.failures.wording import NUMBER, compile_wording

MARKS = ("MA ", "memory", "mem_usage")
MIN_STEPS = 6
WARM_UP = 2
"""Steps before the second one's end have no optimizer states, or not all kernels."""
MAX_SERIES = 256
MAX_READINGS = 100_000
_SMALLEST_SHARE = 0.02
"""Growth below this share of the last reading is no reason to fail."""
_RISING_SHARE = 0.8
_UNITS = r"(B|kB|KB|MB|GB|KiB|MiB|GiB)"
_SERIES = (
    (compile_wording(rf"\bMA {NUMBER} {_UNITS}"), ""),
    (compile_wording(rf"GPU memory usage while training: {NUMBER}{_UNITS}"), ""),
    (
        compile_wording(
            rf"memory/max_(?:mem_)?+(?:active|allocated)[ _]?+\((?:gib|GiB)\)'?+: '?+{NUMBER}"
        ),
        "GiB",
    ),
    (compile_wording(rf"\bpeak_memory_(?:alloc|active):{NUMBER}"), "GiB"),
    (compile_wording(rf"memory \(MB\) \| allocated: {NUMBER}"), "MB"),
    (compile_wording(rf"\bmem_usage:(?:cuda:)?+[0-9]{{0,3}}+ {NUMBER}{_UNITS}"), ""),
    (compile_wording(rf" memory: {NUMBER} {{1,4}}+(?:loss|grad)"), "MB"),
    (compile_wording(rf"\bmemory: {{1,3}}+{NUMBER}(GiB)\("), ""),
    (compile_wording(rf"[Mm]emory[ _]allocated[:=] ?+{NUMBER} ?+{_UNITS}"), ""),
)


class GrowthReader:
    """Readings of memory by step, for each rank and counter."""

    def __init__(self) -> None:
        """Start without any."""
        self._series: dict[tuple[int, str | None], list[tuple[int, Span]]] = {}

    def feed(self, text: str, *, line: int, rank: str | None) -> None:
        """Read one line."""
        for index, (pattern, unit) in enumerate(_SERIES):
            match = pattern.search(text)
            if match is None:
                continue
            readings = self._series.get((index, rank))
            if readings is None:
                if len(self._series) >= MAX_SERIES:
                    return
                readings = self._series[index, rank] = []
            if len(readings) < MAX_READINGS:
                readings.append((line, make_span(match[1], unit or match[2])))
            return

    def find(self) -> Growth | None:
        """Return the greatest growth, ``None`` where nothing grows."""
        grown = [
            growth
            for (_, rank), readings in self._series.items()
            if (growth := _assess(readings[WARM_UP:], rank)) is not None
        ]
        return max(grown, key=lambda growth: growth.bytes_per_step, default=None)


def _assess(readings: Sequence[tuple[int, Span]], rank: str | None) -> Growth | None:
    if len(readings) < MIN_STEPS - WARM_UP:
        return None
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
        num_steps=len(readings),
        first=readings[0][1],
        last=readings[-1][1],
        first_line=readings[0][0],
        last_line=readings[-1][0],
        rank=rank,
    )
