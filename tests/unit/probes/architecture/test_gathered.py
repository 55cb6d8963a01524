"""Passes of weights that FSDP2 casts, beside buffers that it leaves."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import TrainWorkload
from tests.accuracy.contract import CAST_AT_GATHER
from tests.traces.recording import record_kept

_BLENDERBOT: dict[str, Any] = {
    "model_type": "blenderbot",
    "d_model": 64,
    "encoder_layers": 3,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 160,
    "decoder_ffn_dim": 160,
    "vocab_size": 1000,
    "max_position_embeddings": 1024,
}
_XGLM: dict[str, Any] = {
    "model_type": "xglm",
    "d_model": 64,
    "num_layers": 4,
    "attention_heads": 4,
    "ffn_dim": 160,
    "vocab_size": 1000,
    "max_position_embeddings": 1024,
}
_STEP = TrainWorkload(sequence_length=48, micro_batch_size=2, precision=CAST_AT_GATHER)
_RANKS = Layout(data_parallel=8, sharding=Sharding.FSDP2, zero_stage=3)


def measure_backward(model: RecordedArchitecture) -> int:
    """Return the highest bytes of backward on one of eight ranks."""
    return dict(build_train_timeline(model, _STEP, _RANKS).phases)["backward_pass"]


@pytest.mark.parametrize(("config", "traced"), [(_BLENDERBOT, 4_063_776), (_XGLM, 3_182_552)])
def test_buffers_in_fp32_are_as_a_trace_on_ranks_has_them(
    config: dict[str, Any], traced: int
) -> None:
    """Blenderbot's bias makes all logits fp32, XGLM's positions what is before the first layer.

    Traced on rank 0 of 8 with FSDP2's own units (``tests/accuracy/traced.py``).
    """
    model = build_recorded(record_kept(config, "half", "gathered"))

    assert measure_backward(model) == pytest.approx(traced, rel=1e-3)


def test_a_recording_of_before_has_its_one_pass_in_16_bits() -> None:
    """It lacks the other, which is that of a model whose buffers stay in its weights' format."""
    recorded = record_kept(_BLENDERBOT, "half", "gathered")
    before = replace(recorded, passes={"half": recorded.passes["half"]})

    assert measure_backward(build_recorded(before)) < measure_backward(build_recorded(recorded))


def test_rotary_frequencies_alone_make_no_other_pass() -> None:
    """They are in fp32 beside weights of any format."""
    config = {
        "model_type": "helium",
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 1000,
    }

    assert list(record_kept(config, "half", "gathered").passes) == ["half"]
