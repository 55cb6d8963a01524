"""Families whose attention the library writes out itself, and those that differ from GPT-2 by a
module.
"""

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.recorder import record_training
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Checkpointing
from tests.builders import a_device, a_serving, a_training
from tests.unit.estimator.model.families.recorded_peaks import (
    PER_SCORE,
    PER_TOKEN,
    a_family,
    added_by_a_layer,
)

_SMALL: dict[str, dict[str, object]] = {
    "gptj": {"n_embd": 256, "n_layer": 3, "n_head": 4, "rotary_dim": 32, "n_positions": 512},
    "codegen": {"n_embd": 256, "n_layer": 3, "n_head": 4, "rotary_dim": 32, "n_positions": 512},
    "gpt_neo": {
        "hidden_size": 256,
        "num_layers": 4,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 2]],
        "max_position_embeddings": 512,
    },
    "gpt_bigcode": {"n_embd": 256, "n_layer": 3, "n_head": 4, "n_positions": 512},
    "mpt": {"d_model": 256, "n_layers": 3, "n_heads": 4, "max_seq_len": 512},
    "bloom": {"hidden_size": 256, "n_layer": 3, "n_head": 4},
    "opt": {
        "hidden_size": 256,
        "ffn_dim": 1024,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "dropout": 0.0,
    },
}
"""Small models, as they were built and run."""


def _model(model_type: str, **changes: object) -> Architecture:
    return a_family(**{"model_type": model_type, "vocab_size": 100} | _SMALL[model_type] | changes)


_NO_DROPOUT = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}


@pytest.mark.parametrize(
    ("model_type", "changes", "checkpointing", "backward_bytes"),
    [
        ("gptj", {}, Checkpointing.NONE, 68_644_560),
        ("gptj", {}, Checkpointing.FULL, 30_233_296),
        ("gpt_neo", {}, Checkpointing.NONE, 93_656_584),
        ("gpt_neo", {}, Checkpointing.FULL, 32_805_384),
        ("gpt_bigcode", _NO_DROPOUT, Checkpointing.NONE, 26_318_416),
        ("gpt_bigcode", _NO_DROPOUT, Checkpointing.FULL, 13_812_768),
        ("mpt", {}, Checkpointing.NONE, 47_761_928),
        ("mpt", {}, Checkpointing.FULL, 21_525_000),
        ("bloom", {}, Checkpointing.NONE, 56_421_896),
        ("bloom", {}, Checkpointing.FULL, 30_720_520),
        ("opt", {"max_position_embeddings": 512}, Checkpointing.NONE, 24_489_552),
        ("opt", {"max_position_embeddings": 512}, Checkpointing.FULL, 15_008_288),
    ],
)
def test_backward_peaks_as_it_did_when_the_model_ran(
    model_type: str, changes: dict[str, object], checkpointing: Checkpointing, backward_bytes: int
) -> None:
    """Live bytes beside the weights, counted on transformers 5.23 on meta tensors: 4 sequences of
    256 tokens, bf16.

    Four bytes are a second scalar of the loss.
    """
    model = _model(model_type, **changes)
    workload = a_training(
        precision="bf16", activation_checkpointing=checkpointing, keeps_logits=True
    )
    how = build_training_pass(model, workload, Layout())
    values = sizes.evaluate_monomials(4, 256)

    highs = record_training(model, how)

    points = (*highs[Section.LOSS_BACKWARD], *highs[Section.BACKWARD])
    assert (
        max(sizes.evaluate(point.bytes, values) + 2 * point.gradients for point in points)
        == backward_bytes - 4
    )


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"model_type": "gptj"}, 6_050_882_784),
        (
            {"model_type": "gpt_neo", "hidden_size": 2048, "num_layers": 24, "num_heads": 16},
            1_315_575_808,
        ),
        (
            {
                "model_type": "mpt",
                "d_model": 4096,
                "n_heads": 32,
                "n_layers": 32,
                "vocab_size": 50432,
            },
            6_649_286_656,
        ),
        (
            {
                "model_type": "gpt_bigcode",
                "n_embd": 6144,
                "n_head": 48,
                "n_inner": 24576,
                "n_layer": 40,
            }
            | {"n_positions": 8192, "vocab_size": 49152},
            15_517_456_384,
        ),
    ],
)
def test_published_models_have_their_published_sizes(config: dict[str, object], total: int) -> None:
    """GPT-J-6B, GPT-Neo-1.3B, MPT-7B and StarCoder, by their shapes."""
    assert a_family(**config).parameter_counts().total == total


@pytest.mark.parametrize("model_type", ["bloom", "gptj", "codegen", "gpt_neo", "mpt"])
@pytest.mark.parametrize("attention", [Attention.SDPA, Attention.FLASH])
def test_scores_are_kept_whatever_is_asked_for(model_type: str, attention: Attention) -> None:
    """The library has no other kernel for these models: an fp32 softmax and its bf16 copy, 6 a s
    per token.
    """
    model = _model(model_type)

    added = added_by_a_layer(model, a_training(precision="bf16", attention=attention))

    assert added[PER_SCORE] == 6 * model.spec.num_attention_heads


def test_codegen_keeps_query_and_key_in_fp32() -> None:
    """CodeGen's tables are fp32 and make both sides fp32, where GPT-J casts its tables: the same is
    kept, cast or not.
    """
    workload = a_training(precision="bf16")

    kept = [added_by_a_layer(_model(name), workload)[PER_TOKEN] for name in ("codegen", "gptj")]

    assert kept[0] == kept[1]


def test_buffers_of_layers_go_with_their_layers() -> None:
    """GPT-J's tables and GPT-Neo's masks belong to a layer each."""
    for model_type, each in (("gptj", 512 * 32 * 4), ("gpt_neo", 512 * 512)):
        model = _model(model_type)

        assert model.buffer_bytes == model.num_hidden_layers * each
        assert model.with_layers(1).buffer_bytes == each


def test_opt_350m_projects_in_and_out() -> None:
    """OPT-350m embeds in 512, norms after each half, and has no final norm: 331,196,416
    parameters.
    """
    shape = {
        "hidden_size": 1024,
        "ffn_dim": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    }
    model = a_family(model_type="opt", word_embed_proj_dim=512, do_layer_norm_before=False, **shape)

    assert model.parameter_counts().total == 331_196_416
    assert model.final_norm is None


@pytest.mark.parametrize(
    ("model_type", "changes", "field"),
    [
        ("bloom", {"slow_but_exact": True}, "slow_but_exact"),
        (
            "bloom",
            {"apply_residual_connection_post_layernorm": True},
            "apply_residual_connection_post_layernorm",
        ),
        ("opt", {"layerdrop": 0.1}, "layerdrop"),
        ("opt", {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine"),
        ("gpt_bigcode", {"add_cross_attention": True}, "add_cross_attention"),
        ("mpt", {"attn_config": {"clip_qkv": 8}}, "attn_config.clip_qkv"),
        ("mpt", {"attn_config": {"alibi": False}}, "attn_config.alibi"),
    ],
)
def test_a_switch_without_a_term_is_refused(
    model_type: str, changes: dict[str, object], field: str
) -> None:
    """What adds operations, or what the library ignores, is named."""
    with pytest.raises(NotModelledError) as refusal:
        _model(model_type, **changes)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("model_type", "changes", "words"),
    [
        ("gptj", {"rotary_dim": 65}, "rotary_dim is 65; a head has 64"),
        (
            "codegen",
            {"n_head": 2, "rotary_dim": 32},
            "n_head is 2; CodeGen's projection needs a multiple of 4",
        ),
        (
            "gpt_neo",
            {"attention_types": [[["global"], 3]]},
            "attention_types name 3 layers; num_layers is 4",
        ),
        ("gpt_neo", {"attention_types": 7}, "attention_types name 0 layers"),
        ("mpt", {"attn_config": 7}, "must be an object"),
    ],
)
def test_numbers_that_no_model_can_have_are_refused(
    model_type: str, changes: dict[str, object], words: str
) -> None:
    """Each refusal quotes both numbers."""
    with pytest.raises(InvalidConfigError, match=words):
        _model(model_type, **changes)


def test_a_field_by_its_library_name_is_read_too() -> None:
    """The library maps ``hidden_size`` to ``n_embd``; a config may have either."""
    model = a_family(
        model_type="gptj",
        hidden_size=256,
        num_attention_heads=4,
        num_hidden_layers=3,
        rotary_dim=32,
    )

    assert (model.spec.hidden_size, model.num_hidden_layers) == (256, 3)


@pytest.mark.parametrize(
    "model_type", ["gptj", "codegen", "gpt_neo", "mpt", "bloom", "gpt_bigcode"]
)
def test_a_replica_caches_key_and_value_of_every_layer(model_type: str) -> None:
    """Two sequences of 128 tokens: 2 L b s k elements of two bytes; one head of GPT-BigCode's four
    is cached.
    """
    model = _model(model_type)
    width = 64 if model_type == "gpt_bigcode" else 256

    answer = estimate(model, a_serving(), layout=Layout(), device=a_device())

    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 2 * model.num_hidden_layers * 2 * 128 * width * 2


def test_a_projected_embedding_makes_one_tensor_more() -> None:
    """OPT-350m's embeddings go through a linear layer before positions are added; both tables are
    trained.
    """
    changes = {"max_position_embeddings": 512}
    plain, projected = _model("opt", **changes), _model("opt", word_embed_proj_dim=128, **changes)

    answers = [
        estimate(model, a_training(), layout=Layout(), device=a_device())
        for model in (plain, projected)
    ]

    counts = [model.parameter_counts().total for model in (plain, projected)]
    assert counts[0] - counts[1] == 100 * 128 - 2 * 128 * 256
    assert answers[1].allocated_bytes > answers[0].allocated_bytes


def test_dropped_embeddings_cost_a_mask_by_the_time_of_the_loss() -> None:
    """What is left of GPT-J's embeddings is kept in place of the embeddings, with a byte of mask
    for each element.
    """
    peaks = []
    for chance in (0.0, 0.1):
        model = _model("gptj", embd_pdrop=chance)
        highs = record_training(
            model, build_training_pass(model, a_training(precision="bf16"), Layout())
        )
        peaks.append(max(point.bytes[PER_TOKEN] for point in highs[Section.LOSS_FORWARD]))

    assert peaks[1] - peaks[0] == 256


@pytest.mark.parametrize("model_type", ["gptj", "gpt_neo", "mpt", "bloom", "opt"])
def test_every_parameter_is_used_by_every_token(model_type: str) -> None:
    """There are no experts in these families."""
    counts = _model(model_type).parameter_counts()

    assert counts.active == counts.total
