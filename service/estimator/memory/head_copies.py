"""Heads that are trained in full beside adapters.

PEFT 0.21 copies them (``utils/other.py``, ``ModulesToSaveWrapper``): the frozen ones stay beside
the copies, which keep the number format of the weights where adapters are cast to fp32
(``cast_adapter_dtype``).
"""

from dataclasses import dataclass

from service.estimator.memory.adapter_bases import resolve_base_weights
from service.estimator.memory.optimizers.tensors import (
    TrainedTensor,
    count_row_elements,
    list_tensors,
    split_rows,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.task_head import get_saved_names, list_saved_modules
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Method, TrainWorkload

_LATE = frozenset({Head.TOKEN_CLASSIFICATION, Head.QUESTION_ANSWERING})
"""Heads that PEFT names to itself after it has put adapters on them (``peft_model.py``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHead:
    """Copied tensors of a head, in a number format of their own."""

    weights: tuple[tuple[Weight, int], ...] = ()
    dtype: DType = DType.FP32

    @property
    def numel(self) -> int:
        """Elements of all of them."""
        return sum(weight.numel * count for weight, count in self.weights)

    @property
    def num_bytes(self) -> int:
        """Bytes of all of them, and of their gradients."""
        return self.numel * self.dtype.bytes_per_element

    def count_local_bytes(self, shards: int, *, by_rows: bool) -> int:
        """Return those bytes on the rank with the most of them."""
        if not by_rows:
            return ceil_div(self.num_bytes, shards)
        return count_row_elements(self.weights, shards) * self.dtype.bytes_per_element

    def list_local_tensors(self, shards: int, *, by_rows: bool) -> tuple[TrainedTensor, ...]:
        """Return the tensors to step, which FSDP2 splits by rows."""
        tensors = list_tensors(self.weights)
        return split_rows(tensors, shards) if by_rows else tensors


NO_HEAD = SavedHead()
"""What is copied of a language model's head."""


def copy_head(model: Architecture, workload: TrainWorkload) -> SavedHead:
    """Return the copy that is trained, in the format of the weights."""
    saved = get_saved_names(model.task)
    if not saved:
        return NO_HEAD
    return SavedHead(
        weights=tuple(pair for pair in model.counts.tensors if pair[0].name in saved),
        dtype=resolve_base_weights(model, workload).dtype,
    )


def list_head_warnings(model: Architecture, workload: TrainWorkload) -> tuple[str, ...]:
    """Return what a run has to say to train its head."""
    saved = get_saved_names(model.task)
    if workload.lora is None or model.task is None or not saved:
        return ()
    modules = list_saved_modules(model.task)
    warnings = []
    is_late = model.task.kind in _LATE or modules[-1].startswith("pre_")
    if workload.lora.targets is None and is_late:
        warnings.append(
            f"PEFT 0.21 fails where adapters are on all linear layers of this model, unless its "
            f"LoraConfig says modules_to_save={modules}"
        )
    if workload.method is Method.QLORA and any(name.endswith(".bias") for name in saved):
        warnings.append(
            f"transformers would quantise the head, which nothing trains then: say "
            f"llm_int8_skip_modules={modules}, and it is counted so"
        )
    return tuple(warnings)
