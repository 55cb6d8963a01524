"""Experts that stand whole on the ranks of an engine, beside layers that tensor-parallel ranks
share.
"""

import pytest

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine
from tests.unit.estimator.backends.test_corners import serve, weights

MOE = "qwen3-30b-a3b"
SPREAD = Layout(tensor_parallel=4, expert_parallel=4, expert_tensor_parallel=1)
CHOSEN, HIDDEN, INNER, TOKENS = 8, 2048, 768, 8192


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM])
def test_whole_experts_weigh_as_much_as_slices_of_all(engine: Engine) -> None:
    """A quarter of 128 experts on each of four ranks, or a quarter of each: the same bytes."""
    assert weights(serve(MOE, engine, layout=SPREAD)) == weights(
        serve(MOE, engine, layout=Layout(tensor_parallel=4))
    )


def test_replicas_that_share_experts_hold_all_of_their_attention() -> None:
    """Two replicas of two ranks spread experts over all four, and attention and the vocabulary over
    two.
    """
    shared = weights(
        serve(
            MOE,
            layout=Layout(
                tensor_parallel=2, data_parallel=2, expert_parallel=4, expert_tensor_parallel=1
            ),
        ),
    )
    alone = weights(serve(MOE, layout=Layout(tensor_parallel=2, data_parallel=2)))
    experts = 48 * 128 * 3 * HIDDEN * INNER * 2

    assert alone - shared == experts // 4


def test_whole_experts_need_room_for_whole_outputs() -> None:
    """A chosen expert's gate, up and activation are as wide as the expert, not as its slice."""
    sliced, whole = (
        _activations(serve(MOE, Engine.SGLANG, layout=layout))
        for layout in (Layout(tensor_parallel=4), SPREAD)
    )
    wider = 2 * TOKENS * CHOSEN * (INNER - INNER // 4)

    assert whole - sliced == pytest.approx(wider, rel=0.01)


def test_experts_get_the_tokens_of_all_replicas() -> None:
    """What each replica routes is gathered before its experts run (vLLM): both of their buffers
    have a row for every choice.
    """
    one, four = (
        _activations(serve("deepseek-v3", layout=Layout(data_parallel=n, expert_parallel=n)))
        for n in (4, 8)
    )
    row = 8 * (max(2048, 7168) + max(2 * 2048, 7168))

    assert four - one == pytest.approx(2 * TOKENS * 4 * row, rel=0.01)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(tensor_parallel=4, expert_parallel=2, expert_tensor_parallel=1), "not 2 x 1"),
        (Layout(tensor_parallel=4, expert_tensor_parallel=1), "not 1 x 1"),
        (Layout(data_parallel=4, expert_parallel=2), "not 2 x 1"),
    ],
)
def test_experts_that_would_stand_on_a_part_of_the_ranks_are_refused(
    layout: Layout, said: str
) -> None:
    """Every rank holds a share of the experts, once: the refusal says what the product has to
    be.
    """
    with pytest.raises(InvalidInputError, match=f"is 4, {said}"):
        serve(MOE, layout=layout)


def _activations(answer: Estimate) -> int:
    return next(part.bytes for part in answer.components if part.name == "activations")
