"""Part of an engine's memory that a step's tensors take."""

from dataclasses import replace

from service.estimator.backends.paged_pool.memory_parts import (
    MemoryPart,
    make_exact_part,
)
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.model.families.registry import list_model_types
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.result import Basis


def make_activation_part(rank: Rank, size: int, formula: str, source: str) -> MemoryPart:
    """Return a step's tensors on a rank.

    Of a recorded type that no family is written for, nobody read the engine's code: the layer is as
    wide as its linear layers say. Half of it may be gone where kernels are fused, and half as much
    again be there, as where a rule stands in for the code of other engines (``share_engine.py``).
    """
    part = make_exact_part("activations", size, formula, source)
    if not is_recorded(rank.model) or rank.model.family in list_model_types():
        return part
    return replace(
        part,
        low=size // 2,
        high=size * 3 // 2,
        basis=Basis.FORMULA,
        formula=f"{formula}, by the sizes of recorded linear layers",
    )
