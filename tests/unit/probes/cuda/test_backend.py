"""A CUDA probe from the first mark to the session, on a GPU that is played by a processor."""

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import Allocator, Checkpointing, ServeWorkload, TrainWorkload
from service.probing.plan import NUM_ROUNDS, NUM_TIMED_ROUNDS, Point
from service.probing.refusal import Refusal
from tests.fake_cuda import CONTEXT_BYTES, MIB, WORKSPACE_BYTES, FakeDriver
from tests.fake_nvml import FakeGpu, FakeNvml
from tests.unit.probes.cuda.builders import (
    POINT,
    RULER,
    SERVING,
    TRAINING,
    StartingGpu,
    backend_on,
    run,
    silent,
    subject,
)
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.driver import GpuEvent
from worker.probes.run.backend import PointResult
from worker.probes.run.extrapolate import compute_instant_peaks
from worker.probes.run.session import run_point


@pytest.fixture(scope="module")
def trained() -> PointResult:
    """Return a training that many tests look at."""
    return run(TRAINING)


@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
def test_training_is_divided_as_on_a_processor(checkpointing: Checkpointing) -> None:
    """The stretches of the last step are those of a recorded CPU run, name by name: one
    extrapolation reads both.
    """
    workload = TrainWorkload(
        sequence_length=8, micro_batch_size=2, activation_checkpointing=checkpointing
    )
    session = run(workload)
    recorded = run_point(subject(workload), POINT, on_step=silent)

    assert set(session.reading.live) == set(recorded.reading.live)
    assert session.reserved is not None
    assert set(session.reserved) == set(session.reading.live)


def test_only_steady_steps_are_timed(trained: PointResult) -> None:
    """The two cold steps and the one that is looked at closely do not count."""
    session = trained

    assert len(session.step_seconds) == NUM_TIMED_ROUNDS
    assert len(set(session.step_seconds)) == 1
    assert session.step_seconds[0] > 0


def test_workspaces_are_counted_apart(trained: PointResult) -> None:
    """Live bytes leave out what cuBLAS holds, which CUDA's own count of allocated bytes has."""
    reading = trained.reading
    peak = max(reading.live, key=lambda name: reading.live[name])

    assert reading.allocator[peak] - reading.live[peak] == WORKSPACE_BYTES + 512
    assert any(f"workspaces hold {format_bytes(WORKSPACE_BYTES)}" in note for note in trained.notes)


def test_the_weights_are_seen_before_the_first_step(trained: PointResult) -> None:
    """At the mark of loading nothing has run, so there are no workspaces to leave out."""
    assert trained.reading.load_bytes == MIB


def test_serving_runs_its_rounds() -> None:
    """Prefill and decode are looked at, decodes are timed, and the time of a prefill is told."""
    session = run(
        SERVING, Point(layers=(0,), micro_batch_size=2, sequence_length=8, output_tokens=4)
    )

    assert list(compute_instant_peaks(session.reading.live)) == ["prefill", "decode"]
    assert len(session.step_seconds) == NUM_TIMED_ROUNDS
    assert any(note.startswith("prefill took") for note in session.notes)
    assert len(session.prefill_seconds) == NUM_TIMED_ROUNDS


@pytest.mark.parametrize("output_tokens", [0, 1, 2])
def test_a_prefill_ends_with_whatever_comes_next(output_tokens: int) -> None:
    """A run of one or two tokens has not all the marks of a long one; its prefills are timed."""
    session = run(
        SERVING,
        Point(layers=(0,), micro_batch_size=2, sequence_length=8, output_tokens=output_tokens),
    )

    assert len(session.prefill_seconds) == NUM_TIMED_ROUNDS


def test_a_prefill_alone_has_no_decode_to_time() -> None:
    """Without output tokens there is no step time."""
    session = run(ServeWorkload(num_sequences=2, prompt_tokens=8), POINT)

    assert session.step_seconds == ()
    assert list(compute_instant_peaks(session.reading.live)) == ["prefill"]


def test_the_context_is_seen_from_a_container(trained: PointResult) -> None:
    """The process is the one that came with CUDA's start, under whatever number; its bytes are
    NVML's.
    """
    assert trained.context_bytes == CONTEXT_BYTES
    assert trained.device_bytes == CONTEXT_BYTES
    assert trained.transferable
    assert {sample.kind for sample in trained.samples} == {"process_used", "device_used"}


def test_a_hidden_process_is_the_difference_to_before() -> None:
    """Where NVML lists no process, the GPU's bytes less those that were there stand in, and it is
    said.
    """
    session = backend_on(FakeGpu(uuid="GPU-1111", used=7 * MIB, processes=None)).run(
        subject(TRAINING), POINT, on_step=silent
    )

    assert session.device_bytes is None
    assert session.device_total_used_bytes == CONTEXT_BYTES
    assert session.context_bytes == CONTEXT_BYTES
    assert any("NVML does not show this process" in note for note in session.notes)


def test_without_nvml_allocations_are_measured_all_the_same() -> None:
    """The reason is told, and what the allocator counts is there."""
    backend = CudaBackend(driver=FakeDriver(), nvml=FakeNvml(has_driver=False), environ={})
    session = backend.run(subject(TRAINING), POINT, on_step=silent)

    assert session.device_bytes is None
    assert session.reading.live
    assert any("NVML tells nothing of this GPU" in note for note in session.notes)


def test_others_on_the_gpu_are_told() -> None:
    """A neighbour that stays as it is disturbs nothing, but everybody should know."""
    gpu = FakeGpu(uuid="GPU-1111", used=9 * MIB, processes={77: 9 * MIB})
    session = backend_on(gpu).run(subject(TRAINING), POINT, on_step=silent)

    assert any("others use this GPU: process 77" in note for note in session.notes)
    assert session.transferable
    assert session.device_bytes == CONTEXT_BYTES


def test_others_who_come_and_go_spoil_what_is_shared() -> None:
    """The GPU's own bytes are nobody's any more, this process's stay its own; nothing is learnt
    from such a run.
    """
    gpu = FakeGpu(uuid="GPU-1111", used=9 * MIB, processes={77: 9 * MIB})

    class Disturbed(StartingGpu):
        def record_event(self) -> GpuEvent:
            gpu.processes = {4242: CONTEXT_BYTES, 78: (self._ticks + 1) * MIB}
            return super().record_event()

    session = backend_on(gpu, Disturbed(gpu)).run(subject(TRAINING), POINT, on_step=silent)

    assert not session.transferable
    assert session.device_total_used_bytes is None
    assert session.device_bytes == CONTEXT_BYTES
    assert any("this changed while it was measured" in note for note in session.notes)


def test_out_of_memory_is_a_result() -> None:
    """The bytes at which it happened, where, and CUDA's words; the next point begins with
    everything given back.
    """
    gpu = FakeGpu(uuid="GPU-1111")
    driver = StartingGpu(gpu, fails_at=3)
    backend = backend_on(gpu, driver)
    session = backend.run(subject(TRAINING), POINT, on_step=silent)

    assert session.out_of_memory_at is not None
    assert list(session.reading.live.values()) == [session.out_of_memory_at - 512]
    assert any("Tried to allocate 2.26 GiB" in note for note in session.notes)
    assert driver.calls[-3:] == ["release", "set_allocator default", "forget_peaks"]
    assert backend.run(subject(TRAINING), POINT, on_step=silent).out_of_memory_at is None


def test_the_allocator_is_set_as_asked() -> None:
    """Expandable segments are turned on before the model is made, and off again for the next
    point.
    """
    gpu = FakeGpu(uuid="GPU-1111")
    driver = StartingGpu(gpu)
    backend = backend_on(gpu, driver)
    expandable = ServeWorkload(
        num_sequences=1, prompt_tokens=8, allocator=Allocator.EXPANDABLE_SEGMENTS
    )
    backend.run(subject(expandable), POINT, on_step=silent)
    backend.run(subject(SERVING), POINT, on_step=silent)

    settings = [call for call in driver.calls if call.startswith("set_allocator")]
    assert settings[:2] == ["set_allocator expandable_segments"] * 2
    assert settings[2:] == ["set_allocator default"] * 2
    assert backend.environment()["allocator"] == "default"


def test_one_who_starts_at_the_same_time_is_not_taken_for_this_process() -> None:
    """Nor this process for him: which of both it is stays open, and with it what is whose."""
    gpu = FakeGpu(uuid="GPU-1111", processes={})

    class Crowded(StartingGpu):
        def start(self) -> None:
            super().start()
            assert gpu.processes is not None
            gpu.processes[4243] = MIB

    session = backend_on(gpu, Crowded(gpu)).run(subject(SERVING), POINT, on_step=silent)

    assert session.transferable
    assert (session.context_bytes, session.device_bytes, session.device_total_used_bytes) == (
        None,
        None,
        None,
    )
    assert any("processes 4242, 4243 came to this GPU together" in note for note in session.notes)
    assert not any("others use this GPU" in note for note in session.notes)


def test_the_kernel_that_cuda_chose_is_of_the_environment() -> None:
    """Another kernel has another curve; torch chooses flash on the processor that plays the GPU."""
    backend = backend_on(FakeGpu(uuid="GPU-1111"))
    backend.run(subject(TRAINING), POINT, on_step=silent)

    assert backend.environment()["attention_kernel"] == "flash"


def test_a_host_without_a_gpu_is_refused() -> None:
    """Torch's own words, and what is needed."""
    backend = CudaBackend(
        driver=FakeDriver(starts=False), nvml=FakeNvml(has_driver=False), environ={}
    )

    with pytest.raises(Refusal, match="No CUDA GPUs are available"):
        backend.host(DType.BF16)


def test_a_plan_is_told_what_the_gpu_can_bear() -> None:
    """Free bytes are CUDA's, the number of steps is what a run takes, and nothing of the
    measurement is left.
    """
    driver = FakeDriver()
    limits = CudaBackend(
        driver=driver, nvml=FakeNvml(has_driver=False), environ={}, benchmark_size=RULER
    ).host(DType.FP32)

    assert limits.available_bytes == 100 * 1024**3
    assert limits.num_steps == NUM_ROUNDS
    assert limits.reserves
    assert limits.flops_per_second is not None
    assert limits.flops_per_second > 0
    assert driver.calls[-1] == "release"


def test_the_environment_names_what_the_numbers_depend_on() -> None:
    """GPU, driver, CUDA and the allocator; a MIG instance by its profile."""
    instance = FakeGpu(uuid="MIG-aaa1", name="NVIDIA H200 MIG 1g.18gb")
    machine = FakeNvml(FakeGpu(uuid="GPU-1111", instances=[instance]))
    backend = CudaBackend(
        driver=StartingGpu(instance), nvml=machine, environ={"CUDA_VISIBLE_DEVICES": "MIG-aaa1"}
    )

    assert backend.environment() == {
        "gpu": "NVIDIA H200",
        "gpu_memory_bytes": 139 * 1024**3,
        "compute_capability": "9.0",
        "driver": "580.159.04",
        "cuda": "13.0",
        "mig": "NVIDIA H200 MIG 1g.18gb",
        "allocator": "default",
        "attention_kernel": None,
    }
