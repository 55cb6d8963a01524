"""What each optimizer keeps per trained parameter and what it needs for a moment at its step.

States and temporaries are those of ``torch.optim`` 2.13, counted on traces: foreach makes one temporary of the size of all
second moments (``_foreach_sqrt``), the plain loop two of the largest tensor, the fused kernel none, but it keeps its step
counts on the GPU.
"""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.errors import NotModelledError

STEP_COUNT_BYTES = 4
"""A fused optimizer keeps one fp32 step count per tensor on the device."""
KNOWN = (
    "adamw",
    "adamw_fused",
    "adamw_loop",
    "adamw_8bit",
    "paged_adamw_8bit",
    "adafactor",
    "sgd",
    "sgd_momentum",
    "lion",
    "lion_8bit",
    "muon",
    "galore_adamw",
    "apollo",
    "adamw_4bit",
)
"""Every optimizer that the HTTP contract names."""


class StepTemporaries(StrEnum):
    """What the step allocates for a moment."""

    NONE = "none"
    ONE_OF_ALL = "one tensor list of the size of all local states of one kind"
    TWO_OF_LARGEST = "two tensors of the size of the largest local parameter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """``num_states`` tensors of the parameter's shape in the policy's optimizer dtype."""

    name: str
    num_states: int
    temporaries: StepTemporaries
    step_counts_on_device: bool = False


MODELLED = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer(name="adamw", num_states=2, temporaries=StepTemporaries.ONE_OF_ALL),
        Optimizer(name="adamw_fused", num_states=2, temporaries=StepTemporaries.NONE, step_counts_on_device=True),
        Optimizer(name="adamw_loop", num_states=2, temporaries=StepTemporaries.TWO_OF_LARGEST),
        Optimizer(name="sgd", num_states=0, temporaries=StepTemporaries.NONE),
        Optimizer(name="sgd_momentum", num_states=1, temporaries=StepTemporaries.NONE),
    )
}


def optimizer_named(name: str) -> Optimizer:
    """Return the optimizer; raise NotModelledError for one that has no term yet."""
    if name not in MODELLED:
        raise NotModelledError(f"optimizer {name!r}", field="workload.optimizer", modelled=tuple(MODELLED))
    return MODELLED[name]
