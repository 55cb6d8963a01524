"""Attention as models write it: what a product copies before it reads it, and in which dtype a mask
is added.
"""

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.config import is_batch_dependent
from service.estimator.tape import sizes
from service.estimator.tape.event_log import LoggingTape
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops import attention_kernels as kernels
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_masks import RANDOM_STATE_BYTES, make_causal_mask
from service.estimator.tape.ops.images import embed_patches
from service.estimator.tape.pass_shape import PassShape
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention
from tests.tiny_models import tiny_config
from tests.unit.estimator.tape.builders import (
    a_leaf,
    a_tape,
    a_weight,
    an_input,
    live_bytes,
)

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
        tape,
        (query, key, value),
        _heads(num_kv_heads, several=several),
        mask=DType.BF16,
        upcast=True,
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
    heads = _heads(NUM_HEADS, several=False)
    kernels.run_eager_attention(
        tape, (parts[0], parts[1], parts[2]), heads, mask=query, upcast=True
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


def _log(autocast: DType | None = None) -> LoggingTape:
    return LoggingTape(Section.FORWARD, Mode.RECORDING, autocast=autocast)


def _list_requests(tape: LoggingTape) -> list[tuple[str, sizes.Size]]:
    """Return what the tape takes and frees, in order, with its bytes."""
    events = tape.events()
    return [
        ("takes" if event >= 0 else "frees", events.sizes[events.kinds[max(event, ~event)]])
        for event in events.order
    ]


def test_a_random_state_is_no_part_of_flash_attentions_sums() -> None:
    """A mebibyte of sums stays in the pool of small blocks."""
    tape = _log()
    query, key, value = (a_leaf(tape, sizes.per_token(NUM_HEADS * WIDTH)) for _ in range(3))

    kernels.run_flash_attention(tape, query, key, value, _heads(NUM_HEADS, several=False))

    made = [size for verb, size in _list_requests(tape) if verb == "takes"]
    assert sizes.scale(sizes.per_token(NUM_HEADS), DType.FP32.bytes_per_element) in made
    assert sizes.constant(RANDOM_STATE_BYTES) in made


def test_scores_are_held_until_their_softmax_is_cast_back() -> None:
    """``softmax(scores, dtype=float32).to(query.dtype)`` is one line, and its result has their
    name.
    """
    tape = _log()
    query, key, value = (a_leaf(tape, sizes.per_token(NUM_HEADS * WIDTH)) for _ in range(3))

    heads = _heads(NUM_HEADS, several=False)
    kernels.run_eager_attention(tape, (query, key, value), heads, mask=DType.BF16, upcast=True)

    scores, upcast = (sizes.per_score(NUM_HEADS * width) for width in (2, 4))
    of_scores = [part for part in _list_requests(tape) if part[1] in {scores, upcast}]
    softmax_and_later = of_scores[[size for _, size in of_scores].index(upcast) + 1 :]
    assert softmax_and_later == [
        ("takes", upcast),  # the probabilities, which backward reads
        ("frees", upcast),
        ("takes", scores),
        ("frees", scores),
    ]


@pytest.mark.parametrize(("several", "copies"), [(False, 0), (True, 1)])
def test_the_gradient_of_several_sequences_is_stacked_anew(copies: int, *, several: bool) -> None:
    """It lies token after token, and one product of all sequences reads it head after head."""
    tape = _log()
    query, key, value = (a_leaf(tape, sizes.per_token(NUM_HEADS * WIDTH)) for _ in range(3))
    heads = _heads(NUM_HEADS, several=several)
    mixed, _ = kernels.run_eager_attention(
        tape, (query, key, value), heads, mask=DType.BF16, upcast=True
    )
    before = len(_list_requests(tape))

    assert mixed.node is not None
    mixed.node.grad = tape.scratch(mixed.numel, mixed.dtype)
    tape.run_backward()

    output = sizes.per_token(NUM_HEADS * WIDTH * DType.BF16.bytes_per_element)
    made = [size for verb, size in _list_requests(tape)[before:] if verb == "takes"]
    incoming, gradients = 1, 3
    assert made.count(output) == incoming + gradients + copies


def test_autocast_casts_a_convolutions_weight_before_its_pixels() -> None:
    """Compilers evaluate the last argument of a call first."""
    tape = _log(autocast=DType.BF16)
    pixels = an_input(tape, sizes.per_token(3), DType.FP32)

    embed_patches(tape, pixels, a_weight(40, DType.FP32), None, sizes.per_token(WIDTH))

    made = [size for verb, size in _list_requests(tape) if verb == "takes"]
    assert made[1:3] == [sizes.constant(40 * 2), sizes.per_token(3 * 2)]


@pytest.mark.parametrize(
    ("has_window", "padded", "dtype", "requests"),
    [
        (False, False, DType.FP32, "+b +f -b"),
        (True, False, None, "+b +b -b +b +b -b -b"),
        (False, True, None, "+b +b -b +p +e -p -b"),
        (False, True, DType.FP32, "+b +b -b +p +e -p -b +f -e"),
        (True, True, None, "+b +b -b +b +b -b -b +b -b +p +e -p -b"),
    ],
)
def test_masks_are_put_together_from_booleans(
    requests: str, *, has_window: bool, padded: bool, dtype: DType | None
) -> None:
    """What CPU tensors of transformers' ``sdpa_mask`` and ``eager_mask`` take and free.

    b: a boolean for all sequences, e: one for each, p: its padding, f: what is added to scores.
    """
    tape = _log()

    make_causal_mask(tape, PassShape(), has_window=has_window, padded=padded, dtype=dtype)

    shared, every = sizes.per_mask_element(1), sizes.per_score(1)
    names = {shared: "b", every: "e", sizes.scale(every, 4): "f", sizes.per_token(1): "p"}
    made = [
        f"{'+' if verb == 'takes' else '-'}{names[size]}" for verb, size in _list_requests(tape)
    ]
    assert made == requests.split()


def test_a_model_that_falls_back_to_eager_copies_heads_of_several_sequences() -> None:
    """SDPA has no cap on scores, so that Gemma 2's products are those of its own code."""
    gemma, llama = (architecture_from_config(tiny_config(name)) for name in ("gemma2", "llama"))

    assert is_batch_dependent(gemma, Attention.SDPA, DType.BF16)
    assert not is_batch_dependent(llama, Attention.SDPA, DType.BF16)
