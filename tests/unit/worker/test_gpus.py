"""One worker for each GPU, kept running."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.jobs.contract import ProbeDevice
from tests.fake_nvml import GIB, FakeGpu, FakeNvml
from tests.waiting import eventually
from worker.gpus import (
    EXIT_CANNOT_START,
    SHORTEST_PAUSE_S,
    GpuWorker,
    Supervisor,
    build_environment,
)
from worker.machine import NoGpuError, describe_worker, has_gpu
from worker.nvml.gpus import list_gpus

WORK = """
import os, pathlib, signal, sys, time
place = pathlib.Path(sys.argv[1]) / os.environ["CUDA_VISIBLE_DEVICES"]
def stop(number, frame):
    place.with_suffix(".stopped").write_text(str(number))
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
place.write_text(str(os.getpid()))
while True:
    time.sleep(0.01)
"""


@dataclass
class Clock:
    """A clock that stands still until it is told to move."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def supervisor(tmp_path: Path, clock: Clock, program: str = WORK) -> Supervisor:
    """Return a supervisor of two GPUs whose workers run this program."""
    gpus = list_gpus(FakeNvml(FakeGpu(uuid="GPU-1"), FakeGpu(uuid="GPU-2")))
    command = (sys.executable, "-S", "-c", program, str(tmp_path))
    return Supervisor(
        command=command, environ={}, workers=[GpuWorker(gpu=gpu) for gpu in gpus], clock=clock
    )


def test_a_worker_sees_its_gpu_alone() -> None:
    """By UUID, which no numbering can turn into another one; everything else is inherited."""
    (gpu,) = list_gpus(FakeNvml(FakeGpu(uuid="GPU-1")))

    environment = build_environment(gpu, {"CUDA_VISIBLE_DEVICES": "3", "HOME": "/home/somebody"})

    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["HOME"] == "/home/somebody"


def test_the_dead_are_started_again_and_a_signal_ends_all(tmp_path: Path) -> None:
    """One worker per GPU; one that is killed has a successor after a pause; SIGTERM reaches
    everybody, and then it is over.
    """
    clock = Clock()
    workers = supervisor(tmp_path, clock)
    assert workers.poll_workers()
    eventually(lambda: (tmp_path / "GPU-1").exists() and (tmp_path / "GPU-2").exists())
    first = workers.workers[0].process
    assert first is not None
    first.kill()
    eventually(lambda: workers.poll_workers() and workers.workers[0].process is None)

    clock.now_s = 2 * SHORTEST_PAUSE_S
    (tmp_path / "GPU-1").unlink()
    assert workers.poll_workers()
    eventually((tmp_path / "GPU-1").exists)
    assert workers.workers[0].process is not None
    assert workers.workers[0].process.pid != first.pid

    workers._on_signal(signal.SIGTERM, None)  # noqa: SLF001 - a real one would end the tests
    eventually(lambda: not workers.poll_workers())
    assert {path.name for path in tmp_path.glob("*.stopped")} == {"GPU-1.stopped", "GPU-2.stopped"}


def test_a_worker_that_dies_at_once_is_given_more_and_more_time(tmp_path: Path) -> None:
    """A GPU that has fallen off the bus does not fill the log."""
    clock = Clock()
    workers = supervisor(tmp_path, clock, "raise SystemExit(1)")
    pauses = []
    for _ in range(3):
        clock.now_s = workers.workers[0].due
        eventually(
            lambda: workers.poll_workers() and all(post.process is None for post in workers.workers)
        )
        pauses.append(workers.workers[0].pause_s)

    assert pauses == [2 * SHORTEST_PAUSE_S, 4 * SHORTEST_PAUSE_S, 8 * SHORTEST_PAUSE_S]


def test_a_worker_that_cannot_start_ends_everything(tmp_path: Path) -> None:
    """Without a database no worker will do better; the supervisor's status says so."""
    workers = supervisor(tmp_path, Clock(), f"raise SystemExit({EXIT_CANNOT_START})")
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert workers.run() == EXIT_CANNOT_START
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def test_a_gpu_worker_registers_its_gpu() -> None:
    """Name, catalogue's name, memory, driver, CUDA and capability, of the one GPU that CUDA shows
    it.
    """
    machine = FakeNvml(FakeGpu(uuid="GPU-1"), FakeGpu(uuid="GPU-2"))
    info = describe_worker(
        ProbeDevice.CUDA, nvml=machine, environ={"CUDA_VISIBLE_DEVICES": "GPU-2"}
    )

    assert info.devices == [
        {
            "device": "cuda",
            "name": "NVIDIA H200",
            "sku": "H200-SXM5-141GB",
            "uuid": "GPU-2",
            "memory_bytes": 141 * GIB,
            "compute_capability": "9.0",
            "driver": "580.159.04",
            "cuda": "13.0",
            "mig_parent_uuid": None,
        },
    ]
    assert {"torch", "transformers", "nvidia-ml-py"} <= set(info.versions)


def test_a_mig_instance_is_no_whole_gpu() -> None:
    """It has its own memory, its GPU's UUID and a slice's name; no job for a whole GPU is its."""
    instance = FakeGpu(uuid="MIG-a", name="NVIDIA H200 MIG 1g.18gb", total=17 * GIB)
    machine = FakeNvml(FakeGpu(uuid="GPU-1", instances=[instance]))
    (device,) = describe_worker(ProbeDevice.CUDA, nvml=machine, environ={}).devices

    assert (device["sku"], device["mig_parent_uuid"], device["memory_bytes"]) == (
        "H200-SXM5-141GB-MIG-1g.18gb",
        "GPU-1",
        17 * GIB,
    )


@pytest.mark.parametrize(
    ("machine", "environ", "reason"),
    [
        (FakeNvml(has_driver=False), {}, "there is no NVIDIA driver"),
        (FakeNvml(starts_driver=False), {}, "driver does not answer"),
        (FakeNvml(FakeGpu(uuid="GPU-1")), {"CUDA_VISIBLE_DEVICES": ""}, "CUDA shows it: none"),
        (FakeNvml(FakeGpu(uuid="GPU-1"), FakeGpu(uuid="GPU-2")), {}, "--gpus all"),
        (FakeNvml(FakeGpu(uuid="GPU-1")), {"CUDA_VISIBLE_DEVICES": "GPU-9"}, "no GPU here"),
    ],
)
def test_a_worker_without_its_one_gpu_is_refused(
    machine: FakeNvml, environ: dict[str, str], reason: str
) -> None:
    """No driver, none visible, too many, or one that is not there: each with what to do."""
    with pytest.raises(NoGpuError, match=reason):
        describe_worker(ProbeDevice.CUDA, nvml=machine, environ=environ)


def test_a_gpu_is_found_where_there_is_one() -> None:
    """Device auto takes a GPU that CUDA may use, and the processor everywhere else."""
    assert has_gpu(FakeNvml(FakeGpu(uuid="GPU-1")), {})
    assert not has_gpu(FakeNvml(FakeGpu(uuid="GPU-1")), {"CUDA_VISIBLE_DEVICES": ""})
    assert not has_gpu(FakeNvml(has_driver=False), {})
