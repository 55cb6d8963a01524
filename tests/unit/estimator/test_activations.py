"""What one layer keeps for backward, against the terms that were counted tensor by tensor on real
models.

h hidden, q heads x head_dim, k kv_heads x head_dim, i intermediate, a heads; bytes per token unless
another monomial is named.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.recorder import record_training
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.ops.attention_masks import RANDOM_STATE_BYTES
from service.estimator.tape.sizes import Size
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload
from tests.builders import a_gpt2, a_model, a_training

_PER_TOKEN, _PER_SCORE = 3, 5
"""Places of the monomials b*s and b*s*s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """The widths that the terms are written in."""

    h: int
    q: int
    k: int
    i: int
    a: int

    @classmethod
    def of(cls, model: Architecture) -> "Widths":
        """Return a model's widths."""
        spec = model.spec
        query, key = (
            spec.num_attention_heads * spec.head_dim,
            spec.num_key_value_heads * spec.head_dim,
        )
        return cls(
            h=spec.hidden_size, q=query, k=key, i=spec.intermediate_size, a=spec.num_attention_heads
        )


Term = Callable[[Widths], int]


def _added_by_a_layer(model: Architecture, workload: TrainWorkload) -> dict[Category, Size]:
    """Return what the third layer adds to the live bytes at the end of forward, where the loss is
    made.
    """

    def live(depth: int) -> dict[Category, Size]:
        highs = record_training(
            model.with_layers(depth), build_training_pass(model, workload, Layout())
        )
        return dict(
            max(highs[Section.LOSS_FORWARD], key=lambda point: point.bytes[_PER_TOKEN]).live
        )

    three, two = live(3), live(2)
    return {category: sizes.subtract(size, two[category]) for category, size in three.items()}


def _catalogue(name: str) -> Architecture:
    return load_architecture(resolve_model(name))


_LLAMA: Term = lambda w: 16 * w.h + 4 * w.q + 4 * w.k + 8 * w.i + 4 * w.a + 8  # noqa: E731 - a formula
_AUTOCAST: Term = lambda w: _LLAMA(w) + 10 * w.h  # noqa: E731 - a formula


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b", "qwen2.5-14b", "smollm2-360m"])
@pytest.mark.parametrize(
    ("precision", "term"), [("bf16", _LLAMA), ("bf16_mixed", _LLAMA), ("amp_bf16", _AUTOCAST)]
)
def test_a_llama_layer_keeps_what_was_counted(name: str, precision: str, term: Term) -> None:
    """Flash attention: 16h + 4q + 4k + 8i + 4a + 8 bytes per token, 10h more under autocast, and a
    random state.
    """
    model = _catalogue(name)

    added = _added_by_a_layer(model, a_training(precision=precision, attention=Attention.FLASH))

    assert added[Category.ACTIVATIONS] == (RANDOM_STATE_BYTES, 0, 0, term(Widths.of(model)), 0, 0)


def test_a_llama_layer_in_units_of_its_width() -> None:
    """45.5 and 49.0 times the hidden size for llama-2-7b and llama-3-8b, where the textbook says
    34.
    """
    ratios = []
    for name in ("llama-2-7b", "llama-3-8b"):
        added = _added_by_a_layer(
            _catalogue(name), a_training(precision="bf16", attention=Attention.FLASH)
        )
        ratios.append(round(added[Category.ACTIVATIONS][_PER_TOKEN] / 4096, 1))

    assert ratios == [45.5, 49.0]


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b"])
def test_eager_attention_keeps_its_scores(name: str) -> None:
    """6 a s bytes more per token (fp32 softmax and its bf16 copy), the repeated keys and values,
    and no log-sum-exp.
    """
    model = _catalogue(name)
    widths = Widths.of(model)

    added = _added_by_a_layer(model, a_training(precision="bf16", attention=Attention.EAGER))[
        Category.ACTIVATIONS
    ]

    assert added[_PER_SCORE] == 6 * widths.a
    assert added[_PER_TOKEN] == _LLAMA(widths) - 4 * widths.a + (4 * widths.q - 4 * widths.k)


def test_norms_of_query_and_key_keep_six_bytes_per_element() -> None:
    """Qwen3's norms add 6q + 6k, and eight bytes for each head's row less the norms' own four and
    four.
    """
    model = _catalogue("qwen3-14b")
    widths = Widths.of(model)

    added = _added_by_a_layer(model, a_training(precision="bf16", attention=Attention.FLASH))[
        Category.ACTIVATIONS
    ]

    rows = 4 * (widths.a + model.spec.num_key_value_heads)
    assert added[_PER_TOKEN] == _LLAMA(widths) + 6 * widths.q + 6 * widths.k + rows


@pytest.mark.parametrize(
    ("precision", "per_score"), [("bf16", 2 + 1 + 2), ("amp_bf16", 4 + 1 + 2), ("fp32", 4 + 1 + 4)]
)
def test_dropout_on_scores_keeps_its_mask_and_its_output(precision: str, per_score: int) -> None:
    """GPT-2's eager attention keeps the softmax, a mask of one byte and the dropped scores: 5 a s
    in bf16.
    """
    model = a_gpt2()

    added = _added_by_a_layer(model, a_training(precision=precision, attention=Attention.EAGER))[
        Category.ACTIVATIONS
    ]

    assert added[_PER_SCORE] == per_score * model.spec.num_attention_heads


def test_the_math_kernel_drops_scores_too() -> None:
    """Without dropout it keeps the fp32 softmax alone, with it a mask and the dropped scores as
    well.
    """
    per_score = [
        _added_by_a_layer(
            a_model(attention_dropout=chance),
            a_training(precision="bf16", attention=Attention.MATH),
        )[Category.ACTIVATIONS][_PER_SCORE]
        for chance in (0.0, 0.1)
    ]

    assert per_score == [4 * 4, (4 + 1 + 4) * 4]


@pytest.mark.parametrize(("precision", "width"), [("bf16", 2), ("amp_bf16", 4), ("fp32", 4)])
@pytest.mark.parametrize("attention", [Attention.FLASH, Attention.EAGER])
def test_a_checkpointed_layer_keeps_its_input_alone(
    precision: str, width: int, attention: Attention
) -> None:
    """2h bytes per token in 16 bit, 4h where the hidden state is fp32."""
    workload = a_training(
        precision=precision, attention=attention, activation_checkpointing=Checkpointing.FULL
    )

    added = _added_by_a_layer(a_model(), workload)

    assert added[Category.ACTIVATIONS] == sizes.per_token(width * 64)


def test_autocast_keeps_a_copy_of_every_weight_it_multiplies_with() -> None:
    """Two bytes for each weight of a linear layer live until backward; norms are not copied."""
    model = a_model()
    block = model.blocks[0][0]
    multiplied = sum(layer.in_features * layer.out_features for layer in block.linears())

    added = _added_by_a_layer(model, a_training(precision="amp_bf16"))

    assert added[Category.GATHERED_WEIGHTS] == sizes.constant(2 * multiplied)


@pytest.mark.parametrize(
    ("precision", "keeps", "per_logit"),
    [
        ("bf16", False, 12),
        ("bf16", True, 14),
        ("amp_bf16", False, 12),
        ("amp_bf16", True, 14),
        ("fp32", False, 12),
        ("fp32", True, 16),
    ],
)
def test_the_loss_needs_twelve_bytes_per_logit(precision: str, keeps: bool, per_logit: int) -> None:  # noqa: FBT001 - a case
    """Upcast logits, log-softmax and its gradient; and the logits themselves, in their own dtype,
    while the loop holds them.
    """
    model = a_model()
    workload = a_training(precision=precision, keeps_logits=keeps, fp32_outputs=False)

    highs = record_training(model, build_training_pass(model, workload, Layout()))[
        Section.LOSS_BACKWARD
    ]

    live = max((dict(point.live) for point in highs), key=lambda parts: parts[Category.LOGITS])
    assert live[Category.LOGITS] == sizes.per_token(per_logit * model.vocab_size)
