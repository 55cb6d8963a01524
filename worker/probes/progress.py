"""Progress of a measurement, in words and numbers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.estimator.values.units import format_bytes
from service.jobs.contract import ProbeLine, Progress, Sample
from service.jobs.host import Host
from service.probing.plan import Point, ProbePlan
from service.probing.planning import to_planned
from worker.probes.run.host import read_resident_bytes

Emit = Callable[[ProbeLine], None]


@dataclass(slots=True, kw_only=True)
class ProgressReporter:
    """Reporter of progress that counts the steps of a plan.

    Its fields change as the measurement goes on.
    """

    emit: Emit
    plan: ProbePlan
    host: Host
    steps_per_point: int
    started_at: float = field(default_factory=time.monotonic)
    done: int = 0

    def announce(self) -> None:
        """Emit the plan, before anything is run."""
        self.emit(to_planned(self.plan, self.host))

    def make_step_callback(self, point: Point) -> Callable[[str], None]:
        """Return the callback that reports one step of a point."""

        def on_step(step: str) -> None:
            resident = read_resident_bytes()
            tokens = point.micro_batch_size * (point.sequence_length + point.output_tokens)
            layers = f"{point.num_layers} of {self.plan.target.num_layers} layers"
            self._emit_progress(
                f"{layers}, {tokens} tokens: {step}", f"process holds {format_bytes(resident)}"
            )
            self._emit_sample("process_rss", resident)
            self.done += 1

        return on_step

    def report_peak(self, instants: Mapping[str, int]) -> None:
        """Report the highest bytes of one point."""
        instant, num_bytes = max(instants.items(), key=lambda item: item[1])
        self._emit_sample("allocated", num_bytes)
        self._emit_progress(
            f"measured {instant}", f"allocated peak {format_bytes(num_bytes)} in {instant}"
        )

    def _emit_progress(self, phase: str, reading: str) -> None:
        total = max(1, self.steps_per_point * len(self.plan.all_runs))
        done = min(self.done, total)
        self.emit(
            Progress(phase=phase, done=done, total=total, fraction=done / total, reading=reading)
        )

    def _emit_sample(self, kind: str, num_bytes: int) -> None:
        self.emit(
            Sample(t_s=round(time.monotonic() - self.started_at, 3), kind=kind, bytes=num_bytes)
        )
