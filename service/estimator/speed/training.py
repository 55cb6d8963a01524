"""Times of one optimizer step.

They are products, attention and memory traffic at measured rates, and the time that communication
adds.
"""

from dataclasses import dataclass, field

from service.estimator.memory.optimizers.table import get_optimizer
from service.estimator.memory.trained import TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.torchtitan import name_torchtitan_split
from service.estimator.speed.exposure import (
    estimate_update,
    estimate_waiting_s,
    get_bubble_share,
)
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import PassTimes
from service.estimator.speed.rates import Rates
from service.estimator.speed.stretches import BACKWARD_PRODUCTS, time_passes
from service.estimator.speed.work import FLOPS_PER_PRODUCT, ForwardWork
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo, keep_latest
from service.estimator.values.precision import Precision
from service.estimator.values.result import Throughput
from service.estimator.values.workload import Framework, Method, TrainWorkload

SECONDS_PER_HOUR = 3600
MAX_PASSES = 4096
"""Passes that the clock of a search remembers, which asks for hundreds: half a kilobyte each."""
MAX_THROUGHPUTS = 256
"""Steps that one clock remembers: whoever asks again asks for another level of confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of a step, and of host and GPU in it."""

    total_s: float
    host_s: float
    gpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimer:
    """Timer of steps of one model on one GPU.

    The steps differ in layout, batch and recomputation alone: the rest is shared.
    """

    model: Architecture
    device: Device
    trained: TrainedParameters
    work: ForwardWork
    rates: Rates | None = None
    """Rates of this GPU and its host; None is those of its kind."""
    max_passes: int = MAX_PASSES
    _machines: dict[object, Machine | None] = field(default_factory=dict)
    _passes: dict[object, PassTimes] = field(default_factory=dict)
    _throughputs: Memo[Throughput] = field(default_factory=lambda: Memo(MAX_THROUGHPUTS))

    def get_machine(self, workload: TrainWorkload, layout: Layout) -> Machine | None:
        """Return one GPU of a layout; None for unknown rates."""
        key = (layout.gpus_per_node, layout.network_bytes_per_second)
        if key not in self._machines:
            self._machines[key] = Machine.from_device(
                self.device, layout, workload.precision.compute_dtype, self.rates
            )
        return self._machines[key]

    def estimate_step_s(
        self, workload: TrainWorkload, layout: Layout, *, state_bytes: int | None = None
    ) -> float | None:
        """Return the seconds of one optimizer step; None for unknown rates.

        ``state_bytes`` are those of one rank's optimizer states and master copies; None is the
        number of the precision policy.
        """
        times = self.time_step(workload, layout, state_bytes=state_bytes)
        return None if times is None else times.total_s

    def time_step(
        self, workload: TrainWorkload, layout: Layout, *, state_bytes: int | None = None
    ) -> StepTimes | None:
        """Return the times of one optimizer step."""
        machine = self.get_machine(workload, layout)
        if machine is None:
            return None
        if workload.framework is Framework.TORCHTITAN:
            layout = name_torchtitan_split(layout)
        passes = self._get_pass_times(workload, layout, machine)
        micro_batch_s = passes.total + estimate_waiting_s(
            self.model, workload, layout, passes, machine
        )
        bubble_share = get_bubble_share(layout)
        states = (
            _state_bytes(workload, layout, self.trained) if state_bytes is None else state_bytes
        )
        update = estimate_update(workload, layout, self.trained, machine, state_bytes=states)
        steps = workload.gradient_accumulation_steps
        # Trainer asks whether the loss is a number, which waits for the GPU (transformers 5.23
        # trainer.py, ``logging_nan_inf_filter``).
        waits = workload.framework is Framework.TRANSFORMERS
        return StepTimes(
            total_s=micro_batch_s * (steps + bubble_share)
            + update.behind(0.0 if waits else passes.host_lead_s),
            host_s=passes.host_s * steps + update.host_s,
            gpu_s=passes.gpu_s * steps + update.gpu_s,
        )

    def get_throughput(
        self, workload: TrainWorkload, layout: Layout, state_bytes: int | None
    ) -> Throughput | None:
        """Return the throughput of one optimizer step, worked out once."""
        key = (workload, layout, state_bytes)
        known = self._throughputs.get(key)
        if known is not None:
            return known
        throughput = _count_throughput(self, workload, layout, state_bytes)
        return throughput and self._throughputs.store(key, throughput)

    def _get_pass_times(
        self, workload: TrainWorkload, layout: Layout, machine: Machine
    ) -> PassTimes:
        key = (
            workload.framework,
            workload.num_sequences,
            workload.activation_checkpointing,
            workload.selective_every,
            layout.tensor_parallel * layout.context_parallel,
            layout.pipeline_parallel,
            layout.virtual_pipeline_stages,
            layout.pipeline_split,
            layout.schedule,
        )
        times = self._passes.get(key)
        if times is None:
            if len(self._passes) >= self.max_passes:
                self._passes.clear()
            times = self._passes[key] = time_passes(
                self.model, workload, layout, self.trained, self.work, machine
            )
        return times


def estimate_training_throughput(
    timer: StepTimer, workload: TrainWorkload, layout: Layout, *, state_bytes: int | None = None
) -> Throughput | None:
    """Return the throughput of one optimizer step.

    It is None for a GPU of unknown rates.
    """
    return timer.get_throughput(workload, layout, state_bytes)


def _count_throughput(
    timer: StepTimer, workload: TrainWorkload, layout: Layout, state_bytes: int | None
) -> Throughput | None:
    machine = timer.get_machine(workload, layout)
    times = timer.time_step(workload, layout, state_bytes=state_bytes)
    if machine is None or times is None:
        return None
    seconds = times.total_s
    work = timer.work
    tokens = (
        workload.num_sequences
        * workload.sequence_length
        * workload.gradient_accumulation_steps
        * layout.data_parallel
    )
    length = workload.sequence_length
    products = work.count_block_products(1, length, fills_tiles=False) + work.count_head_products(
        1, length
    )
    forward = (FLOPS_PER_PRODUCT * products + work.attention_flops(1, length)) / length
    rate = tokens / seconds
    return Throughput(
        step_time_s=seconds,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=rate / layout.num_gpus,
        mfu=rate
        / layout.num_gpus
        * forward
        * (1 + BACKWARD_PRODUCTS[workload.method is Method.FULL])
        / machine.flops,
        hours_for_tokens=None
        if workload.num_tokens is None
        else workload.num_tokens / rate / SECONDS_PER_HOUR,
        host_time_s=times.host_s,
        gpu_time_s=times.gpu_s,
    )


def _state_bytes(workload: TrainWorkload, layout: Layout, trained: TrainedParameters) -> int:
    states = get_optimizer(workload.optimizer).num_states
    bytes_per_param = _state_bytes_per_param(
        workload.precision, _MOMENTS if states is None else states
    )
    split = (
        layout.tensor_parallel
        * layout.pipeline_parallel
        * (layout.shards if layout.zero_stage else 1)
    )
    return trained.trained * bytes_per_param // split


_MOMENTS = 2
"""States that a precision policy counts: AdamW's."""


@keep_latest(256)
def _state_bytes_per_param(precision: Precision, num_states: int) -> int:
    moments = (num_states - _MOMENTS) * precision.optimizer_dtype.bytes_per_element
    both = precision.param_dtype.bytes_per_element + precision.grad_dtype.bytes_per_element
    return precision.bytes_per_param - both + moments
