"""Says what works here: ``python -m worker.probes.cuda.check``. Every step is tried, whatever the others said.

Ends with status 0 when a GPU can be measured on; NVML may be missing, and is told.
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
from worker.nvml.gpus import driver_version, list_gpus
from worker.nvml.library import opened
from worker.nvml.readers import reader_of
from worker.nvml.visible import visible_gpus
from worker.probes.artifacts import PICKLE_PROTOCOL
from worker.probes.attention.names import Kernel
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.baseline import NoGround
from worker.probes.run.backend import Session, Subject

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

Say = Callable[[str], object]


def main(backend: CudaBackend | None = None, say: Say = print) -> int:
    """Try everything and say how it went; the status is that of the steps that a measurement needs."""
    device = backend or CudaBackend()
    needed = [_tried(name, step, say) for name, step in _needed(device)]
    for name, step in _welcome(device):
        _tried(name, step, say)
    say("everything that a measurement needs works" if all(needed) else "a measurement would fail here")
    return 0 if all(needed) else 1


def _tried(name: str, step: Callable[[], str], say: Say) -> bool:
    try:
        told = step()
    except Exception as error:  # noqa: BLE001 - what does not work is what is asked for
        say(f"FAILED {name}: {type(error).__name__}: {error}")
        traceback.print_exc(file=sys.stderr)
        return False
    say(f"ok     {name}: {told}")
    return True


def _needed(backend: CudaBackend) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "torch", lambda: f"{torch.__version__}, CUDA {torch.version.cuda}"
    yield "start", lambda: _start(backend)
    yield "allocator", lambda: _allocator(backend)
    yield "speed", lambda: _speed(backend)
    yield "train bf16", lambda: _run(backend, TrainWorkload(sequence_length=512, precision=POLICIES["bf16"]))
    autocast = TrainWorkload(sequence_length=512, precision=POLICIES["amp_bf16"], optimizer="adamw_fused")
    yield "train amp_bf16", lambda: _run(backend, autocast)
    yield "serve", lambda: _run(backend, ServeWorkload(num_sequences=2, prompt_tokens=512, output_tokens=8), output_tokens=8)
    yield "out of memory", lambda: _run_out(backend)


def _welcome(backend: CudaBackend) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "NVML", _nvml
    yield "own process", lambda: _own_process(backend)
    expandable = TrainWorkload(sequence_length=512, allocator=Allocator.EXPANDABLE_SEGMENTS, precision=POLICIES["bf16"])
    yield "expandable segments", lambda: _run(backend, expandable)
    yield "snapshot", lambda: _snapshot(backend)
    yield "environment", lambda: str(backend.environment())


def _start(backend: CudaBackend) -> str:
    ground, facts = backend.start(), backend.driver.facts()
    beside = ground.reason if isinstance(ground, NoGround) else f"context {_bytes(ground.context_bytes)}"
    return f"{facts.name} {facts.uuid}, {format_bytes(facts.memory_bytes)}, capability {facts.compute_capability}, {beside}"


def _allocator(backend: CudaBackend) -> str:
    driver = backend.driver
    before = driver.counts()
    kept = torch.zeros(2**20, device=driver.device)
    after = driver.counts()
    grown = after.requested - before.requested
    if grown != kept.nbytes:
        message = f"{kept.nbytes} bytes were asked for, and the allocator counts {grown}: {after}"
        raise RuntimeError(message)
    del kept
    driver.release()
    return f"counts requested, allocated and reserved bytes; expandable segments {driver.has_expandable_segments()}"


def _speed(backend: CudaBackend) -> str:
    host = backend.host(DType.BF16)
    flops, copied = host.flops_per_second or 0.0, host.state_bytes_per_second or 0.0
    free = format_bytes(host.available_bytes or 0)
    return f"{flops / 1e12:.0f} TFLOP/s in bf16, {copied / 1e9:.0f} GB/s, {free} free"


def _run(backend: CudaBackend, workload: Workload, *, output_tokens: int = 0) -> str:
    point = Point(
        layers=_POINT.layers,
        micro_batch_size=_POINT.micro_batch_size,
        sequence_length=_POINT.sequence_length,
        output_tokens=output_tokens,
    )
    return _told(backend.run(_subject(workload), point, tell=_silent))


def _run_out(backend: CudaBackend) -> str:
    huge = Point(layers=_POINT.layers, micro_batch_size=64, sequence_length=_TOO_MANY_TOKENS)
    workload = TrainWorkload(sequence_length=_TOO_MANY_TOKENS, micro_batch_size=64, precision=POLICIES["bf16"])
    session = backend.run(_subject(workload), huge, tell=_silent)
    if session.out_of_memory_at is None:
        message = "a step of 8 million tokens should have run out of memory"
        raise RuntimeError(message)
    return _told(session)


def _subject(workload: Workload) -> Subject:
    return Subject(config=_CONFIG, workload=workload, kernel=Kernel.FLASH)


def _told(session: Session) -> str:
    instant, num_bytes = max(session.reading.live.items(), key=lambda item: item[1])
    steps = ", ".join(f"{seconds * 1e3:.2f}" for seconds in session.step_seconds)
    return f"live {format_bytes(num_bytes)} in {instant}; steps {steps} ms; {' | '.join(session.notes)}"


def _nvml() -> str:
    with opened() as api:
        gpus = visible_gpus(list_gpus(api), {})
        readings = [(gpu.uuid, gpu.name, reader_of(api, gpu).memory(), reader_of(api, gpu).load()) for gpu in gpus]
        return f"driver {driver_version(api)}; {readings}"


def _own_process(backend: CudaBackend) -> str:
    ground = backend.start()
    if isinstance(ground, NoGround):
        raise TypeError(ground.reason)
    numbers = [ground.own_pid] if ground.own_pid is not None else sorted(ground.candidates)
    seen = f"is number {' or '.join(map(str, numbers))} there" if numbers else "is not listed, so the GPU's bytes stand in"
    return f"this process {seen}; {format_bytes(ground.baseline_bytes)} were in use before"


def _bytes(num_bytes: int | None) -> str:
    return "unknown" if num_bytes is None else format_bytes(num_bytes)


def _snapshot(backend: CudaBackend) -> str:
    backend.driver.record_history()
    torch.zeros(2**20, device=backend.driver.device)
    return f"{format_bytes(len(pickle.dumps(backend.driver.history(), protocol=PICKLE_PROTOCOL)))} as a pickle"


def _silent(_step: str) -> None:
    """Tell nothing: the outcome is told."""


if __name__ == "__main__":
    sys.exit(main())
