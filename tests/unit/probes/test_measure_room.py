"""What a plan must leave room for on a device whose allocator reserves more than tensors take."""

from dataclasses import dataclass

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import (
    FailureKind,
    ModelSource,
    Planned,
    PlannedRun,
    ProbeDevice,
    ProbeLine,
    ProbeRequest,
    make_task,
)
from service.jobs.host import Host
from service.probing.plan import Point
from service.probing.refusal import Refusal
from tests.tiny_models import tiny_config
from worker.probes.measure import measure
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup, SaveSnapshot

CONFIG = tiny_config("llama") | {"num_hidden_layers": 1}
TRAIN = TrainWorkload(sequence_length=256, precision=POLICIES["bf16"])


@dataclass(slots=True, kw_only=True)
class PlanningGpu:
    """A GPU with so many free bytes on which nothing is ever run."""

    available_bytes: int
    device: ProbeDevice = ProbeDevice.CUDA

    def host(self, dtype: DType) -> Host:
        """Return what is free, with time for anything."""
        del dtype
        return Host(available_bytes=self.available_bytes, flops_per_second=1e18, reserves=True)

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Stop where the first run would begin."""
        del setup, point, on_step, save_snapshot
        raise Refusal(FailureKind.PROBE_ERROR, "planned")

    def environment(self) -> dict[str, str | int | None]:
        """Return nothing."""
        return {}


def planned(available_bytes: int) -> tuple[PlannedRun, ...]:
    """Return what would be run with so many bytes free."""
    lines: list[ProbeLine] = []
    request = ProbeRequest(
        model=ModelSource(architecture={}, hf_config=CONFIG),
        task=make_task(TRAIN),
        layout=Layout(),
        device=ProbeDevice.CUDA,
        deadline_s=600.0,
    )
    with pytest.raises(Refusal, match="planned"):
        measure(request, lines.append, backend=PlanningGpu(available_bytes=available_bytes))
    plan = lines[0]
    assert isinstance(plan, Planned)
    return plan.runs


def test_the_most_that_may_be_reserved_has_to_be_free() -> None:
    """The upper end of the replay's interval decides to the byte: with one less, fewer tokens are
    run.
    """
    host = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
    high = estimate(
        architecture_from_config(CONFIG),
        TRAIN,
        layout=Layout(),
        device=host,
        detail=Detail.REPLAYED,
    ).reserved_interval.high

    assert [run.sequence_length for run in planned(high)] == [256]
    assert max(run.sequence_length for run in planned(high - 1)) < 256
