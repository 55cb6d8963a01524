"""Device ``trace``: the real model code on fake tensors.

There are no weights and no arithmetic, and every allocation is recorded.
"""

from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Allocator, TrainWorkload
from service.jobs.contract import ProbeDevice
from service.jobs.host import Host
from service.probing.plan import Point
from worker.probes.run import host
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup, SaveSnapshot
from worker.probes.run.session import build_reading, compute_highest, select_steady_stretches
from worker.probes.trace.caching import replay
from worker.probes.trace.holdings import summarize_peak
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.origins import OriginLedger
from worker.probes.trace.run import run_traced
from worker.probes.trace.snapshot import build_snapshot
from worker.probes.trace.speed import measure_operators_per_second


class TraceBackend:
    """Backend that runs points on fake tensors.

    Any size runs on any machine.
    """

    device = ProbeDevice.TRACE

    def host(self, dtype: DType) -> Host:
        """Return the speed at which operators are traced.

        Nothing else bounds a run in which no dtype has values.
        """
        del dtype
        return Host(operators_per_second=measure_operators_per_second())

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Trace one point; raises Refusal."""
        traced = run_traced(
            setup, point, on_step=on_step, ledger=None if save_snapshot is None else OriginLedger()
        )
        on_step("replaying the caching allocator")
        workload = setup.workload
        kind = workload.allocator if isinstance(workload, TrainWorkload) else Allocator.DEFAULT
        if save_snapshot is not None:
            save_snapshot(build_snapshot(traced, kind))
        replayed = replay(traced.ledger, kind)
        reserved = select_steady_stretches(compute_stretches(traced.ledger, replayed.reserved))
        return PointResult(
            reading=build_reading(point, compute_stretches(traced.ledger, traced.ledger.live())),
            step_seconds=(),
            resident_bytes=host.read_peak_resident_bytes(),
            at_peak=summarize_peak(traced),
            reserved=compute_highest(reserved, lambda stretch: stretch.live_peak),
        )

    def environment(self) -> dict[str, str | int | None]:
        """Return the environment of a run without a device."""
        return {
            "trace": "fake tensors, CUDA's kernels",
            "allocator": "CUDACachingAllocator replayed",
        }
