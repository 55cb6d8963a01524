"""T5, mT5, BART, mBART and Whisper: held to runs of the library, whose bytes were counted on small
models.
"""

from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Cache, Checkpointing, Lora, Method
from tests.builders import a_device, a_serving, a_training

_STACKS = {
    "d_model": 128,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "vocab_size": 640,
}
_T5 = {"d_model": 128, "d_kv": 16, "d_ff": 256, "num_layers": 3, "num_heads": 8, "vocab_size": 640}
CONFIGS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", **_T5},
    "mt5": {"model_type": "mt5", **_T5},
    "bart": {"model_type": "bart", **_STACKS, "max_position_embeddings": 256},
    "mbart": {"model_type": "mbart", **_STACKS, "max_position_embeddings": 256},
    "whisper": {
        "model_type": "whisper",
        **_STACKS,
        "num_mel_bins": 16,
        "max_source_positions": 96,
        "max_target_positions": 64,
    },
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "checkpointed": {"activation_checkpointing": Checkpointing.FULL},
    "eager": {"attention": Attention.EAGER},
    "padded": {"padding_mask": True},
    "lora": {"method": Method.LORA, "lora": Lora(rank=4)},
    "without logits": {"keeps_logits": False},
}
_COUNTED = (
    ("t5", "plain", 11603616, 12056728),
    ("t5", "checkpointed", 2271760, 8483352),
    ("t5", "eager", 19051096, 19567696),
    ("t5", "padded", 13866656, 14319768),
    ("t5", "padded, eager, checkpointed", 4100632, 10370072),
    ("t5", "lora", 10133280, 10394912),
    ("t5", "lora, checkpointed", 2306408, 4598432),
    ("t5", "without logits", 11603616, 11892888),
    ("mt5", "plain", 16486184, 16846888),
    ("mt5", "lora", 15031256, 15325656),
    ("mbart", "plain", 8254232, 9171984),
    ("mbart", "checkpointed", 1612808, 6642704),
    ("bart", "plain", 8087832, 9037840),
    ("bart", "checkpointed", 1481736, 6508560),
    ("bart", "eager", 10133856, 10644832),
    ("bart", "padded", 8581400, 9433104),
    ("bart", "padded, eager, checkpointed", 2401312, 7161880),
    ("bart", "lora", 8001416, 8295816),
    ("bart", "lora, checkpointed", 1741960, 3220112),
    ("bart", "without logits", 8087832, 8742928),
    ("whisper", "plain", 6840400, 7933472),
    ("whisper", "checkpointed", 1567816, 6194704),
    ("whisper", "eager", 8103064, 8809016),
    ("whisper", "lora", 6313936, 6608336),
    ("whisper", "lora, checkpointed", 1206016, 2317848),
    ("whisper", "without logits", 6840400, 7671328),
)
"""Bytes above weights of forward and backward in fp32: two sequences of 128 (Whisper 96) positions
and 32 decoder tokens.
"""
_SERVED = (
    ("t5", 1968144, 971984, 823296),
    ("mt5", 2099208, 973016, 823296),
    ("bart", 1192472, 967696, 823296),
    ("mbart", 1193496, 968256, 823296),
    ("whisper", 921632, 761888, 626688),
)
"""Bytes above weights of prefill and of the fifth decode step, and of both caches; fp32, two
sequences of the same lengths.
"""


def a_two_stack_model(name: str, **changes: object) -> EncoderDecoder:
    """Return a small model of two stacks, with some fields changed."""
    model = architecture_from_config(CONFIGS[name] | changes)
    assert isinstance(model, EncoderDecoder)
    return model


def _asked(name: str, **changes: Any) -> Estimate:  # noqa: ANN401 - each field has its own type
    given: dict[str, Any] = {
        "precision": "fp32",
        "optimizer": "sgd",
        "keeps_logits": True,
        "fp32_outputs": False,
        "sequence_length": 96 if name == "whisper" else 128,
        "decoder_length": 32,
    }
    return estimate(
        a_two_stack_model(name), a_training(**(given | changes)), layout=Layout(), device=a_device()
    )


@pytest.mark.parametrize(("name", "options", "forward", "backward"), _COUNTED)
def test_a_step_needs_what_was_counted(
    name: str, options: str, forward: int, backward: int
) -> None:
    """Forward and backward peak within a kilobyte of transformers 5.23 with the tensors that CUDA's
    kernels keep. Whisper's checkpoints make no leaf of what its convolution returns: Trainer
    enables gradients of embeddings where ids are the main input.
    """
    changes: dict[str, Any] = {}
    for option in options.split(", "):
        changes |= _OPTIONS[option]

    answer = _asked(name, **changes)

    phases = {phase.name: phase.allocated_bytes - answer.steady_bytes for phase in answer.phases}
    assert phases["forward_pass"] == pytest.approx(forward, abs=1024)
    assert phases["backward_pass"] == pytest.approx(backward, abs=1024)


@pytest.mark.parametrize(("name", "prefill", "decode", "cache"), _SERVED)
def test_serving_needs_what_was_counted(name: str, prefill: int, decode: int, cache: int) -> None:
    """An encoder's pass, a decoder's steps, and the caches of both, the caches to the byte."""
    workload = a_serving(prompt_tokens=96 if name == "whisper" else 128, output_tokens=5, **_fp32())

    answer = estimate(a_two_stack_model(name), workload, layout=Layout(), device=a_device())

    load, *instants = (instant.allocated_bytes for instant in answer.instants)
    assert [bytes_ - load for bytes_ in instants] == pytest.approx([prefill, decode], abs=1100)
    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == cache
    assert sum(component.bytes for component in answer.components) == answer.device_bytes


def _fp32() -> dict[str, Any]:
    workload = a_serving()
    wide = type(workload.weight_dtype).FP32
    return {"weight_dtype": wide, "kv_cache_dtype": wide}


def test_whisper_never_trains_its_sinusoids() -> None:
    """whisper-large-v3 has 1500 x 1280 positions in its encoder that get neither gradients nor
    states.
    """
    model = load_architecture(resolve_model("whisper-large-v3"))
    workload = a_training(
        precision="fp32", sequence_length=1500, decoder_length=128, micro_batch_size=1
    )

    answer = estimate(model, workload, layout=Layout(), device=a_device())

    assert answer.checkpoint is not None
    assert answer.checkpoint.optimizer == 2 * 4 * (1_543_490_560 - 1500 * 1280)
    assert answer.checkpoint.weights == 4 * 1_543_490_560


@pytest.mark.parametrize("name", CONFIGS)
def test_a_decoder_without_a_length_has_one_that_is_said(name: str) -> None:
    """As many tokens as the encoder; Whisper's ``sequence_length`` is its decoder's unless it is
    the encoder's.
    """
    said = _asked(name, sequence_length=64, decoder_length=64 if name != "whisper" else None)
    left_out = _asked(name, sequence_length=64, decoder_length=None)

    assert left_out.allocated_bytes == said.allocated_bytes
    assert any("decoder_length = 64" in warning for warning in left_out.warnings)


def test_whisper_reads_one_length_of_audio() -> None:
    """Two frames a position, no more and no fewer; and a sequence is either stack's."""
    with pytest.raises(InvalidInputError, match="reads 192"):
        _asked("whisper", audio_frames=3000)
    with pytest.raises(InvalidInputError, match="has 96 positions"):
        _asked("whisper", sequence_length=50)
    with pytest.raises(InvalidInputError, match="learned positions for 64"):
        _asked("whisper", decoder_length=65)
    with pytest.raises(InvalidInputError, match="reads no audio"):
        _asked("t5", audio_frames=3000)


def test_a_decoder_alone_has_no_second_length() -> None:
    """A llama is asked for a decoder beside its encoder, which it has not."""
    model = load_architecture(resolve_model("llama-2-7b"))

    with pytest.raises(NotModelledError, match="no encoder-decoder"):
        estimate(model, a_training(decoder_length=64), layout=Layout(), device=a_device())
    with pytest.raises(InvalidInputError, match="reads no audio"):
        estimate(model, a_training(audio_frames=3000), layout=Layout(), device=a_device())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cache": Cache.STATIC}, "cache"),
        ({"num_beams": 4}, "beam search"),
        ({"weight_dtype": "fp16", "kv_cache_dtype": "fp16"}, "keeps in fp32"),
    ],
)
def test_serving_refuses_what_has_no_term(changes: dict[str, Any], words: str) -> None:
    """Static caches, beams, and the fp32 part of fp16 weights."""
    dtype = type(a_serving().weight_dtype)
    given = {
        name: dtype(value) if name.endswith("dtype") else value for name, value in changes.items()
    }

    with pytest.raises(NotModelledError, match=words):
        estimate(a_two_stack_model("t5"), a_serving(**given), layout=Layout(), device=a_device())


def test_a_served_decoder_keeps_to_its_positions() -> None:
    """Whisper's decoder has 64 of them, the first tokens included."""
    with pytest.raises(InvalidInputError, match="learned positions for 64"):
        estimate(
            a_two_stack_model("whisper"),
            a_serving(prompt_tokens=4, output_tokens=61),
            layout=Layout(),
            device=a_device(),
        )


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("t5", {"precision": "fp16"}, "keeps in fp32"),
        ("whisper", {"precision": "fp16"}, "clamps its hidden states"),
        ("t5", {"attention": Attention.FLASH}, "get a bias"),
        ("t5", {"method": Method.QLORA, "lora": Lora(rank=4)}, "keeps in fp32"),
        (
            "bart",
            {"activation_checkpointing": Checkpointing.SELECTIVE, "selective_every": 2},
            "two stacks",
        ),
    ],
)
def test_training_refuses_what_has_no_term(name: str, changes: dict[str, Any], words: str) -> None:
    """What fp16 and quantised weights change, kernels that take no bias, and every n-th layer of
    two stacks.
    """
    with pytest.raises(NotModelledError, match=words):
        _asked(name, **changes)


def test_whisper_has_no_use_for_a_padding_mask() -> None:
    """Its audio is padded to its one length and looked at whole, which the answer says."""
    padded, whole = _asked("whisper", padding_mask=True), _asked("whisper")

    assert padded.allocated_bytes == whole.allocated_bytes
    assert any("padding_mask has no effect" in warning for warning in padded.warnings)


def test_a_formula_counts_both_stacks() -> None:
    """Tokens of the encoder through its layers, those of the decoder through its own; logits are
    the decoder's.
    """
    answer = _asked("whisper")

    formulas = {component.name: component.formula for component in answer.components}
    assert formulas["activations"].startswith(
        "2 x 96 tokens through 3 layers + 2 x 32 tokens through 3 layers, "
    )
    assert formulas["logits"].startswith("2 x 32 tokens x 640 vocabulary")


@pytest.mark.parametrize("model_type", ["bart", "mbart"])
def test_untied_tables_are_refused(model_type: str) -> None:
    """Untied, transformers gives encoder, decoder and head a table each; none is left out."""
    with pytest.raises(NotModelledError) as refused:
        architecture_from_config({"model_type": model_type, "tie_word_embeddings": False})

    assert refused.value.field == "tie_word_embeddings"
