"""Device ``trace``: the real model code on fake tensors, no weights, no arithmetic, every allocation written down."""

from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Allocator, TrainWorkload
from service.jobs.contract import ProbeDevice
from service.jobs.host import Host
from service.probing.plan import Point
from worker.probes.run import host
from worker.probes.run.backend import Keep, Session, Subject, Tell
from worker.probes.run.session import highest, reading_of, steady_stretches
from worker.probes.trace.caching import replay
from worker.probes.trace.holdings import at_peak
from worker.probes.trace.ledger import stretches
from worker.probes.trace.origins import TellingLedger
from worker.probes.trace.run import run_traced
from worker.probes.trace.snapshot import snapshot_of
from worker.probes.trace.speed import operators_per_second


class TraceBackend:
    """Runs points on fake tensors: whatever their size, on whatever machine."""

    device = ProbeDevice.TRACE

    def host(self, dtype: DType) -> Host:
        """Return how fast operators are traced; nothing else bounds a run in which no dtype has values."""
        del dtype
        return Host(operators_per_second=operators_per_second())

    def run(self, subject: Subject, point: Point, *, tell: Tell, keep: Keep | None = None) -> Session:
        """Trace one point; raises Refusal."""
        traced = run_traced(subject, point, tell=tell, ledger=None if keep is None else TellingLedger())
        tell("replaying the caching allocator")
        workload = subject.workload
        kind = workload.allocator if isinstance(workload, TrainWorkload) else Allocator.DEFAULT
        if keep is not None:
            keep(snapshot_of(traced, kind))
        replayed = replay(traced.ledger, kind)
        reserved = steady_stretches(stretches(traced.ledger, replayed.reserved))
        return Session(
            reading=reading_of(point, stretches(traced.ledger, traced.ledger.live())),
            step_seconds=(),
            resident_bytes=host.peak_resident_bytes(),
            at_peak=at_peak(traced),
            reserved=highest(reserved, lambda stretch: stretch.live_peak),
        )

    def environment(self) -> dict[str, str | int | None]:
        """Return what stands where a device would be."""
        return {"trace": "fake tensors, CUDA's kernels", "allocator": "CUDACachingAllocator replayed"}
