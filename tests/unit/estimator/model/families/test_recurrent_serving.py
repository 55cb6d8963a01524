"""Serving of models that keep a state for each sequence, against traces of small ones.

Bytes are above the weights, of live storages under fake tensors (torch 2.13, transformers 5.23),
with eager attention.
"""

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention
from tests.builders import a_device, a_serving
from tests.unit.estimator.model.families.recorded_peaks import a_family

_SHAPE: dict[str, object] = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 3}
_FALCON = _SHAPE | {"model_type": "falcon_mamba"}
_MAMBA2 = _SHAPE | {
    "model_type": "mamba2",
    "num_heads": 8,
    "head_dim": 16,
    "state_size": 16,
    "n_groups": 2,
    "chunk_size": 16,
}
_JAMBA = _SHAPE | {
    "model_type": "jamba",
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_experts": 8,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "mamba_dt_rank": 8,
}
_TRACED = (
    (_FALCON, 1, DType.BF16, 708_288, 79_176, 27_648),
    (_FALCON, 2, DType.FP32, 1_513_856, 158_480, 61_440),
    (_MAMBA2, 1, DType.BF16, 308_992, 64_056, 29_184),
    (_MAMBA2, 2, DType.BF16, 617_952, 128_080, 58_368),
    (_MAMBA2, 2, DType.FP32, 690_144, 157_296, 67_584),
    (_JAMBA, 1, DType.BF16, 709_632, 82_436, 30_976),
    (_JAMBA, 2, DType.FP32, 1_530_944, 172_008, 74_752),
)


@pytest.mark.parametrize(("config", "sequences", "dtype", "prefill", "decode", "cache"), _TRACED)
def test_a_prompt_and_its_tokens_need_what_was_traced(
    config: dict[str, object], sequences: int, dtype: DType, prefill: int, decode: int, cache: int
) -> None:
    """Prefill and decode peak within a hundredth of the trace; what the cache objects hold at the
    end is exact.
    """
    workload = a_serving(
        num_sequences=sequences,
        prompt_tokens=24,
        output_tokens=2,
        weight_dtype=dtype,
        kv_cache_dtype=dtype,
        attention=Attention.EAGER,
    )

    answer = estimate(a_family(**config), workload, layout=Layout(), device=a_device())

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert (
        instants["prefill"] - instants["load"],
        instants["decode"] - instants["load"],
    ) == pytest.approx((prefill, decode), rel=0.01)
    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == cache


def test_states_have_a_component_of_their_own() -> None:
    """Convolutions keep their last positions in bf16, scans their states in fp32, but the last,
    under way at prefill's peak.
    """
    workload = a_serving(num_sequences=1, prompt_tokens=24, output_tokens=2)

    answer = estimate(a_family(**_FALCON), workload, layout=Layout(), device=a_device())

    layers, channels, kernel, states = 3, 128, 4, 16
    parts = {component.name: component.bytes for component in answer.components}
    assert parts["recurrent_state"] == channels * (layers * 2 * kernel + (layers - 1) * 4 * states)
    assert "kv_cache" not in parts
    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token == 0


def test_only_layers_with_attention_keep_tokens() -> None:
    """One of Jamba's four layers has keys and values, two heads of sixteen each."""
    answer = estimate(a_family(**_JAMBA), a_serving(), layout=Layout(), device=a_device())

    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token == 2 * 2 * 16 * 2


def test_states_are_counted_layer_by_layer() -> None:
    """The caches of four layers hold what the traced run held, 884,736 bytes, of which the last
    layer has yet to write its own at the peak of prefill.
    """
    model = load_architecture(resolve_model("mamba-130m")).with_layers(4)

    answer = estimate(
        model,
        a_serving(num_sequences=2, prompt_tokens=256, output_tokens=2),
        layout=Layout(),
        device=a_device(),
    )

    (states,) = [part for part in answer.components if part.name == "recurrent_state"]
    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 884_736
    assert states.bytes == 884_736 - 196_608
    assert "2 sequences x 442368 B" in states.formula
    assert "- 196608 B that are not written yet" in states.formula
