"""Time beside memory: which pass of which model is timed on which GPU."""

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.dtypes import DType
from service.estimator.layout import Layout
from service.estimator.result import Estimate, Throughput
from service.estimator.speed.serving import serving_throughput
from service.estimator.speed.training import training_throughput
from service.estimator.speed.work import ForwardWork, forward_work
from service.estimator.states import trained_parameters
from service.estimator.workload import Attention, Lora, ServeWorkload, TrainWorkload, Workload

MAX_WORKS = 256


class WorkCache:
    """The work of forward passes that its owner keeps, one per model and number formats; the oldest is dropped first."""

    def __init__(self, capacity: int = MAX_WORKS) -> None:
        """Keep the work of at most ``capacity`` passes."""
        self._capacity = capacity
        self._works: dict[object, ForwardWork] = {}

    def of(
        self, model: Architecture, dtype: DType, autocast: DType | None, attention: Attention, lora: Lora | None = None
    ) -> ForwardWork:
        """Return the work of a forward pass, counted once."""
        key = (model.spec, dtype, autocast, attention, lora)
        found = self._works.get(key)
        if found is None:
            found = forward_work(model, dtype=dtype, autocast=autocast, attention=attention, lora=lora)
            for oldest in list(self._works)[: len(self._works) - self._capacity + 1]:
                self._works.pop(oldest, None)
            self._works[key] = found
        return found


def throughput_of(
    model: Architecture, workload: Workload, layout: Layout, device: Device, estimate: Estimate, works: WorkCache
) -> Throughput | None:
    """Return how long a step takes; None where nobody told the GPU's rates, or the model is only a number of parameters.

    The work of a pass is counted per token of one stack, so that there is none yet for what another walk goes over.
    """
    if not device.peak_flops or model.spec.approximate or model.walker is not None:
        return None
    kernel = workload.attention if workload.attention in {Attention.EAGER, Attention.MATH} else Attention.FLASH
    match workload:
        case TrainWorkload(precision=precision):
            autocast = precision.compute_dtype if precision.autocast else None
            dtype = precision.param_dtype if precision.autocast else precision.compute_dtype
            work = works.of(model, dtype, autocast, kernel, workload.lora)
            return training_throughput(model, workload, layout, device, trained_parameters(model, workload), work)
        case ServeWorkload(weight_dtype=dtype):
            work = works.of(model, dtype, None, kernel)
            weights = sum(part.bytes for part in estimate.components if part.name == "weights")
            cache = estimate.serving.kv_cache_bytes if estimate.serving is not None else 0
            return serving_throughput(model, workload, layout, device, work, weight_bytes=weights, cache_bytes=cache)
