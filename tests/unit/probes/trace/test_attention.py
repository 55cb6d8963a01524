"""Which operator attention becomes, and what it is given."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import use_kernel_dropout
from worker.probes.attention.fake_attention import make_attention
from worker.probes.trace.recorder import record_storages

FLASH, EFFICIENT = (
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_efficient_attention.default",
)
HALF = torch.bfloat16


def operators(
    *,
    asked: Attention = Attention.SDPA,
    dtype: torch.dtype = HALF,
    groups: int = 4,
    width: int = 64,
    mask: torch.dtype | None = None,
    causal_rows: int | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the operators that made something, with the shape of their first output."""
    with FakeTensorMode(), record_storages() as recorder:
        rows = causal_rows or 16
        query = torch.empty(2, 4, rows, width, dtype=dtype)
        key = torch.empty(2, groups, 16, width, dtype=dtype)
        bias = None if mask is None else torch.empty(2, 1, rows, 16, dtype=mask)
        recorder.ledger.allocations.clear()
        make_attention(asked)(
            query,
            key,
            key,
            attn_mask=bias,
            is_causal=causal_rows is not None,
            enable_gqa=groups < 4,
        )
    return {birth.operator: birth.shape for birth in reversed(recorder.ledger.allocations)}


def test_half_precision_runs_flash_with_its_groups() -> None:
    """No key is repeated: the only thing made is the output, with its statistics."""
    assert set(operators(groups=1)) == {FLASH}


def test_flash_pads_heads_to_a_multiple_of_eight() -> None:
    """Heads of 60 are run as heads of 64."""
    assert operators(width=60)[FLASH] == (2, 4, 16, 64)


@pytest.mark.parametrize(
    "shape",
    [
        {"dtype": torch.float32},
        {"mask": HALF},
        {"width": 264},
        {"causal_rows": 8},
        {"mask": torch.bool},
    ],
)
def test_what_flash_does_not_take_runs_the_memory_efficient_kernel(
    shape: dict[str, object],
) -> None:
    """Full precision, a mask, heads wider than 256 and a causal rectangle (sdp_utils.cpp)."""
    made = operators(**shape)  # type: ignore[arg-type]  # cases of keyword arguments

    assert EFFICIENT in made
    assert FLASH not in made


def test_a_boolean_mask_becomes_a_bias() -> None:
    """It is made anew in the query's dtype: two bytes an element."""
    assert operators(mask=torch.bool)["aten.where.self"] == (2, 1, 16, 16)


def test_groups_that_no_fused_kernel_takes_run_the_math_kernel() -> None:
    """Full precision without a mask: the scores are made."""
    made = operators(dtype=torch.float32, groups=1)

    assert made["aten.bmm.default"] == (8, 16, 16)


def test_a_kernel_that_is_asked_for_is_run() -> None:
    """The memory-efficient kernel repeats what is grouped, which it does not know."""
    assert EFFICIENT in operators(asked=Attention.EFFICIENT, groups=1)
    assert "aten.bmm.default" in operators(asked=Attention.MATH)


def test_the_math_kernel_drops_as_cudas_does() -> None:
    """ATen's own dropout keeps a mask of one byte per score, where a CPU's keeps one of four."""
    with FakeTensorMode(), record_storages() as recorder, use_kernel_dropout():
        query = torch.empty(2, 4, 16, 64, dtype=HALF, requires_grad=True)
        make_attention(Attention.MATH)(query, query, query, dropout_p=0.1)
        births = [birth for birth in recorder.ledger.allocations if "dropout" in birth.operator]

    assert [(birth.shape, birth.num_bytes) for birth in births] == [
        ((2, 4, 16, 16), 4 * 2048),
        ((2, 4, 16, 16), 2048),
    ]


def test_autocast_stays_outside_of_the_math_kernel() -> None:
    """It lowers what comes in; the kernel's own products are in fp32, as they are without it."""
    with FakeTensorMode(), record_storages() as recorder:
        query = torch.empty(2, 4, 16, 64)
        recorder.ledger.allocations.clear()
        with torch.autocast("cpu", dtype=HALF):
            make_attention(Attention.MATH)(query, query, query)
        products = [birth.dtype for birth in recorder.ledger.allocations if "bmm" in birth.operator]

    assert products == ["float32", "float32"]
