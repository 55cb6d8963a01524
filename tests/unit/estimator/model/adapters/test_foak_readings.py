"""Steps with foak's kernels, held against IBM's readings of an A100.

foundation-model-stack/fms-acceleration ``scripts/benchmarks/refs/a100_80gb.csv`` and
``a100_80gb_granite.csv``, ``torch_mem`` columns of rank 0, in bytes.
"""

from functools import cache

import pytest

from service.estimator.cache import PlanCache
from tests.accuracy.published.asking import answer_of
from tests.accuracy.published.rows import PublishedCase, published_cases

WORKSPACES_AND_BATCH = 32 * 2**20
"""At most what readings have beside the answer: two workspaces of cuBLAS and a batch's indices."""


@cache
def get_case(name: str) -> PublishedCase:
    """Return a row of the benchmark."""
    return next(case for case in published_cases() if case.id == name)


def get_error(name: str) -> float:
    """Return the bytes by which a peak is told too high."""
    case = get_case(name)
    peak = next(one.low for one in case.readings if one.quantity == "max_memory_allocated")
    return answer_of(case, PlanCache()).allocated_bytes - peak


@pytest.mark.parametrize("name", ["fms_base_015", "fms_base_039"])
def test_weights_are_sharded_beside_foaks_kernels(name: str) -> None:
    """FSDP1's units are those of the model, of all weights and of adapters."""
    assert -WORKSPACES_AND_BATCH < get_error(name) <= 0


@pytest.mark.parametrize("name", ["fms_base_104", "fms_base_106"])
def test_adapters_over_gptq_are_foaks(name: str) -> None:
    """Each product dequantises its weight, with nothing of it kept for backward."""
    assert -WORKSPACES_AND_BATCH < get_error(name) <= 0


@pytest.mark.parametrize("name", ["fms_granite_008", "fms_granite_014"])
def test_logits_of_4_45_are_fp32_alone(name: str) -> None:
    """The model's own cast lets go of 16-bit logits, of torch's loss and of foak's."""
    assert -WORKSPACES_AND_BATCH < get_error(name) <= 0
