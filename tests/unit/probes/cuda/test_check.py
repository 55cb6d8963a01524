"""The self-check tells what works, step by step."""

from tests.fake_cuda import FakeDriver
from tests.fake_nvml import FakeNvml
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.check import main


def test_without_a_gpu_every_step_says_why() -> None:
    """Nothing is hidden behind the first failure, and the status is no success."""
    said: list[str] = []
    backend = CudaBackend(
        driver=FakeDriver(starts=False), nvml=FakeNvml(has_driver=False), environ={}
    )
    status = main(backend, said.append)

    assert status == 1
    assert said[0].startswith("ok     torch")
    assert any(
        line.startswith("FAILED start") and "No CUDA GPUs are available" in line for line in said
    )
    assert any("FAILED serve" in line for line in said)
    assert said[-1] == "a measurement would fail here"
