"""Probes of a tiny llama on a GPU that is played."""

from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.probing.plan import Point
from tests.fake_cuda import CONTEXT_BYTES, FakeDriver
from tests.fake_nvml import FakeGpu, FakeNvml
from worker.probes.attention.names import Kernel
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.speed import BenchmarkSize
from worker.probes.run.backend import PointResult, ProbeSetup

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 101,
    "max_position_embeddings": 64,
}
RULER = BenchmarkSize(matrix_size=16, num_copied=16)
POINT = Point(layers=(0,), micro_batch_size=2, sequence_length=8)
TRAINING = TrainWorkload(sequence_length=8, micro_batch_size=2, precision=POLICIES["fp32"])
SERVING = ServeWorkload(num_sequences=2, prompt_tokens=8, output_tokens=4)


class StartingGpu(FakeDriver):
    """A driver whose start takes memory of the fake GPU, under another number than this
    process's.
    """

    def __init__(self, gpu: FakeGpu, **words: object) -> None:
        """Start on this GPU."""
        super().__init__(**words)  # type: ignore[arg-type]  # the fake's own words
        self._gpu = gpu

    def start(self) -> None:
        """Take what a context takes."""
        super().start()
        self._gpu.used += CONTEXT_BYTES
        if self._gpu.processes is not None:
            self._gpu.processes[4242] = CONTEXT_BYTES


def subject(workload: Workload) -> ProbeSetup:
    """Return the tiny llama under this workload."""
    return ProbeSetup(config=CONFIG, workload=workload, kernel=Kernel.FLASH)


def silent(_step: str) -> None:
    """Tell nothing."""


def backend_on(
    gpu: FakeGpu, driver: FakeDriver | None = None, environ: dict[str, str] | None = None
) -> CudaBackend:
    """Return a backend whose only GPU is this one."""
    return CudaBackend(
        driver=driver or StartingGpu(gpu),
        nvml=FakeNvml(gpu),
        environ=environ or {},
        benchmark_size=RULER,
    )


def run(workload: Workload, point: Point = POINT) -> PointResult:
    """Run a workload on a fresh fake GPU."""
    return backend_on(FakeGpu(uuid="GPU-1111")).run(subject(workload), point, on_step=silent)
