"""Weights, gradient buffers and optimizer states of one stage.

(core/distributed, core/optimizer/distrib_optimizer.py.)
"""

from dataclasses import dataclass

from service.estimator.backends.megatron.parameters import StageParameters
from service.estimator.backends.megatron.shape import count_expert_replicas
from service.estimator.values.layout import Layout
from service.estimator.values.precision import Precision
from service.estimator.values.units import ceil_div

STATES_PER_PARAMETER = {"adamw": 2, "adamw_fused": 2, "sgd": 0, "sgd_momentum": 1}
"""Tensors per parameter of the optimizers that Megatron-LM builds itself: fused Adam and SGD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStates:
    """Bytes that live across steps, and those that the step makes."""

    weights: int
    gradients: int
    master_weights: int
    optimizer_states: int
    step_gradients: int

    @property
    def resident(self) -> int:
        """Bytes between steps: gradient buffers are never freed."""
        return self.weights + self.gradients + self.master_weights + self.optimizer_states


def compute_stage_states(
    parameters: StageParameters, precision: Precision, layout: Layout, optimizer: str
) -> StageStates:
    """Compute the states of a stage.

    The distributed optimizer spreads masters and states over data and context ranks. Experts are
    spread over the ranks that hold the same ones. Without fp32 gradient buffers the step makes fp32
    gradients.
    """
    sharded = layout.zero_stage > 0
    shards = layout.data_parallel * layout.context_parallel if sharded else 1
    expert_shards = count_expert_replicas(layout) if sharded else 1
    num_owned = ceil_div(parameters.dense, shards) + ceil_div(parameters.experts, expert_shards)
    master = precision.master_dtype.bytes_per_element if precision.master_dtype is not None else 0
    main = precision.main_grad_bytes_per_param
    makes_fp32_gradients = (
        master
        and precision.grad_dtype.bytes_per_element < master
        and not precision.main_grad_persistent
    )
    return StageStates(
        weights=parameters.total * precision.param_dtype.bytes_per_element,
        gradients=parameters.total
        * (precision.grad_dtype.bytes_per_element + main * precision.main_grad_persistent),
        master_weights=num_owned * master,
        optimizer_states=num_owned
        * STATES_PER_PARAMETER[optimizer]
        * precision.optimizer_dtype.bytes_per_element,
        step_gradients=num_owned * master if makes_fp32_gradients else 0,
    )
