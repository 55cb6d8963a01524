"""Throughput of a workload on a GPU.

It selects the pass and the model that are timed.
"""

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from service.estimator.memory.adapter_bases import resolve_base_weights
from service.estimator.memory.lengths import has_packed_mask, resolve_decoder_length
from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.memory.trained import select_trained_parameters
from service.estimator.memory.training_pass import build_loss_pass, get_fixed_fields
from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.passes.config import TrainingPass
from service.estimator.passes.losses import LossPass
from service.estimator.speed.rates import Rates
from service.estimator.speed.serving import estimate_serving_throughput
from service.estimator.speed.training import StepTimer, estimate_training_throughput
from service.estimator.speed.work import ForwardWork, count_forward_work, count_training_work
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.memo import Memo
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Framework,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

if TYPE_CHECKING:
    from service.estimator.model.recorded.architecture import RecordedArchitecture

MAX_WORKS = 256
MAX_TIMERS, MAX_KEPT_PASSES = 128, 512
"""Timers that are kept, and passes of each: full ones have up to 0.6 MB, of which a test holds all
to 96 MB. A timer is made in a tenth of a millisecond, a pass in as much.
"""


class WorkCache:
    """Cache of forward work and of step timers.

    Work is one per model and formats. Its owner keeps it; the oldest go first.
    """

    def __init__(self, capacity: int = MAX_WORKS) -> None:
        """Keep the work of at most ``capacity`` passes, and no more timers."""
        self._works: Memo[ForwardWork] = Memo(capacity)
        self._timers: Memo[StepTimer] = Memo(min(capacity, MAX_TIMERS))

    def list_memos(self) -> dict[str, Memo[Any]]:
        """Return what is kept, by a name of each kind."""
        return {"works": self._works, "timers": self._timers}

    def get_forward_work(
        self, model: Architecture, dtype: DType, attention: Attention, *, length: int
    ) -> ForwardWork:
        """Return the work of a forward pass without gradients.

        Its sequences are of ``length``; it is counted once where the length does not matter.
        """
        length = length if model.chunked else 0
        key = (model.spec, dtype, attention, length)
        return self._works.get(key) or self._works.store(
            key, count_forward_work(model, dtype=dtype, attention=attention, length=length)
        )

    def get_training_work(self, model: Architecture, config: TrainingPass) -> ForwardWork:
        """Return the work of a micro batch, counted once."""
        key = (model.spec, config)
        return self._works.get(key) or self._works.store(key, count_training_work(model, config))

    def get_timer(
        self,
        model: Architecture,
        workload: TrainWorkload,
        device: Device,
        rates: Rates | None = None,
    ) -> StepTimer:
        """Return the timer of a workload's steps on a GPU.

        It is made once for every batch and layout.
        """
        key = (
            model.spec,
            model.quantization,
            get_fixed_fields(workload),
            workload.sequence_length,
            device.name,
            rates,
        )
        timer = self._timers.get(key)
        # A device of the same name may have other rates: whoever describes one names it as he
        # likes.
        if timer is None or (timer.device is not device and timer.device != device):
            timer = replace(
                make_step_timer(model, workload, device, self, rates), max_passes=MAX_KEPT_PASSES
            )
            self._timers.store(key, timer)
        return timer


def find_untimed_reason(model: Architecture, workload: Workload, device: Device) -> str | None:
    """Return why a workload is not timed, if so."""
    if not device.peak_flops:
        return f"no time is told: the rates of GPU {device.name!r} are not known"
    if model.spec.approximate:
        return "no time is told: only the number of parameters is known"
    if _has_own_adapters(workload):
        return "no time is told: the work of litgpt's own adapters is not counted yet"
    if is_recorded(model):
        part = _find_uncounted_part(model)
        return part and f"no time is told: the work of {model.family}'s {part} is not counted yet"
    return None if model.walker is None else _find_uncounted_stack(model, workload)


def _has_own_adapters(workload: Workload) -> bool:
    if not isinstance(workload, TrainWorkload):
        return False
    return workload.framework is Framework.LITGPT and workload.peft is not None


def _find_uncounted_stack(model: Architecture, workload: Workload) -> str | None:
    work = f"no time is told: the work of {model.family}"
    if not isinstance(model, EncoderDecoder):
        return f"{work}, which is no decoder alone, is not counted yet"
    return None if isinstance(workload, TrainWorkload) else f"{work}'s decoding is not counted yet"


def _find_uncounted_part(model: "RecordedArchitecture") -> str | None:
    # Commands about families written by hand load no recordings.
    recordings = import_module("service.estimator.speed.recordings")
    part: str | None = recordings.find_uncounted_part(model)
    return part


def estimate_throughput(  # noqa: PLR0913 - a job, where it runs, and what is known of both
    model: Architecture,
    workload: Workload,
    layout: Layout,
    device: Device,
    estimate: Estimate,
    works: WorkCache,
    *,
    rates: Rates | None = None,
) -> Throughput | None:
    """Return the throughput of a workload.

    ``rates`` are those of one machine, where they are not its GPU's. None where
    ``find_untimed_reason`` has a reason.
    """
    if find_untimed_reason(model, workload, device) is not None:
        return None
    match workload:
        case TrainWorkload():
            workload = resolve_peft_method(model, workload)
            states = _sum_component_bytes(estimate, "optimizer_states", "master_weights")
            timer = works.get_timer(model, workload, device, rates)
            return estimate_training_throughput(timer, workload, layout, state_bytes=states or None)
        case ServeWorkload(weight_dtype=dtype):
            work = works.get_forward_work(
                model, dtype, workload.attention, length=workload.prompt_tokens
            )
            weights = _sum_component_bytes(estimate, "weights")
            cache = estimate.serving.kv_cache_bytes if estimate.serving is not None else 0
            return estimate_serving_throughput(
                model,
                workload,
                layout,
                device,
                work,
                weight_bytes=weights,
                cache_bytes=cache,
                rates=rates,
            )


def make_step_timer(
    model: Architecture,
    workload: TrainWorkload,
    device: Device,
    works: WorkCache,
    rates: Rates | None = None,
) -> StepTimer:
    """Return the timer of a workload's steps.

    Their batch, recomputation and layout do not matter.
    """
    if workload.framework is Framework.LITGPT and workload.lora is not None:
        # Its targets are parts of its own fused layers; transformers' layers are counted.
        workload = replace(workload, lora=replace(workload.lora, targets=None))
    workload = resolve_peft_method(model, workload)
    return StepTimer(
        model=model,
        device=device,
        trained=select_trained_parameters(model, workload),
        work=works.get_training_work(model, _build_counted_pass(model, workload)),
        rates=rates,
    )


def _build_counted_pass(model: Architecture, workload: TrainWorkload) -> TrainingPass:
    """Return the micro batch whose kernels are counted: nothing sharded, nothing recomputed."""
    precision, window = workload.precision, model.spec.sliding_window
    base, is_one_row = resolve_base_weights(model, workload), has_packed_mask(model, workload)
    return TrainingPass(
        param_dtype=base.dtype if precision.autocast or base.upcast else precision.compute_dtype,
        autocast=precision.compute_dtype if precision.autocast else None,
        compute_dtype=precision.compute_dtype,
        trains_all=workload.method is Method.FULL,
        lora=workload.lora,
        # What trains all weights has none that are packed, whatever the checkpoint has.
        scheme=None if workload.method is Method.FULL else base.scheme,
        checkpointing=Checkpointing.NONE,
        attention=workload.attention,
        keeps_logits=False,
        accumulating=False,
        batched=not is_one_row,
        padded=is_one_row,
        window_reached=window is not None and workload.sequence_length >= window,
        length=workload.sequence_length if model.chunked else None,
        decoder_length=resolve_decoder_length(model, workload),
        frozen=workload.frozen,
        converts_outputs=workload.fp32_outputs
        and precision.autocast
        and workload.loss is Loss.FULL_LOGITS,
        kernels=workload.kernels,
        loss=_select_loss_pass(model, workload),
    )


def _select_loss_pass(model: Architecture, workload: TrainWorkload) -> LossPass | None:
    """Return a loss that is the same for every batch.

    None is the model's own. A timer is shared by batches, whoever asks first.
    """
    loss = build_loss_pass(model, workload)
    if loss is None or loss.chunk_tokens or loss.rows or workload.trainer is not Trainer.SUPERVISED:
        return None
    return loss


def _sum_component_bytes(estimate: Estimate, *names: str) -> int:
    return sum(part.bytes for part in estimate.components if part.name in names)
