"""On a real GPU: what the probes read is what torch and NVML say. Skipped where there is none."""

from dataclasses import replace

import pytest
import torch

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Allocator, ServeWorkload, TrainWorkload, Workload
from service.probing.plan import NUM_TIMED_ROUNDS, Point
from service.probing.stack import get_layer_stack, keep_layers
from worker.probes.attention.names import Kernel
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.check import main
from worker.probes.run.backend import PointResult, ProbeSetup
from worker.probes.run.extrapolate import LOAD, extrapolate_layers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

BOUNDLESS = Device(name="any", capacity_bytes=2**60, usable_bytes=2**60)
TRAINING = TrainWorkload(sequence_length=256, micro_batch_size=2, precision=POLICIES["bf16"])
SERVING = ServeWorkload(num_sequences=4, prompt_tokens=256, output_tokens=16)
MODEL = resolve_model("qwen3-0.6b")


@pytest.fixture(scope="module")
def backend() -> CudaBackend:
    """Return one backend: CUDA starts once in a process."""
    return CudaBackend()


def run(
    backend: CudaBackend, workload: Workload, num_layers: int, *, output_tokens: int = 0
) -> PointResult:
    """Run some layers of a small model."""
    batch = (
        workload.micro_batch_size if isinstance(workload, TrainWorkload) else workload.num_sequences
    )
    subject = ProbeSetup(config=load_config(MODEL), workload=workload, kernel=Kernel.FLASH)
    point = Point(
        layers=tuple(range(num_layers)),
        micro_batch_size=batch,
        sequence_length=256,
        output_tokens=output_tokens,
    )
    return backend.run(subject, point, on_step=lambda _step: None)


@pytest.mark.parametrize("allocator", list(Allocator))
@pytest.mark.parametrize("workload", [TRAINING, SERVING], ids=["train", "serve"])
def test_live_bytes_are_what_is_predicted(
    backend: CudaBackend, workload: Workload, allocator: Allocator
) -> None:
    """Two layers of a real model, to a hundredth: what remains is scratch of kernels."""
    asked = replace(workload, allocator=allocator)
    output = asked.output_tokens if isinstance(asked, ServeWorkload) else 0
    session = run(backend, asked, 2, output_tokens=output)
    model = keep_layers(load_architecture(MODEL), (0, 1))
    predicted = estimate(model, asked, layout=Layout(), device=BOUNDLESS).allocated_bytes

    assert max(session.reading.live.values()) == pytest.approx(predicted, rel=0.01)
    assert len(session.step_seconds) == NUM_TIMED_ROUNDS
    assert session.reserved is not None
    assert max(session.reserved.values()) >= max(session.reading.allocator.values())
    assert not any("expandable segments were" in note for note in session.notes)


def test_few_layers_tell_of_many(backend: CudaBackend) -> None:
    """Two and three layers extrapolate to eight within a thousandth."""
    kinds = get_layer_stack(load_architecture(MODEL)).kinds[:8]
    readings = [run(backend, TRAINING, depth).reading for depth in (2, 3)]
    whole = run(backend, TRAINING, 8).reading
    answer = extrapolate_layers(readings, range(8), kinds)

    peak = max(num_bytes for name, num_bytes in answer.instants.items() if name != LOAD)
    assert peak == pytest.approx(max(whole.live.values()), rel=0.001)


def test_nothing_is_left_behind(backend: CudaBackend) -> None:
    """After a point the allocator holds nothing."""
    run(backend, TRAINING, 1)

    assert torch.cuda.memory_allocated() == 0
    assert torch.cuda.memory_reserved() == 0


def test_running_out_of_memory_is_a_result(backend: CudaBackend) -> None:
    """The next point runs as if nothing had been."""
    subject = ProbeSetup(config=load_config(MODEL), workload=TRAINING, kernel=Kernel.FLASH)
    huge = Point(layers=(0, 1), micro_batch_size=2**12, sequence_length=2**12)
    session = backend.run(subject, huge, on_step=lambda _step: None)

    assert session.out_of_memory_at is not None
    assert run(backend, TRAINING, 1).out_of_memory_at is None


def test_a_host_says_what_it_can_bear(backend: CudaBackend) -> None:
    """Free memory and speed are those of a GPU."""
    host = backend.host(DType.BF16)

    assert host.available_bytes is not None
    assert host.available_bytes > 2**30
    assert host.flops_per_second is not None
    assert host.flops_per_second > 1e12


def test_the_check_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that a measurement needs works here."""
    status = main()

    assert status == 0, capsys.readouterr().out
