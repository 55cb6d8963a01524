"""Memory needs of an optimizer, as data and rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.estimator.memory.optimizers.events import (
    StepEvents,
    StepRecorder,
    record_events,
    record_peak,
)
from service.estimator.memory.optimizers.rules import StateRule, StepRule
from service.estimator.memory.optimizers.tensors import TrainedTensor
from service.estimator.values.optimizers import OptimizerName

STEP_COUNT_BYTES = 4
"""A fused optimizer keeps one fp32 step count per tensor on the device."""

LOOP_TEMPORARIES = 2
"""Tensors of the size of the one that torch.optim's plain AdamW loop is at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """Memory needs of one optimizer.

    ``num_states`` tensors of the weights' shape in the policy's optimizer dtype; None where
    ``states`` looks at each tensor. ``whole_tensors``: its step works on whole matrices, which no
    rank has once they are sharded.
    """

    name: OptimizerName
    num_states: int | None = None
    states: StateRule
    per_element_temporaries: int | None = None
    """Elements of temporaries per stepped element, where the step comes to that."""
    record: StepRecorder | None = None
    """Records the step's tensors one by one; None where ``step`` knows their bytes alone."""
    step: StepRule | None = None
    step_formula: str = "in place"
    shared_bytes: int = 0
    step_counts_on_device: bool = False
    whole_tensors: bool = False
    trainer_states: StateRule | None = None
    """States as HF's Trainer makes them, where these are others."""
    fp32_tables: bool = False
    """Whether embeddings have 32-bit states beside 8-bit ones."""
    over_ranks: "Callable[[int], Optimizer] | None" = None
    """Returns the optimizer of so many ranks, where their number decides its states."""
    unsaved_states: int = 0
    """Last states of a tensor that no checkpoint has."""
    source: str

    @property
    def temporaries_of_one(self) -> int | None:
        """Elements of temporaries per element of a tensor stepped alone.

        None where its shape matters.
        """
        if self.per_element_temporaries is not None:
            return self.per_element_temporaries
        if self.num_states is not None:
            return LOOP_TEMPORARIES
        return 0 if self.record is None and self.step is None else None

    def state_bytes(self, tensors: Sequence[TrainedTensor], width: int) -> int:
        """Return the bytes of a rank's states on the device.

        ``width`` is that of the policy's optimizer dtype.
        """
        return self.shared_bytes + sum(
            sum(self.states(tensor, width).device) * tensor.count for tensor in tensors
        )

    def saved_bytes(self, tensors: Sequence[TrainedTensor], width: int) -> int:
        """Return the bytes of the states in a checkpoint, wherever they live."""
        unsaved = sum(
            sum(self.states(tensor, width).device[-self.unsaved_states :]) * tensor.count
            for tensor in tensors
            if self.unsaved_states
        )
        return self.state_bytes(tensors, width) + self.managed_bytes(tensors, width) - unsaved

    def managed_bytes(self, tensors: Sequence[TrainedTensor], width: int) -> int:
        """Return the bytes of the states that lie in managed memory."""
        return sum(sum(self.states(tensor, width).managed) * tensor.count for tensor in tensors)

    def step_bytes(self, tensors: Sequence[TrainedTensor], width: int) -> int:
        """Return the highest bytes of temporaries of a step."""
        if self.per_element_temporaries is not None:
            elements = sum(tensor.numel * tensor.count for tensor in tensors)
            return self.per_element_temporaries * elements * width
        if self.record is not None:
            return record_peak(self.record, tensors, width)
        return 0 if self.step is None else self.step(tensors, width)

    def list_events(self, tensors: Sequence[TrainedTensor], width: int) -> StepEvents:
        """Return what a step allocates and frees, in order.

        Two halves stand for tensors of which the bytes alone are known. Lists of all tensors are
        the caller's.
        """
        if self.record is not None:
            return record_events(self.record, tensors, width)
        total = self.step_bytes(tensors, width)
        halves = (total // 2, total - total // 2)
        return StepEvents(sizes=halves, order=(0, 1, ~0, ~1)) if total else StepEvents()
