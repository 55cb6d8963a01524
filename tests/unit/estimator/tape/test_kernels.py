"""Attention as models write it: what a product copies before it reads it, and in which dtype a mask
is added.
"""

import pytest

from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops import attention_kernels as kernels
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.values.dtypes import DType
from tests.unit.estimator.tape.builders import a_leaf, a_tape, an_input, live_bytes

NUM_HEADS = 4
WIDTH = 8
"""Elements of a head."""


def _heads(num_kv_heads: int, *, several: bool) -> Heads:
    return Heads(
        num_heads=NUM_HEADS,
        num_kv_heads=num_kv_heads,
        rows=sizes.per_token(NUM_HEADS),
        scores=sizes.per_score(NUM_HEADS),
        per_sequence=not several,
        token_major_queries=several,
        token_major_keys=several,
    )


def _kept_per_token(num_kv_heads: int, *, several: bool) -> int:
    """Return what eager attention keeps for backward beside its output, once nobody else has names
    for its parts.
    """
    tape = a_tape()
    query = a_leaf(tape, sizes.per_token(NUM_HEADS * WIDTH))
    key, value = (a_leaf(tape, sizes.per_token(num_kv_heads * WIDTH)) for _ in range(2))
    mixed, weights = kernels.run_eager_attention(
        tape, query, key, value, _heads(num_kv_heads, several=several), upcast=True
    )
    tape.free(query, key, value, weights)
    return live_bytes(tape)[3] - mixed.numel[3] * mixed.dtype.bytes_per_element


@pytest.mark.parametrize(
    ("num_kv_heads", "several", "heads_kept"),
    [
        (4, False, 4 + 4 + 4),
        (4, True, 4 + 4 + 4),
        (2, False, 4 + 4 + 4),
        (1, True, 4 + 4 + 4),
        (1, False, 4 + 1 + 1),
    ],
)
def test_an_only_head_is_copied_for_several_sequences_alone(
    num_kv_heads: int, heads_kept: int, *, several: bool
) -> None:
    """A product of one sequence reads the only key and value head as a view; every other repetition
    is a copy.
    """
    assert (
        _kept_per_token(num_kv_heads, several=several)
        == heads_kept * WIDTH * DType.BF16.bytes_per_element
    )


def _highest_per_score(query: DType, autocast: DType | None) -> int:
    tape = a_tape(autocast=autocast)
    parts: list[Value] = [
        an_input(tape, sizes.per_token(NUM_HEADS * WIDTH), query) for _ in range(3)
    ]
    kernels.run_eager_attention(
        tape, parts[0], parts[1], parts[2], _heads(NUM_HEADS, several=False), upcast=True
    )
    return (
        max(point.bytes[5] for point in tape.ledger.find_peak_candidates()[Section.FORWARD])
        // NUM_HEADS
    )


def test_scores_are_fp32_from_the_mask_on_under_autocast() -> None:
    """16-bit scores stay beside their fp32 copy and its softmax; an fp32 mask leaves none of
    them.
    """
    assert _highest_per_score(DType.BF16, None) == 2 + 4 + 4
    assert _highest_per_score(DType.FP32, DType.BF16) == 4 + 4
