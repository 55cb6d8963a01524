"""Dense variants, against counted parameters and live bytes of real models of their classes, and by
hand.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.kv_cache import COUNTER_BYTES, count_cache_bytes
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.values.errors import EstimatorError, InvalidConfigError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Cache, Checkpointing
from tests.builders import a_device, a_serving, a_training
from tests.unit.estimator.model.families.counted_variants import ROWS, Counted

_SMALL: dict[str, object] = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 3000,
}
_TOLERANCE_BYTES = 1024
"""CPU's allocator rounds to 64 bytes, and a layer norm on a CPU keeps narrower statistics for
16-bit rows.
"""


def _model(**changes: object) -> Architecture:
    return architecture_from_config(_SMALL | changes)


def _alternating(**changes: object) -> Architecture:
    """Return a gemma 3 of six layers, of which the third and the sixth read everything, with a
    window of 16.
    """
    return _model(
        model_type="gemma3_text",
        head_dim=32,
        sliding_window=16,
        sliding_window_pattern=3,
        **changes,
    )


def _step(model: Architecture, **changes: Any) -> Estimate:  # noqa: ANN401 - any field of a workload
    workload = a_training(
        sequence_length=64, micro_batch_size=2, optimizer="sgd", keeps_logits=True, **changes
    )
    return estimate(model, workload, layout=Layout(), device=a_device())


def _above_the_weights(answer: Estimate, model: Architecture, width: int) -> tuple[int, int]:
    buffers = answer.steady_bytes
    assert buffers >= model.parameter_counts().total * width
    forward, loss = (
        answer.phases[0].allocated_bytes,
        next(i for i in answer.instants if i.name == "loss").allocated_bytes,
    )
    return forward - buffers, loss - buffers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.changes["model_type"]))
def test_parameters_are_those_of_the_built_model(row: Counted) -> None:
    """Every weight, bias and norm is there, and no other."""
    assert _model(**row.changes).parameter_counts().total == row.parameters


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.changes["model_type"]))
def test_a_step_holds_what_the_real_model_held(row: Counted) -> None:
    """Both peaks at the loss, with every tensor that all six layers keep in fp32 under eager
    attention.
    """
    model = _model(**row.changes)

    answer = _step(model, precision="fp32", attention=Attention.EAGER)

    assert _above_the_weights(answer, model, 4) == pytest.approx(row.fp32, abs=_TOLERANCE_BYTES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.changes["model_type"]))
def test_a_checkpointed_step_holds_what_the_real_model_held(row: Counted) -> None:
    """Only the layers' inputs, the shared tables and the masks are left at the loss, in bf16."""
    model = _model(**row.changes)

    answer = _step(
        model,
        precision="bf16",
        attention=Attention.EAGER,
        activation_checkpointing=Checkpointing.FULL,
    )

    assert _above_the_weights(answer, model, 2) == pytest.approx(
        row.checkpointed, abs=_TOLERANCE_BYTES
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.changes["model_type"]))
def test_a_specification_is_read_back(row: Counted) -> None:
    """What ``describe`` writes is the same model again, kinds of layers included."""
    model = _model(**row.changes)

    again = architecture_from_spec(model.describe())

    assert again.fingerprint() == model.fingerprint()
    assert (again.counts, again.order, again.masks) == (model.counts, model.order, model.masks)


def test_no_number_of_key_heads_is_as_many_as_heads() -> None:
    """A smollm3 whose config says null has no groups, although its default is four heads."""
    assert (
        _model(
            model_type="smollm3", num_attention_heads=8, num_key_value_heads=None
        ).spec.num_key_value_heads
        == 8
    )


def test_a_cut_keeps_the_order_of_kinds() -> None:
    """Four layers of a period of three are two windows, a full layer and a window; one layer is of
    one kind.
    """
    model = _alternating()

    assert [count for _, count in model.blocks] == [4, 2]
    assert [count for _, count in model.with_layers(4).blocks] == [3, 1]
    assert model.with_layers(4).order == (0, 0, 1, 0)
    assert len(model.with_layers(2).blocks) == 1


def test_periods_are_recorded_once() -> None:
    """Six layers are a period of two runs, twice; seven add the first layer of a third period."""
    (period, times), *rest = _alternating().runs()

    assert ([count for _, count in period], times, rest) == ([2, 1], 2, [])
    assert [times for _, times in _alternating(num_hidden_layers=7).runs()] == [2, 1]


def test_a_full_window_costs_a_mask_and_a_bias_for_each_layer() -> None:
    """At 16 tokens the window is filled: two bytes of bias per pair of positions of each sequence
    in each sliding layer, and four for each of 32 rows of four heads where flash attention keeps
    them for 16.
    """
    windowed, wide = (
        estimate(
            _model(model_type="mistral", num_key_value_heads=4, sliding_window=size),
            a_training(sequence_length=16, micro_batch_size=3, precision="bf16", keeps_logits=True),
            layout=Layout(),
            device=a_device(),
        )
        for size in (16, 17)
    )

    biases, sums, random_states = 6 * 3 * 16 * 16 * 2, 6 * 3 * 4 * (32 - 16) * 4, 6 * (24 - 16)
    difference = windowed.phases[1].allocated_bytes - wide.phases[1].allocated_bytes
    assert difference == biases + sums - random_states


def test_a_window_holds_the_prompt_first_and_a_window_later() -> None:
    """Per sequence and layer: a view of all 40 tokens after prefill, of 16 in decode, 15 in the
    end; full layers hold all.
    """
    model, workload = _alternating(), a_serving(num_sequences=2, prompt_tokens=40, output_tokens=8)
    token = 2 * 2 * 32 * 2 * 2
    counters = 4 * COUNTER_BYTES

    assert count_cache_bytes(model, workload).prefill == token * 6 * 40 + counters
    assert count_cache_bytes(model, workload).decode == token * (4 * 16 + 2 * 47) + counters
    assert count_cache_bytes(model, workload).final == token * (4 * 15 + 2 * 48) + counters


def test_a_static_cache_is_as_long_as_the_window_where_there_is_one() -> None:
    """Sliding layers are made for 16 tokens, the others for all; every layer counts its tokens."""
    model, workload = (
        _alternating(),
        a_serving(num_sequences=1, prompt_tokens=40, output_tokens=8, cache=Cache.STATIC),
    )

    assert (
        count_cache_bytes(model, workload).final
        == 2 * 2 * 32 * 2 * (4 * 16 + 2 * 48) + 6 * COUNTER_BYTES
    )


def test_capped_scores_fall_back_to_eager() -> None:
    """SDPA has no soft cap, so that asking for it is asking for eager."""
    model = _model(model_type="gemma2", head_dim=32)

    answers = [
        _step(model, precision="bf16", attention=kernel)
        for kernel in (Attention.SDPA, Attention.EAGER)
    ]

    assert answers[0].allocated_bytes == answers[1].allocated_bytes


@pytest.mark.parametrize("kernel", [Attention.FLASH, Attention.EFFICIENT, Attention.MATH])
def test_a_kernel_without_a_cap_is_refused(kernel: Attention) -> None:
    """The refusal names the two that run."""
    with pytest.raises(NotModelledError) as refusal:
        _step(_model(model_type="gemma2", head_dim=32), precision="bf16", attention=kernel)

    assert refusal.value.field == "workload.attention"
    assert "eager" in refusal.value.message


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (
            {"model_type": "gemma3_text", "head_dim": 32, "layer_types": ["chunked_attention"] * 6},
            "layer_types",
        ),
        (
            {"model_type": "gemma3_text", "head_dim": 32, "layer_types": ["full_attention"] * 5},
            "layer_types",
        ),
        ({"model_type": "ministral"}, "head_dim"),
        ({"model_type": "gemma2", "head_dim": 32, "sliding_window": None}, "sliding_window"),
        ({"model_type": "qwen2", "layer_types": ["sliding_attention"] * 6}, "sliding_window"),
        ({"model_type": "smollm3", "no_rope_layers": [1, 0, 2, 1, 1, 1]}, "no_rope_layers"),
        ({"model_type": "smollm3", "layer_types": ["full_attention"] * 5}, "layer_types"),
        ({"model_type": "phi", "partial_rotary_factor": 1.5}, "partial_rotary_factor"),
        ({"model_type": "granite", "hidden_act": "swish9"}, "activation"),
    ],
)
def test_a_contradiction_is_refused(changes: Mapping[str, object], field: str) -> None:
    """What transformers would not build is not read either."""
    with pytest.raises(EstimatorError) as refusal:
        _model(**changes)

    assert isinstance(refusal.value, InvalidConfigError)
    assert refusal.value.field == field
