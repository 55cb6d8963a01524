"""BERT, RoBERTa, DistilBERT and ModernBERT with their masked-language-model heads."""

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Lora, Method
from tests.builders import a_device, a_serving, a_training
from tests.unit.estimator.model.families.recorded_peaks import (
    PER_SCORE,
    PER_TOKEN,
    a_family,
    added_by_a_layer,
)

_ENCODERS = ("bert-base", "roberta-base", "distilbert-base", "modernbert-base")


@pytest.mark.parametrize(
    ("name", "dropouts"), [("bert-base", 2), ("roberta-base", 2), ("distilbert-base", 1)]
)
def test_a_layer_keeps_what_was_counted(name: str, dropouts: int) -> None:
    """16h + 4i bytes per token, a byte of mask for each dropout over h, and the rows of two norms
    and of flash attention.
    """
    model = load_architecture(resolve_model(name))
    h, i, a = model.spec.hidden_size, model.spec.intermediate_size, model.spec.num_attention_heads

    added = added_by_a_layer(model, a_training(precision="bf16"))

    assert added[PER_TOKEN] == 16 * h + 4 * i + dropouts * h + 4 * a + 16


@pytest.mark.parametrize(
    ("precision", "per_score"), [("bf16", 2 + 1 + 2), ("amp_bf16", 4 + 1 + 4 + 2)]
)
def test_eager_scores_are_dropped_as_the_softmax_made_them(precision: str, per_score: int) -> None:
    """5 a s in bf16; autocast's softmax is fp32, is dropped in fp32, and cast for the product."""
    model = load_architecture(resolve_model("bert-base"))

    added = added_by_a_layer(model, a_training(precision=precision, attention=Attention.EAGER))

    assert (
        added[PER_SCORE]
        == per_score * model.spec.num_attention_heads - (precision == "amp_bf16") * 4 * 12
    )


def test_a_local_layer_keeps_a_mask_once_the_window_is_reached() -> None:
    """ModernBERT's local layers look 64 tokens to each side: two bytes per pair of positions from
    64 tokens on.
    """
    model = load_architecture(resolve_model("modernbert-base")).with_layers(3)

    kept = [
        added_by_a_layer(model, a_training(precision="bf16", sequence_length=tokens))[PER_SCORE]
        for tokens in (63, 64, 512)
    ]

    assert kept == [0, 2, 2]


@pytest.mark.parametrize("name", _ENCODERS)
def test_an_encoder_serves_in_one_pass(name: str) -> None:
    """It has no cache and makes logits of every position: more sequences need more, none of it for
    a cache.
    """
    model = load_architecture(resolve_model(name))

    few, many = (
        estimate(
            model,
            a_serving(num_sequences=count, output_tokens=0),
            layout=Layout(),
            device=a_device(),
        )
        for count in (1, 8)
    )

    assert [instant.name for instant in many.instants] == ["load", "prefill"]
    assert many.serving is not None
    assert many.serving.kv_cache_bytes == 0
    assert many.allocated_bytes - many.instants[0].allocated_bytes > 7 * (
        few.allocated_bytes - few.instants[0].allocated_bytes
    )


def test_a_served_encoder_needs_what_was_counted() -> None:
    """A BERT of three layers of 128 holds 1,052,672 bytes above its weights for two sequences of
    128 tokens in fp32.
    """
    sizes = {
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "vocab_size": 640,
    }
    model = a_family(model_type="bert", **sizes)
    workload = a_serving(
        prompt_tokens=128, output_tokens=0, weight_dtype=DType.FP32, kv_cache_dtype=DType.FP32
    )

    load, prefill = estimate(model, workload, layout=Layout(), device=a_device()).instants

    assert prefill.allocated_bytes - load.allocated_bytes == 1_052_672


def test_an_encoder_generates_nothing() -> None:
    """Output tokens are refused with what to say instead."""
    model = load_architecture(resolve_model("bert-base"))

    with pytest.raises(InvalidInputError, match="generates nothing; say 0"):
        estimate(model, a_serving(), layout=Layout(), device=a_device())


def test_adapters_reach_the_heads_transform() -> None:
    """PEFT's all-linear leaves out the output table alone: bert-large at rank 16 trains 7,110,656
    elements.
    """
    model = load_architecture(resolve_model("bert-large"))
    workload = a_training(precision="bf16", method=Method.LORA, lora=Lora(rank=16))

    answer = estimate(model, workload, layout=Layout(), device=a_device())

    adapters = next(component for component in answer.components if component.name == "adapters")
    assert adapters.bytes == 4 * 7_110_656


@pytest.mark.parametrize(
    ("name", "biases"), [("bert-base", 1), ("roberta-base", 1), ("distilbert-base", 0)]
)
def test_an_untied_head_leaves_a_bias_that_nothing_reads(name: str, biases: int) -> None:
    """The head has a weight and a bias of its own then; the bias that it was tied to gets no
    gradient and no state.
    """
    config = load_config(resolve_model(name))
    tied, untied = (
        architecture_from_config({**config, "tie_word_embeddings": tie}) for tie in (True, False)
    )
    workload = a_training(precision="bf16")

    more = untied.parameter_counts().total - tied.parameter_counts().total
    states = [
        next(
            part.bytes
            for part in estimate(model, workload, layout=Layout(), device=a_device()).components
            if "states" in part.name
        )
        for model in (tied, untied)
    ]

    table = untied.embedding.numel
    assert more == table + biases * untied.vocab_size
    assert states[1] - states[0] == 2 * 2 * table


def test_a_sequence_beyond_the_position_table_is_refused() -> None:
    """BERT has learned positions for 512 tokens."""
    model = load_architecture(resolve_model("bert-base"))

    with pytest.raises(InvalidInputError, match="learned positions for 512"):
        estimate(model, a_training(sequence_length=513), layout=Layout(), device=a_device())


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "bert", "is_decoder": True}, "is_decoder"),
        ({"model_type": "roberta", "add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "distilbert", "chunk_size_feed_forward": 2}, "chunk_size_feed_forward"),
        ({"model_type": "modernbert", "sparse_prediction": True}, "sparse_prediction"),
    ],
)
def test_a_switch_without_a_term_is_refused(config: dict[str, object], field: str) -> None:
    """Decoders, chunks and sparse heads are named."""
    with pytest.raises(NotModelledError) as refusal:
        a_family(**config)

    assert refusal.value.field == field


def test_layer_types_are_read_as_they_are() -> None:
    """A config may name its layers, or say how often one is global."""
    named = a_family(
        model_type="modernbert",
        num_hidden_layers=3,
        layer_types=["full_attention", *["sliding_attention"] * 2],
    )
    counted = a_family(model_type="modernbert", num_hidden_layers=3, global_attn_every_n_layers=3)

    assert named.fingerprint() == counted.fingerprint()


def test_layer_types_that_do_not_fit_are_refused() -> None:
    """There is one name per layer."""
    with pytest.raises(InvalidConfigError, match="layer_types must name 3 layers"):
        a_family(model_type="modernbert", num_hidden_layers=3, layer_types=["full_attention"])
