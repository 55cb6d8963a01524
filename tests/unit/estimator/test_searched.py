"""Questions that a search found wrong, with the bytes that the models' own code took.

``python -m tests.accuracy.search`` draws and traces them: live bytes of small models of
transformers 5.23 under torch 2.13, forward and backward.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.values.batches import SequencePacking
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method
from tests.accuracy.contract import CAST_AT_GATHER
from tests.accuracy.search.estimating import estimate_peaks
from tests.accuracy.search.questions import SERVE, TRAIN, Question

_SCALARS = 1600
"""Bytes of scalars, masks of images and rows of one number a token, which nobody counts."""
_SHARDED: dict[str, Any] = {
    "layout": {"data_parallel": 8, "sharding": Sharding.FSDP2, "zero_stage": 3},
    "precision": CAST_AT_GATHER,
}
_AUTOCAST = {"precision": POLICIES["amp_bf16"]}
_SHORT = {"sequence_length": 4}
_SPREAD = _SHARDED | {"layout": _SHARDED["layout"] | {"data_parallel": 64}}
_MIXED_UNITS = {
    "layout": _SHARDED["layout"],
    "sequence_length": 4,
    "changes": {"vocab_size": 64, "num_hidden_layers": 4},
}
"""Weights in bf16 beside adapters in fp32, gathered as bytes, where gathering takes the most."""
_MASTERS = {"precision": POLICIES["bf16_mixed"]}
_SINGLE = {"weight_dtype": DType.FP32, "kv_cache_dtype": DType.FP32}
_LORA = {"method": Method.LORA, "lora": Lora()}
_DORA = {"method": Method.LORA, "lora": Lora(variant="dora")}
_DROPPED_DORA = {"method": Method.LORA, "lora": Lora(variant="dora", dropout=0.1)}
_FULL = {"activation_checkpointing": Checkpointing.FULL}
_REENTRANT = _FULL | {"reentrant_checkpointing": True}
_UNALIGNED = {"sequence_length": 100, "padding_mask": True}
"""Rows that the memory-efficient kernel fills up, of masks to 8 columns and of sums to 32."""
_NARROW = {"changes": {"hidden_size": 96, "num_attention_heads": 16}}
"""Heads of 6, which flash attention reads padded to 8."""


def _select(every: int) -> dict[str, Any]:
    return {"activation_checkpointing": Checkpointing.SELECTIVE, "selective_every": every}


def _show(count: int, tokens: int) -> dict[str, Any]:
    return {"num_images": count, "image_tokens": tokens}


@pytest.mark.parametrize(
    ("model", "words", "forward", "backward"),
    [
        ("llama", _select(2), 6310320, 6820256),
        ("llama", _select(4), 6903240, 7413176),
        ("llama", _select(3) | {"changes": {"num_hidden_layers": 6}}, 10846200, 11356136),
        ("llava", _select(2), 7231952, 7741888),
        ("llava", _select(2) | _show(2, 16), 8029448, 8539384),
        ("qwen2_vl", _select(2), 6804688, 7314624),
        ("llama", _FULL | {"frozen": ("embedding",)}, 5205400, 5913760),
        ("llama", _select(2) | {"frozen": ("embedding",)}, 5798320, 6308256),
        ("t5", _FULL | {"frozen": ("embedding",)}, 6649604, 8167444),
        ("qwen2_5_vl", _FULL | _show(2, 16) | {"frozen": ("vision",)}, 7078752, 7807024),
        ("llava", _SHARDED | _show(2, 16), 6039544, 6549480),
        ("qwen2_vl", _SHARDED | _show(2, 16), 9012544, 9522480),
        ("qwen2_5_vl", _SHARDED | _FULL | _show(2, 16), 6225920, 7337992),
        ("whisper", _SHARDED | {"sequence_length": 50}, 5775908, 6541748),
        ("bart", _SHARDED, 6602536, 7626536),
        ("mbart", _SHARDED | _LORA | _SHORT, 2989968, 2796888),
        ("bert", _UNALIGNED, 8696324, 9496324),
        ("bart", _UNALIGNED, 12383884, 13183884),
        (
            "bert",
            _SHARDED | {"head": Head.NONE, "changes": {"vocab_size": 20000}, "micro_batch_size": 1},
            16258304,
            20923336,
        ),
        ("llama", _SHARDED | _LORA | _SHORT | {"head": Head.QUESTION_ANSWERING}, 1852800, 1691056),
        (
            "bert",
            _SPREAD | _LORA | _SHORT | {"head": Head.SEQUENCE_CLASSIFICATION},
            2429664,
            2275416,
        ),
        (
            "llama",
            {"layout": _SPREAD["layout"], "changes": {"hidden_size": 1024}}
            | _LORA
            | _SHORT
            | {"head": Head.QUESTION_ANSWERING},
            33124856,
            25839912,
        ),
        ("vit", {"layout": _SPREAD["layout"], "sequence_length": 17} | _LORA, 3436362, 3165046),
        ("llama", _MIXED_UNITS | _DORA, 2551872, 1815888),
        ("llama", _MIXED_UNITS | {"method": Method.PEFT, "peft": "miss"}, 1385832, 1138296),
        ("bert", _MASTERS | {"head": Head.NONE}, 12955464, 13198668),
        ("roberta", _MASTERS | {"head": Head.NONE}, 12957000, 13200204),
        (
            "bert",
            _MASTERS | {"changes": {"tie_word_embeddings": False}},
            15479404,
            15991404,
        ),
        ("whisper", _MASTERS, 18133220, 18645220),
        ("llama", _FULL | _AUTOCAST | _DORA, 6094488, 7094944),
        ("llama", _FULL | _AUTOCAST | _DORA | {"sequence_length": 2}, 4625584, 5247344),
        ("glm", _AUTOCAST | _DORA, 10430112, 10862224),
        ("llama", _NARROW, 5938744, 6448680),
        ("llama", _NARROW | _REENTRANT, 4314096, 4824032),
        ("llama4_text", _AUTOCAST, 44546552, 45382120),
        ("gpt_neox", _AUTOCAST | {"method": Method.PEFT, "peft": "miss"}, 7776896, 8172144),
        (
            "llama",
            _FULL
            | _AUTOCAST
            | {
                "padding_mask": True,
                "sequence_length": 136,
                "head": Head("sequence_classification"),
            },
            8888672,
            11132912,
        ),
        ("opt", _LORA | {"changes": {"word_embed_proj_dim": 64}}, 6062432, 6555984),
        ("qwen3_next", _FULL, 7100520, 9238120),
        ("jamba", {}, 39227384, 44359680),
        ("falcon", _REENTRANT, 5331608, 5942920),
        (
            "roberta",
            _select(2) | _AUTOCAST | {"frozen": ("norm",), "attention": Attention.EAGER},
            13541048,
            13919624,
        ),
        ("mistral3", _DORA, 10036768, 10513936),
        ("modernbert", _FULL, 8804984, 10585696),
        ("modernbert", _FULL | {"attention": Attention.EAGER}, 8817272, 10714696),
        ("llama", _DROPPED_DORA, 12135392, 12612560),
        ("llama", _DROPPED_DORA | _AUTOCAST | _FULL, 6094488, 7592096),
        ("llama", _DROPPED_DORA | _REENTRANT, 4104088, 6910368),
        ("llama", _DROPPED_DORA | _AUTOCAST | {"layout": _SHARDED["layout"]}, 9836168, 10252944),
        ("bert", _DROPPED_DORA, 14389272, 13567004),
        ("gpt2", _DROPPED_DORA, 14834504, 14408528),
        ("t5", {"sequence_length": 129}, 17772415, 18738367),
        ("mt5", _AUTOCAST | {"sequence_length": 129}, 36414403, 37314311),
        ("t5", {"sequence_length": 100, "padding_mask": True}, 15280564, 16029364),
        ("t5", _FULL | {"sequence_length": 40, "decoder_length": 33}, 6524020, 8371204),
        (
            "whisper",
            _FULL | _LORA | {"sequence_length": 50, "decoder_length": 20},
            4870672,
            6023740,
        ),
        ("vit", _FULL | _LORA | {"sequence_length": 17}, 2974372, 3428760),
        ("opt", {"packing": SequencePacking.PADDING_FREE}, 5993304, 6504272),
        (
            "llama",
            {"packing": SequencePacking.PADDING_FREE, "micro_batch_size": 1},
            5849816,
            6105296,
        ),
    ],
)
def test_a_step_is_what_the_model_takes(
    model: str, words: dict[str, Any], forward: int, backward: int
) -> None:
    """Its phases are those that were traced."""
    options = {name: word for name, word in words.items() if name not in _PARTS}
    parts: dict[str, Any] = {name: word for name, word in words.items() if name in _PARTS}

    peaks = estimate_peaks(Question(model=model, base=TRAIN, options=options, **parts))

    assert abs(peaks["forward"] - forward) <= _SCALARS
    assert abs(peaks["backward"] - backward) <= _SCALARS


@pytest.mark.parametrize(
    ("model", "changes", "prefill", "decode"),
    [
        ("granite", {}, 1834368, 1519384),
        ("granitemoe", {}, 4010400, 3291928),
        ("gemma2", {}, 1809280, 1321160),
        ("cohere", {}, 1675904, 1262616),
        ("granite", _NARROW["changes"], 1268568, 982368),
    ],
)
def test_what_scales_logits_is_served(
    model: str, changes: dict[str, Any], prefill: int, decode: int
) -> None:
    """Logits are there once more while they are scaled, in decode as in prefill."""
    peaks = estimate_peaks(Question(model=model, base=SERVE, changes=changes))

    assert abs(peaks["prefill"] - prefill) <= _SCALARS
    assert abs(peaks["decode"] - decode) <= _SCALARS


@pytest.mark.parametrize(
    ("model", "options", "prefill", "decode"),
    [
        ("llama", {"attention": Attention.EFFICIENT}, 1834368, 1570344),
        ("falcon", {"attention": Attention.MATH} | _SINGLE, 3487360, 2776106),
        ("falcon", {"attention": Attention.EAGER, "num_sequences": 1} | _SINGLE, 3187840, 2644280),
    ],
)
def test_a_kernel_that_is_asked_for_is_served(
    model: str, options: dict[str, Any], prefill: int, decode: int
) -> None:
    """It repeats keys for a single query too, or shares an only head as it lies."""
    peaks = estimate_peaks(Question(model=model, base=SERVE, options=options))

    assert abs(peaks["prefill"] - prefill) <= _SCALARS
    assert abs(peaks["decode"] - decode) <= _SCALARS


@pytest.mark.parametrize(
    ("model", "prefill"),
    [("gemma3_text", 3579520), ("exaone4", 3937408), ("ministral", 3795072), ("olmo3", 4053760)],
)
def test_a_mask_is_filled_up_for_its_kernel(model: str, prefill: int) -> None:
    """Of 300 columns it makes 304, in a copy, and keeps no sums of rows without a graph."""
    peaks = estimate_peaks(Question(model=model, base=SERVE, options={"prompt_tokens": 300}))

    assert abs(peaks["prefill"] - prefill) <= 64


@pytest.mark.parametrize(
    ("model", "prefill", "decode"),
    [("qwen2_vl", 3989504, 2485232), ("qwen2_5_vl", 4022144, 2517872)],
)
def test_generate_gives_positions_of_three_axes(model: str, prefill: int, decode: int) -> None:
    """Beside those of the text, in prefill and at each token after it."""
    options = {"client": Client.GENERATE, "prompt_tokens": 300}

    peaks = estimate_peaks(Question(model=model, base=SERVE, options=options))

    assert abs(peaks["prefill"] - prefill) <= 64
    assert abs(peaks["decode"] - decode) <= 64


def test_generate_samples_without_the_hidden_state() -> None:
    """What the model returned is all that is left of its forward while a token is chosen."""
    options = {"client": Client.GENERATE, "num_sequences": 4, "prompt_tokens": 2}
    changes = {"vocab_size": 8000}

    peaks = estimate_peaks(Question(model="qwen2", base=SERVE, options=options, changes=changes))

    assert abs(peaks["prefill"] - 5182656) <= 512
    assert abs(peaks["decode"] - 5313952) <= 512


def test_a_checkpoint_holds_masters_of_a_pooler_without_moments() -> None:
    """Of BERT's 805 376 weights the pooler's 128 x 129 get no gradient, but a copy in fp32."""
    precision = POLICIES["bf16_mixed"]
    asked = Question(model="bert", base=TRAIN, options={"precision": precision}, head=Head.NONE)
    device = Device(name="any", capacity_bytes=2**40, usable_bytes=2**40)

    answer = estimate(asked.build(), asked.workload, layout=Layout(), device=device)

    assert answer.checkpoint is not None
    assert answer.checkpoint.weights == 2 * 805376
    assert answer.checkpoint.optimizer == 4 * 805376 + 8 * (805376 - 128 * 129)


_PARTS = frozenset({"layout", "changes", "head", "layers"})
