"""Measurements on device ``trace`` whose runs are kept."""

from dataclasses import replace

import msgspec

from service.base.typed import get_decoder
from service.estimator.values.dtypes import DType
from service.jobs.contract import ProbeDevice, ProbeRequest, ProbeResult
from service.jobs.host import Host
from service.probing.plan import Point
from service.probing.reference import make_tracing_host
from tests.traces.store import POINTS
from worker.probes.measure import measure
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup, SaveSnapshot
from worker.probes.trace.backend import TraceBackend

_TRACE = TraceBackend()


class KeptTraces:
    """Backend of device ``trace`` that runs what is not kept."""

    device = ProbeDevice.TRACE

    def host(self, dtype: DType) -> Host:
        """Return one of a known speed, so that every run plans the same points."""
        del dtype
        return make_tracing_host()

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Return what is kept of a point, or trace it."""
        assert save_snapshot is None, "a snapshot is no part of what is kept"

        def trace() -> str:
            result = _TRACE.run(setup, point, on_step=on_step)
            # The bytes of the process are those of all tests before this one.
            return _encode(replace(result, resident_bytes=None))

        kept: PointResult = get_decoder(PointResult).decode(POINTS.resolve((setup, point), trace))
        return kept

    def environment(self) -> dict[str, str | int | None]:
        """Return the environment of a trace."""
        return _TRACE.environment()


def _encode(result: PointResult) -> str:
    # In the order of the step, which results are shown in.
    return msgspec.json.encode(result).decode()


def measure_kept(request: ProbeRequest) -> ProbeResult:
    """Measure on device ``trace``, with runs that are kept; raises Refusal."""
    return measure(request, lambda _line: None, backend=KeptTraces())
