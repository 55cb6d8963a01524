"""Sentences on what decides a step's time, and on what would help."""

from service.estimator.values.result import Bound, Throughput
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

_MS = 1000


def describe_bound(throughput: Throughput, workload: Workload) -> str:
    """Return which side decides a step's time, with both sides' times."""
    host, gpu = map(_format_seconds, (throughput.host_time_s, throughput.gpu_time_s))
    if throughput.bound is Bound.HOST:
        return (
            f"the host decides: it launches the kernels of a step in {host}, which the GPU runs in "
            f"{gpu}; {_describe_help(workload)}"
        )
    if not throughput.host_time_s:
        return f"the GPU decides: it works {gpu} a step, which is replayed as one CUDA graph"
    return f"the GPU decides: it works {gpu} a step, and the host launches its kernels in {host}"


def _format_seconds(seconds: float) -> str:
    """Return a time in the unit that fits it."""
    milliseconds = seconds * _MS
    return f"{milliseconds:.3g} ms" if round(milliseconds) < _MS else f"{seconds:.1f} s"


def _describe_help(workload: Workload) -> str:
    match workload:
        case ServeWorkload(engine=Engine.TRANSFORMERS):
            return "more sequences at once cost it nothing, an engine with CUDA graphs launches one"
        case ServeWorkload(output_tokens=0):
            return "more tokens at once cost it nothing"
        case ServeWorkload():
            return "without enforce_eager the engine replays a CUDA graph"
        case TrainWorkload(compile=True):
            return "a larger micro batch costs it nothing"
        case TrainWorkload(activation_checkpointing=Checkpointing.FULL):
            return (
                "a larger micro batch costs it nothing, no recomputation or torch.compile launch "
                "fewer"
            )
        case TrainWorkload():
            return "a larger micro batch costs it nothing, torch.compile launches fewer"
