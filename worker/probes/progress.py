"""Says how far a measurement is, in words and numbers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.estimator.values.units import format_bytes
from service.jobs.contract import ProbeLine, Progress, Sample
from service.jobs.host import Host
from service.probing.plan import Plan, Point
from service.probing.planning import planned
from worker.probes.run.host import resident_bytes

Say = Callable[[ProbeLine], None]


@dataclass(slots=True, kw_only=True)
class Teller:
    """Counts the steps of a plan; its fields change as the measurement goes on."""

    say: Say
    plan: Plan
    host: Host
    steps_per_point: int
    began: float = field(default_factory=time.monotonic)
    done: int = 0

    def announce(self) -> None:
        """Tell what is going to be run, before anything is."""
        self.say(planned(self.plan, self.host))

    def about(self, point: Point) -> Callable[[str], None]:
        """Return what tells of one step of one point."""

        def tell(step: str) -> None:
            resident = resident_bytes()
            tokens = point.micro_batch_size * (point.sequence_length + point.output_tokens)
            layers = f"{point.num_layers} of {self.plan.asked.num_layers} layers"
            self._progress(f"{layers}, {tokens} tokens: {step}", f"process holds {format_bytes(resident)}")
            self._sample("process_rss", resident)
            self.done += 1

        return tell

    def found(self, instants: Mapping[str, int]) -> None:
        """Tell of the highest bytes of one point."""
        instant, num_bytes = max(instants.items(), key=lambda item: item[1])
        self._sample("allocated", num_bytes)
        self._progress(f"measured {instant}", f"allocated peak {format_bytes(num_bytes)} in {instant}")

    def _progress(self, phase: str, reading: str) -> None:
        total = max(1, self.steps_per_point * len(self.plan.points))
        done = min(self.done, total)
        self.say(Progress(phase=phase, done=done, total=total, fraction=done / total, reading=reading))

    def _sample(self, kind: str, num_bytes: int) -> None:
        self.say(Sample(t_s=round(time.monotonic() - self.began, 3), kind=kind, bytes=num_bytes))
