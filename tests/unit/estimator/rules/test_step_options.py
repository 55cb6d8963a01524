"""Losses, frozen modules, every n-th layer recomputed, and an optimizer that steps inside
backward.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.tape.ops.loss.linear_loss import liger_chunk_tokens
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Checkpointing, Lora, Method
from tests.builders import a_device, a_mixture, a_model, a_sharded_layout, a_training

_MODEL = a_model(num_hidden_layers=8, vocab_size=4096)
_TOKENS = 2 * 512
_LOGITS = _TOKENS * 4096
_N = _MODEL.parameter_counts().total


def _ask(model: Architecture = _MODEL, layout: Layout | None = None, **changes: Any) -> Estimate:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {
        "precision": "bf16",
        "optimizer": "adamw_fused",
        "sequence_length": 512,
    }
    return estimate(
        model, a_training(**(given | changes)), layout=layout or Layout(), device=a_device()
    )


def _at(answer: Estimate, instant: str) -> int:
    return next(each.allocated_bytes for each in answer.instants if each.name == instant)


def test_a_gradient_in_place_of_the_logits_saves_two_fp32_copies() -> None:
    """Log-softmax, its gradient and that of the likelihood are one tensor: 12 bytes per logit
    become 6 (Liger).
    """
    full, fused = _ask(), _ask(loss=Loss.FUSED_CROSS_ENTROPY)

    assert _at(full, "loss") - _at(fused, "loss") == pytest.approx(6 * _LOGITS, rel=0.01)


def test_flash_attention_s_loss_reads_sixteen_bit_logits() -> None:
    """Logits and their gradient, two bytes each: eight bytes less per logit than log-softmax over
    an fp32 copy.
    """
    full, flash = _ask(), _ask(loss=Loss.FLASH_CROSS_ENTROPY)

    assert _at(full, "loss") - _at(flash, "loss") == pytest.approx(8 * _LOGITS, rel=0.01)


def test_a_loss_with_the_head_inside_holds_the_logits_of_one_chunk() -> None:
    """It makes the gradients of its input and of the head in forward, and no tensor of all logits
    (Liger).
    """
    forward, fused = _at(_ask(), "forward"), _ask(loss=Loss.FUSED_LINEAR)
    chunk = liger_chunk_tokens(_TOKENS, hidden_size=64, vocab_size=4096)

    assert chunk == 16
    made = 2 * (_TOKENS * 64 + 4096 * 64 + chunk * 4096)
    assert _at(fused, "loss") < forward + made
    assert _at(_ask(), "loss") > forward + 6 * _LOGITS


@pytest.mark.parametrize(
    ("tokens", "hidden", "vocab", "chunk"),
    [(4096, 4096, 32000, 512), (8192, 4096, 128256, 256), (1, 8, 8, 1), (100, 64, 64, 100)],
)
def test_a_chunk_is_a_power_of_two_up_to_all_tokens(
    tokens: int, hidden: int, vocab: int, chunk: int
) -> None:
    """``next_power_of_2(ceil(tokens / ceil(vocab / hidden)))`` (Liger 0.8)."""
    assert liger_chunk_tokens(tokens, hidden_size=hidden, vocab_size=vocab) == chunk


def test_chunked_logits_keep_every_log_softmax_but_one_upcast() -> None:
    """Eight chunks: all 16-bit logits and fp32 log-softmax outputs, and one chunk's upcast
    (torchtune).
    """
    full, chunked = _ask(), _ask(loss=Loss.CHUNKED)

    saved = _at(full, "loss") - _at(chunked, "loss")
    assert saved == pytest.approx((12 - 2 - 4 - 4 / 8) * _LOGITS, rel=0.01)


def test_frozen_modules_have_neither_gradients_nor_states_nor_saved_inputs() -> None:
    """Only the head is trained: layers below it keep nothing for backward, and the states are those
    of the head.
    """
    answer = _ask(frozen=("embedding", "attention", "mlp", "norm"))
    head = 4096 * 64

    assert answer.steady_bytes == 2 * _N + 2 * 2 * head + 4 + _MODEL.buffer_bytes_in(
        a_training(precision="bf16").precision.param_dtype
    )
    assert _at(answer, "forward") < _at(
        _ask(activation_checkpointing=Checkpointing.FULL), "forward"
    )


def test_every_first_layer_recomputed_is_full_checkpointing_and_the_first_alone_is_least() -> None:
    """The peaks fall from none to full as more layers are recomputed, on one GPU and on shards."""
    for layout in (Layout(), a_sharded_layout(8, sharding=Sharding.FSDP2)):
        none = _ask(layout=layout).allocated_bytes
        full = _ask(layout=layout, activation_checkpointing=Checkpointing.FULL).allocated_bytes
        every = [
            _ask(
                layout=layout, activation_checkpointing=Checkpointing.SELECTIVE, selective_every=n
            ).allocated_bytes
            for n in (1, 2, 3, 8, 9)
        ]

        assert every[0] == full
        assert every == sorted(every)
        assert every[-2] == every[-1] < none


def test_an_optimizer_in_backward_stores_no_gradients() -> None:
    """Each gradient is stepped and dropped: at the step there is nothing but weights and states."""
    usual = _ask(optimizer="adamw", micro_batch_size=1, sequence_length=8)
    inside = _ask(
        optimizer="adamw", micro_batch_size=1, sequence_length=8, optimizer_in_backward=True
    )

    assert _at(inside, "optimizer_step") == inside.steady_bytes
    assert usual.allocated_bytes - inside.allocated_bytes > 2 * _N


@pytest.mark.parametrize(
    ("changes", "layout", "field"),
    [
        (
            {"optimizer_in_backward": True, "gradient_clipping": True},
            None,
            "workload.optimizer_in_backward",
        ),
        (
            {"optimizer_in_backward": True, "gradient_accumulation_steps": 2},
            None,
            "workload.optimizer_in_backward",
        ),
        ({"loss": Loss.FUSED_LINEAR, "keeps_logits": True}, None, "workload.keeps_logits"),
        ({"frozen": ("vision",)}, None, "workload.frozen"),
        ({"frozen": ("embedding", "attention", "mlp", "norm", "lm_head")}, None, "workload.frozen"),
        ({"frozen": ("norm",), "method": Method.LORA, "lora": Lora()}, None, "workload.frozen"),
    ],
)
def test_what_contradicts_itself_is_refused(
    changes: dict[str, Any], layout: Layout | None, field: str
) -> None:
    """Clipping needs all gradients at once, kept logits need logits, frozen names kinds and leaves
    something to train.
    """
    with pytest.raises(InvalidInputError) as refusal:
        _ask(layout=layout, **changes)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("model", "changes", "layout"),
    [
        (_MODEL, {"optimizer_in_backward": True, "precision": "bf16_mixed"}, None),
        (_MODEL, {"optimizer_in_backward": True, "optimizer": "muon"}, None),
        (_MODEL, {"optimizer_in_backward": True}, Layout(data_parallel=2)),
        (_MODEL, {"activation_checkpointing": Checkpointing.SELECTIVE}, None),
        (
            _MODEL,
            {
                "activation_checkpointing": Checkpointing.SELECTIVE,
                "selective_every": 2,
                "method": Method.LORA,
                "lora": Lora(),
            },
            None,
        ),
    ],
)
def test_what_has_no_term_is_refused(
    model: Architecture, changes: dict[str, Any], layout: Layout | None
) -> None:
    """The refusal says what is modelled instead."""
    with pytest.raises(NotModelledError):
        _ask(model, layout, **changes)


def test_a_mixture_can_freeze_its_experts() -> None:
    """Frozen is any kind that the count by module names."""
    mixture = a_mixture()

    assert "mlp_experts" in mixture.parameter_counts().by_module
    assert _ask(mixture, frozen=("mlp_experts",)).steady_bytes < _ask(mixture).steady_bytes


def test_backward_gathers_a_joint_root_anew() -> None:
    """Backward begins with all parts of the root in two buffers: what is gathered, and what it is
    copied out into.
    """
    layout = a_sharded_layout(8, sharding=Sharding.FSDP2)
    model = a_model(num_hidden_layers=2, vocab_size=8192)
    answer = _ask(model, layout, sequence_length=8, micro_batch_size=1)
    parts = {component.name: component.bytes for component in answer.components}

    assert answer.peak_instant == "loss"
    assert parts["gathered_weights"] == 2 * 2 * model.parameter_counts().outside_blocks
