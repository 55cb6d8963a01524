"""Times that ``make gpu-sweep`` measured on GPUs, as questions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.speed.learning import MeasuredTime, correct_rates
from service.estimator.speed.rates import Rates, get_rates
from service.estimator.speed.throughput import estimate_throughput
from service.estimator.values.corrections import SpeedRatios
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.probing.plan import NUM_MICRO_BATCHES
from tests.gpu.sweep.case import Row, read_lines
from tests.gpu.sweep.predict import get_device, load_case_architecture

TRUTH = Path(__file__).resolve().parents[2] / "data/truth/gpu"
SPLIT = "ranks"
"""Ranks of a fake process group: nothing is sent, so that their times are nobody's."""
STEP, PREFILL, DECODE = "step", "prefill", "decode"
_PLANS = PlanCache()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedRow:
    """One measured configuration: the median seconds of its timed rounds.

    There is one of each, which is equal to itself alone.
    """

    file: str
    name: str
    family: str
    """The catalogue's name of the model."""
    model: Architecture
    workload: Workload
    device: Device
    answer: Estimate
    seconds: dict[str, float]

    def predict(self, rates: Rates | None = None) -> dict[str, float]:
        """Return the predicted seconds by quantity, at the GPU's rates unless others are given."""
        return _name_quantities(self.workload, self.time(rates))

    def time(self, rates: Rates | None = None) -> Throughput:
        """Return the throughput of the row."""
        speed = estimate_throughput(
            self.model, self.workload, Layout(), self.device, self.answer, _PLANS.works, rates=rates
        )
        assert speed is not None
        return speed

    def measure(self, rates: Rates | None) -> MeasuredTime:
        """Return the row's step as a measurement of its machine, whose prior are some rates."""
        prior = rates or get_rates(self.device.name)

        def predict(speeds: SpeedRatios) -> float:
            return self.time(correct_rates(prior, speeds)).step_time_s

        seconds = self.seconds[STEP] if STEP in self.seconds else self.seconds[DECODE]
        return MeasuredTime(seconds=seconds, predict=predict)


def _name_quantities(workload: Workload, speed: Throughput) -> dict[str, float]:
    if isinstance(workload, TrainWorkload):
        return {STEP: speed.step_time_s}
    assert speed.prefill_time_s is not None
    return {DECODE: speed.step_time_s, PREFILL: speed.prefill_time_s}


@cache
def read_timed_rows() -> tuple[TimedRow, ...]:
    """Return every row with a time, of all sweeps."""
    return tuple(
        row for path in sorted(TRUTH.glob("sweep_*.jsonl")) for row in _iter_timed_rows(path)
    )


def _iter_timed_rows(path: Path) -> Iterator[TimedRow]:
    header, rows = read_lines(path.read_bytes())
    assert header is not None
    device = get_device(header.environment)
    for row in rows:
        if row.measured is not None and row.measured.step_time_s and row.case.group != SPLIT:
            yield _read_row(path.stem, row, device)


def _read_row(file: str, row: Row, device: Device) -> TimedRow:
    assert row.measured is not None
    model, workload = load_case_architecture(row.case), row.case.task.workload
    if isinstance(workload, ServeWorkload):
        seconds = {
            DECODE: median(row.measured.step_time_s),
            PREFILL: median(row.measured.prefill_time_s),
        }
    else:
        # A probe runs no more micro batches than its peaks need.
        steps = min(workload.gradient_accumulation_steps, NUM_MICRO_BATCHES)
        workload = replace(workload, gradient_accumulation_steps=steps)
        seconds = {STEP: median(row.measured.step_time_s)}
    return TimedRow(
        file=file,
        name=row.case.name,
        family=row.case.model,
        model=model,
        workload=workload,
        device=device,
        answer=estimate(model, workload, layout=Layout(), device=device, plans=_PLANS),
        seconds=seconds,
    )
