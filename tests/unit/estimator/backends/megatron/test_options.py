"""Megatron-LM's own arguments, term by term.

h hidden, q query, f inner features, a heads, V rows of the vocabulary, E experts, k chosen ones.
"""

from typing import Any

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.losses import Loss
from service.estimator.values.megatron import (
    CrossEntropyFusion,
    MegatronOptions,
    TokenDispatcher,
    TransformerImpl,
)
from service.estimator.values.result import Estimate
from service.estimator.values.units import KIB, MIB
from service.estimator.values.workload import Attention
from tests.builders import a_model
from tests.unit.estimator.backends.megatron.builders import A100, GB200, H100, a_gpt3, answered

TOKENS = 4 * 1024
MIXTRAL = {
    "model_type": "mixtral",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
LOCAL = TransformerImpl.LOCAL


def _answer(layout: dict[str, Any] | None = None, **said: Any) -> Estimate:  # noqa: ANN401 - each field has its own type
    words = {name: said.pop(name) for name in ("loss", "gradient_accumulation_steps") & said.keys()}
    return answered(layout=layout, megatron=MegatronOptions(**said), **words)


def test_local_layers_have_a_buffer_of_scores_and_no_engine() -> None:
    """The buffer has 2as elements a token; Transformer Engine's workspace of 32 MiB is not made."""
    scores = 2 * 8 * 4 * 1024 * 1024

    local, engine = (
        _answer(transformer_impl=impl) for impl in (LOCAL, TransformerImpl.TRANSFORMER_ENGINE)
    )

    assert local.steady_bytes - engine.steady_bytes == scores - 32 * MIB


def test_gradients_of_weights_are_tensors_without_fusion() -> None:
    """No placeholder stays: one per shape of a layer's weight, and the head's."""
    placeholders = 2 * 512 * (3 * 512 + 512 + 2 * 2048 + 50304)

    fused, separate = (_answer(gradient_accumulation_fusion=on) for on in (True, False))

    assert fused.steady_bytes - separate.steady_bytes == placeholders


def test_a_compiled_loss_copies_the_softmax() -> None:
    """Megatron Core's own fused cross entropy has fp32 logits twice in backward, where the batch
    is not held any more.
    """
    unfused = _answer(create_attention_mask=False)
    native = _answer(
        loss=Loss.FUSED_CROSS_ENTROPY,
        cross_entropy_fusion_impl=CrossEntropyFusion.NATIVE,
        create_attention_mask=False,
    )

    more = native.allocated_bytes - unfused.allocated_bytes
    assert abs(more - 4 * TOKENS * 50304) < MIB


def test_masks_that_nobody_makes_take_nothing() -> None:
    """A byte for each pair of positions of each sequence."""
    made, none = (_answer(create_attention_mask=made) for made in (True, False))

    assert made.allocated_bytes - none.allocated_bytes == 4 * 1024 * 1024


@pytest.mark.parametrize(("limit", "steps", "waiting"), [(2, 8, 2), (0, 8, 7), (0, 3, 2)])
def test_gradients_of_the_head_wait(limit: int, steps: int, waiting: int) -> None:
    """Of each micro-batch that waits its logits' gradient 2V and the head's input 2h."""
    at_once, later = (
        _answer(
            layout={"pipeline_parallel": 2},
            gradient_accumulation_steps=steps,
            defer_embedding_wgrad_compute=defers,
            wgrad_deferral_limit=limit if defers else 0,
        )
        for defers in (False, True)
    )

    held = later.stages[-1].allocated_bytes - at_once.stages[-1].allocated_bytes
    assert held == waiting * TOKENS * 2 * (50304 + 512)
    assert later.steady_bytes == at_once.steady_bytes


def test_predictors_are_on_the_last_stage() -> None:
    """It gets a table of tokens, a layer, three norms and a projection; the first stays."""
    layout = {"pipeline_parallel": 2}

    plain, predicting = (
        _answer(layout=layout, mtp_num_layers=count, gradient_accumulation_fusion=False)
        for count in (0, 1)
    )

    norm, layer = 2 * 512, 3 * 512 * 513 + 512 * 513 + 2048 * 513 + 512 * 2049 + 4 * 512
    added = (50304 + 1024) * 512 + layer + 3 * norm + 2 * 512 * 512
    first, last = (
        after.steady_bytes - before.steady_bytes
        for before, after in zip(plain.stages, predicting.stages, strict=True)
    )
    # The table and the head are one where they are tied: the head was a copy of its own before.
    assert (first, last) == (0, 18 * (added - 50304 * 512))


def _experts(dispatcher: TokenDispatcher, **layout: int) -> Estimate:
    return answered(
        architecture_from_config(MIXTRAL),
        layout=layout,
        attention=Attention.FLASH,
        megatron=MegatronOptions(moe_token_dispatcher_type=dispatcher),
    )


def test_gathered_tokens_stay_in_a_buffer() -> None:
    """Each of four expert ranks gathers the hidden states 2h of all four."""
    sent, gathered = (
        _experts(dispatcher, data_parallel=4, expert_parallel=4) for dispatcher in TokenDispatcher
    )

    assert gathered.steady_bytes - sent.steady_bytes == 4 * 2 * 64 * TOKENS


def test_experts_in_turn_have_no_streams() -> None:
    """Grouped products have four more workspaces of 32 MiB; their shapes are the same."""
    model = architecture_from_config(MIXTRAL)

    grouped, in_turn = (
        answered(model, megatron=MegatronOptions(moe_grouped_gemm=on)) for on in (True, False)
    )

    assert grouped.steady_bytes - in_turn.steady_bytes == 4 * 32 * MIB


@pytest.mark.parametrize(
    ("device", "workspaces"),
    [(A100, 4 * MIB + 2 * 8320 * KIB), (H100, 3 * 32 * MIB), (GB200, 3 * 32 * MIB)],
)
def test_workspaces_grew_with_hopper(device: Device, workspaces: int) -> None:
    """Transformer Engine's, and those of PyTorch's two handles."""
    options = MegatronOptions(gradient_accumulation_fusion=False)

    answer = answered(device=device, megatron=options)

    assert answer.steady_bytes - 18 * a_gpt3().counts.total == workspaces


@pytest.mark.parametrize(
    ("model", "layout", "words"),
    [
        (a_gpt3(), {"context_parallel": 2}, {}),
        (a_gpt3(), {}, {"attention": Attention.FLASH}),
        (a_model(), {"tensor_parallel": 2, "sequence_parallel": True}, {}),
        (a_model(), {"tensor_parallel": 4}, {}),
    ],
)
def test_what_local_layers_do_not_run_is_refused(
    model: Any,  # noqa: ANN401 - an architecture
    layout: dict[str, Any],
    words: dict[str, Any],
) -> None:
    """They have whole scores, their heads' keys, and torch's RMSNorm."""
    with pytest.raises(InvalidInputError):
        answered(model, layout=layout, megatron=MegatronOptions(transformer_impl=LOCAL), **words)


def test_local_layers_normalise_no_heads_here() -> None:
    """Norms of queries and keys have no term in them."""
    with pytest.raises(NotModelledError, match="query and key norms"):
        answered(a_gpt3(query_key_norm=True), megatron=MegatronOptions(transformer_impl=LOCAL))
