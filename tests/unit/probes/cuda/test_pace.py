"""A measurement whose time is the GPU's has a run beside it that waits for the host."""

from dataclasses import dataclass

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import FailureKind, ProbeDevice, ProbeResult
from service.jobs.host import Host
from service.probing.plan import NUM_ROUNDS, Point
from service.probing.refusal import Refusal
from tests.fake_nvml import FakeGpu, FakeNvml
from tests.unit.probes.builders import LLAMA, request
from tests.unit.probes.cuda.builders import StartingGpu
from worker.probes.cuda.backend import CudaBackend
from worker.probes.measure import measure
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup, SaveSnapshot

CONFIG = dict(LLAMA) | {
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 250,
}
LARGE = TrainWorkload(sequence_length=256, micro_batch_size=8, precision=POLICIES["bf16"])
ASKED, PACE = (8, 256), (1, 128)


class ShortGpu(StartingGpu):
    """A GPU whose memory may run out from some run on."""

    def run_short(self) -> None:
        """Have none for the next event."""
        self.fails_at = self._ticks + 1


@dataclass(slots=True, kw_only=True)
class SlowGpu(CudaBackend):
    """A fake GPU that takes longer for 2,048 tokens than any host, and not for 128.

    ``paces_short``: memory runs out in the run of few tokens; ``refuses`` that run alone.
    """

    paces_short: bool = False
    refuses: bool = False

    def host(self, dtype: DType) -> Host:
        """Return what it would show."""
        del dtype
        return Host(
            available_bytes=2**40,
            flops_per_second=7.5e10,
            state_bytes_per_second=1e12,
            reserves=True,
            num_steps=NUM_ROUNDS,
        )

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Run a point, with or without memory."""
        if self.refuses and point.sequence_length == PACE[1]:
            raise Refusal(FailureKind.UNSUPPORTED, "not so few tokens")
        if self.paces_short and point.sequence_length == PACE[1]:
            assert isinstance(self.driver, ShortGpu)
            self.driver.run_short()
        return CudaBackend.run(self, setup, point, on_step=on_step, save_snapshot=save_snapshot)


def run_probe(*, paces_short: bool = False, refuses: bool = False) -> ProbeResult:
    """Return what a probe of a large job measures."""
    gpu = FakeGpu(uuid="GPU-1111")
    backend = SlowGpu(
        driver=ShortGpu(gpu),
        nvml=FakeNvml(gpu),
        environ={},
        paces_short=paces_short,
        refuses=refuses,
    )
    asked = request(LARGE, CONFIG, device=ProbeDevice.CUDA)
    return measure(asked, lambda _line: None, backend=backend)


def list_sizes(result: ProbeResult) -> list[tuple[int, int]]:
    """Return batch and length of each run."""
    return [(run.micro_batch_size, run.sequence_length) for run in result.probes]


@pytest.fixture(scope="module")
def paced() -> ProbeResult:
    """Return a measurement with its run of few tokens."""
    return run_probe()


def test_the_run_of_few_tokens_is_kept_beside_the_answer(paced: ProbeResult) -> None:
    """The answer is the asked run's alone; the other has its own layers, bytes and time."""
    assert list_sizes(paced) == [ASKED, PACE]
    asked, pace = paced.probes

    assert not paced.extrapolated
    assert paced.step_time_s == asked.step_time_s
    assert paced.peaks.reserved_bytes == asked.reserved_bytes
    assert paced.peaks.allocated_bytes == max(
        instant.allocated_bytes for instant in asked.instants if instant.name != "load"
    )
    assert pace.layers == asked.layers == (0,)
    assert pace.step_time_s is not None


@pytest.mark.parametrize("disturbance", ["paces_short", "refuses"])
def test_a_result_stands_without_it(paced: ProbeResult, disturbance: str) -> None:
    """Memory that runs out in the run of few tokens, or a refusal, leaves out that run alone."""
    alone = run_probe(**{disturbance: True})

    assert list_sizes(alone) == [ASKED]
    assert not alone.peaks.out_of_memory
    assert alone.step_time_s == paced.step_time_s
