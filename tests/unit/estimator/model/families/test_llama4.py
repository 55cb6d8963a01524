"""Llama 4's text model: small steps against traces of them.

Their silu backward ran as the composite that the model counts (``tape/elementwise.py``), their sums
under autocast as CUDA's.
"""

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import NotModelledError
from tests.unit.estimator.model.families.small_steps import SmallStep

_CONFIG: dict[str, object] = {
    "model_type": "llama4_text",
    "vocab_size": 64,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "intermediate_size_mlp": 160,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "attention_chunk_size": 8192,
}


def _step(name: str, forward: int, backward: int, **how: object) -> SmallStep:
    return SmallStep(
        name=name,
        config=_CONFIG,
        batch=2,
        sequence=32,
        forward=forward,
        backward=backward,
        **how,  # type: ignore[arg-type]  # named as the fields are
    )


_STEPS = (
    _step("bf16", 1_886_080, 2_159_368),
    _step("fp32", 3_501_952, 4_098_952, precision="fp32"),
    _step("autocast", 3_256_192, 3_464_072, precision="amp_bf16"),
    _step("checkpointed", 314_624, 1_462_920, checkpointed=True),
    _step("autocast, checkpointed", 1_205_504, 2_420_232, precision="amp_bf16", checkpointed=True),
    _step("adapters", 1_500_288, 1_676_680, lora=4, targets=("q_proj", "gate_proj")),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak where the trace does, but for a mask that only a later layer's checkpoint
    keeps.
    """
    assert step.estimated() == pytest.approx(
        (step.forward, step.backward), rel=4e-3 if step.checkpointed else 2e-4
    )


def test_lists_that_the_intervals_make_say_nothing_new() -> None:
    """Transformers saves them in every config.json; others are another model."""
    saved = {
        "no_rope_layers": [1, 1, 1, 0],
        "moe_layers": [0, 1, 2, 3],
        "layer_types": [*["chunked_attention"] * 3, "full_attention"],
    }

    assert architecture_from_config(_CONFIG | saved) == architecture_from_config(_CONFIG)
    with pytest.raises(NotModelledError, match="no_rope_layers"):
        architecture_from_config(_CONFIG | {"no_rope_layers": [1, 0, 1, 0]})
