"""Self-check of a GPU machine: ``python -m worker.probes.cuda.check``.

Every step is tried, whatever the others gave. Ends with status 0 when a GPU can be measured on;
NVML may be missing, which is printed.
"""

import pickle
import sys
import traceback
from collections.abc import Callable, Iterator

import torch

from service.estimator.values.dtypes import DType
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import Allocator, ServeWorkload, TrainWorkload, Workload
from service.probing.plan import Point
from worker.nvml.gpus import list_gpus, read_driver_version
from worker.nvml.library import open_nvml
from worker.nvml.readers import make_reader
from worker.nvml.visible import list_visible_gpus
from worker.probes.artifacts import PICKLE_PROTOCOL
from worker.probes.attention.names import Kernel
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.baseline import BaselineUnavailable
from worker.probes.run.backend import PointResult, ProbeSetup

_CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_hidden_layers": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
_TOO_MANY_TOKENS = 2**17
_POINT = Point(layers=(0, 1, 2, 3), micro_batch_size=2, sequence_length=512)

WriteLine = Callable[[str], object]


def main(backend: CudaBackend | None = None, write_line: WriteLine = print) -> int:
    """Try every step and print its result.

    The status is that of the steps that a measurement needs.
    """
    device = backend or CudaBackend()
    results = [_try_step(name, step, write_line) for name, step in _iter_required_steps(device)]
    for name, step in _iter_optional_steps(device):
        _try_step(name, step, write_line)
    write_line(
        "everything that a measurement needs works"
        if all(results)
        else "a measurement would fail here",
    )
    return 0 if all(results) else 1


def _try_step(name: str, step: Callable[[], str], write_line: WriteLine) -> bool:
    try:
        result = step()
    except Exception as error:  # noqa: BLE001 - what does not work is what is asked for
        write_line(f"FAILED {name}: {type(error).__name__}: {error}")
        traceback.print_exc(file=sys.stderr)
        return False
    write_line(f"ok     {name}: {result}")
    return True


def _iter_required_steps(backend: CudaBackend) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "torch", lambda: f"{torch.__version__}, CUDA {torch.version.cuda}"
    yield "start", lambda: _check_start(backend)
    yield "allocator", lambda: _check_allocator(backend)
    yield "speed", lambda: _check_speed(backend)
    yield (
        "train bf16",
        lambda: _run_workload(
            backend, TrainWorkload(sequence_length=512, precision=POLICIES["bf16"])
        ),
    )
    autocast = TrainWorkload(
        sequence_length=512, precision=POLICIES["amp_bf16"], optimizer="adamw_fused"
    )
    yield "train amp_bf16", lambda: _run_workload(backend, autocast)
    yield (
        "serve",
        lambda: _run_workload(
            backend,
            ServeWorkload(num_sequences=2, prompt_tokens=512, output_tokens=8),
            output_tokens=8,
        ),
    )
    yield "out of memory", lambda: _run_out_of_memory(backend)


def _iter_optional_steps(backend: CudaBackend) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "NVML", _check_nvml
    yield "own process", lambda: _check_own_process(backend)
    expandable = TrainWorkload(
        sequence_length=512, allocator=Allocator.EXPANDABLE_SEGMENTS, precision=POLICIES["bf16"]
    )
    yield "expandable segments", lambda: _run_workload(backend, expandable)
    yield "snapshot", lambda: _check_snapshot(backend)
    yield "environment", lambda: str(backend.environment())


def _check_start(backend: CudaBackend) -> str:
    baseline, properties = backend.start(), backend.driver.facts()
    detail = (
        baseline.reason
        if isinstance(baseline, BaselineUnavailable)
        else f"context {_format_bytes(baseline.context_bytes)}"
    )
    return (
        f"{properties.name} {properties.uuid}, {format_bytes(properties.memory_bytes)}, capability "
        f"{properties.compute_capability}, {detail}"
    )


def _check_allocator(backend: CudaBackend) -> str:
    driver = backend.driver
    before = driver.counts()
    tensor = torch.zeros(2**20, device=driver.device)
    after = driver.counts()
    grown = after.requested - before.requested
    if grown != tensor.nbytes:
        message = f"{tensor.nbytes} bytes were asked for, and the allocator counts {grown}: {after}"
        raise RuntimeError(message)
    del tensor
    driver.release()
    return (
        "counts requested, allocated and reserved bytes; expandable segments "
        f"{driver.has_expandable_segments()}"
    )


def _check_speed(backend: CudaBackend) -> str:
    host = backend.host(DType.BF16)
    flops, copied = host.flops_per_second or 0.0, host.state_bytes_per_second or 0.0
    free = format_bytes(host.available_bytes or 0)
    return f"{flops / 1e12:.0f} TFLOP/s in bf16, {copied / 1e9:.0f} GB/s, {free} free"


def _run_workload(backend: CudaBackend, workload: Workload, *, output_tokens: int = 0) -> str:
    point = Point(
        layers=_POINT.layers,
        micro_batch_size=_POINT.micro_batch_size,
        sequence_length=_POINT.sequence_length,
        output_tokens=output_tokens,
    )
    return _describe_result(backend.run(_make_setup(workload), point, on_step=_ignore_step))


def _run_out_of_memory(backend: CudaBackend) -> str:
    huge = Point(layers=_POINT.layers, micro_batch_size=64, sequence_length=_TOO_MANY_TOKENS)
    workload = TrainWorkload(
        sequence_length=_TOO_MANY_TOKENS, micro_batch_size=64, precision=POLICIES["bf16"]
    )
    result = backend.run(_make_setup(workload), huge, on_step=_ignore_step)
    if result.out_of_memory_at is None:
        message = "a step of 8 million tokens should have run out of memory"
        raise RuntimeError(message)
    return _describe_result(result)


def _make_setup(workload: Workload) -> ProbeSetup:
    return ProbeSetup(config=_CONFIG, workload=workload, kernel=Kernel.FLASH)


def _describe_result(result: PointResult) -> str:
    instant, num_bytes = max(result.reading.live.items(), key=lambda item: item[1])
    steps = ", ".join(f"{seconds * 1e3:.2f}" for seconds in result.step_seconds)
    return (
        f"live {format_bytes(num_bytes)} in {instant}; steps {steps} ms; {' | '.join(result.notes)}"
    )


def _check_nvml() -> str:
    with open_nvml() as api:
        gpus = list_visible_gpus(list_gpus(api), {})
        readings = [
            (gpu.uuid, gpu.name, make_reader(api, gpu).memory(), make_reader(api, gpu).load())
            for gpu in gpus
        ]
        return f"driver {read_driver_version(api)}; {readings}"


def _check_own_process(backend: CudaBackend) -> str:
    baseline = backend.start()
    if isinstance(baseline, BaselineUnavailable):
        raise TypeError(baseline.reason)
    numbers = [baseline.own_pid] if baseline.own_pid is not None else sorted(baseline.candidates)
    identity = (
        f"is number {' or '.join(map(str, numbers))} there"
        if numbers
        else "is not listed, so the GPU's bytes stand in"
    )
    return f"this process {identity}; {format_bytes(baseline.baseline_bytes)} were in use before"


def _format_bytes(num_bytes: int | None) -> str:
    return "unknown" if num_bytes is None else format_bytes(num_bytes)


def _check_snapshot(backend: CudaBackend) -> str:
    backend.driver.record_history()
    torch.zeros(2**20, device=backend.driver.device)
    return (
        f"{format_bytes(len(pickle.dumps(backend.driver.history(), protocol=PICKLE_PROTOCOL)))} as "
        "a pickle"
    )


def _ignore_step(_step: str) -> None:
    """Ignore the step: the result is printed."""


if __name__ == "__main__":
    sys.exit(main())
