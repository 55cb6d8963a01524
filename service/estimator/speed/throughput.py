"""Time beside memory: which pass of which model is timed on which GPU."""

from typing import TypeVar

from service.estimator.memory.states import trained_parameters
from service.estimator.memory.training_pass import fixed_words
from service.estimator.model.architecture import Architecture
from service.estimator.speed.serving import serving_throughput
from service.estimator.speed.training import StepClock, training_throughput
from service.estimator.speed.work import ForwardWork, forward_work
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import Attention, Lora, ServeWorkload, TrainWorkload, Workload

V = TypeVar("V")

MAX_WORKS = 256


class WorkCache:
    """Work of forward passes, one per model and formats, and clocks of steps that their owner keeps; the oldest go first."""

    def __init__(self, capacity: int = MAX_WORKS) -> None:
        """Keep the work of at most ``capacity`` passes, and as many clocks."""
        self._capacity = capacity
        self._works: dict[object, ForwardWork] = {}
        self._clocks: dict[object, StepClock] = {}

    def of(
        self,
        model: Architecture,
        dtype: DType,
        autocast: DType | None,
        attention: Attention,
        lora: Lora | None = None,
        *,
        length: int,
    ) -> ForwardWork:
        """Return the work of a forward pass over sequences of ``length``, counted once where the length does not matter."""
        length = length if model.chunked else 0
        key = (model.spec, dtype, autocast, attention, lora, length)
        found = self._works.get(key)
        if found is None:
            found = forward_work(model, dtype=dtype, autocast=autocast, attention=attention, lora=lora, length=length)
            _keep(self._works, key, found, self._capacity)
        return found

    def clock(self, model: Architecture, workload: TrainWorkload, device: Device) -> StepClock:
        """Return the clock of a workload's steps on a GPU, made once for every batch and layout."""
        key = (model.spec, model.quantization, fixed_words(workload), workload.sequence_length, device.name)
        found = self._clocks.get(key)
        # A device of the same name may have other rates: whoever describes one names it as he likes.
        if found is None or (found.device is not device and found.device != device):
            found = step_clock(model, workload, device, self)
            _keep(self._clocks, key, found, self._capacity)
        return found


def _keep(kept: dict[object, V], key: object, value: V, most: int) -> None:
    """Keep a value, and drop the oldest ones beyond so many."""
    for oldest in list(kept)[: len(kept) - most + 1]:
        kept.pop(oldest, None)
    kept[key] = value


def untimed(model: Architecture, device: Device) -> str | None:
    """Return why nothing is timed, if nothing is."""
    if not device.peak_flops:
        return f"no time is told: the rates of GPU {device.name!r} are not known"
    if model.spec.approximate:
        return "no time is told: only the number of parameters is known"
    if model.walker is not None:
        return f"no time is told: the work of {model.family}, which is no decoder alone, is not counted yet"
    return None


def throughput_of(
    model: Architecture, workload: Workload, layout: Layout, device: Device, estimate: Estimate, works: WorkCache
) -> Throughput | None:
    """Return how long a step takes; None where ``untimed`` says why."""
    if untimed(model, device) is not None:
        return None
    match workload:
        case TrainWorkload():
            states = _bytes_of(estimate, "optimizer_states", "master_weights")
            clock = works.clock(model, workload, device)
            return training_throughput(clock, workload, layout, state_bytes=states or None)
        case ServeWorkload(weight_dtype=dtype):
            work = works.of(model, dtype, None, _kernel(workload), length=workload.prompt_tokens)
            weights = _bytes_of(estimate, "weights")
            cache = estimate.serving.kv_cache_bytes if estimate.serving is not None else 0
            return serving_throughput(model, workload, layout, device, work, weight_bytes=weights, cache_bytes=cache)


def step_clock(model: Architecture, workload: TrainWorkload, device: Device, works: WorkCache) -> StepClock:
    """Return the clock of a workload's steps, whatever their batch, recomputation and layout."""
    precision = workload.precision
    autocast = precision.compute_dtype if precision.autocast else None
    dtype = precision.param_dtype if precision.autocast else precision.compute_dtype
    work = works.of(model, dtype, autocast, _kernel(workload), workload.lora, length=workload.sequence_length)
    return StepClock(model=model, device=device, trained=trained_parameters(model, workload), work=work)


def _kernel(workload: Workload) -> Attention:
    return workload.attention if workload.attention in {Attention.EAGER, Attention.MATH} else Attention.FLASH


def _bytes_of(estimate: Estimate, *names: str) -> int:
    return sum(part.bytes for part in estimate.components if part.name in names)
