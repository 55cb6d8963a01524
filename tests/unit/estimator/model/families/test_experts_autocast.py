"""Experts under autocast, which knows no grouped product: their stacks stay fp32, and the rows are
cast to them.
"""

import pytest

from tests.unit.estimator.model.families.small_steps import SmallStep

_SHAPE: dict[str, object] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_experts_per_tok": 2,
}
_OLMOE = _SHAPE | {"model_type": "olmoe", "num_experts": 8}
_MIXTRAL = _SHAPE | {"model_type": "mixtral", "num_local_experts": 8}
_QWEN2 = _SHAPE | {
    "model_type": "qwen2_moe",
    "num_experts": 8,
    "moe_intermediate_size": 48,
    "shared_expert_intermediate_size": 80,
}
_GPT_OSS = _SHAPE | {
    "model_type": "gpt_oss",
    "num_hidden_layers": 4,
    "head_dim": 16,
    "num_local_experts": 8,
}
_STEPS = (
    SmallStep(
        name="olmoe",
        config=_OLMOE,
        sequence=32,
        precision="amp_bf16",
        forward=1_069_424,
        backward=2_269_416,
    ),
    SmallStep(
        name="olmoe, checkpointed",
        config=_OLMOE,
        sequence=32,
        precision="amp_bf16",
        checkpointed=True,
        forward=368_368,
        backward=2_273_768,
    ),
    SmallStep(
        name="mixtral",
        config=_MIXTRAL,
        batch=2,
        sequence=32,
        precision="amp_bf16",
        forward=1_883_768,
        backward=2_466_920,
    ),
    SmallStep(
        name="qwen2_moe",
        config=_QWEN2,
        batch=2,
        sequence=32,
        precision="amp_bf16",
        forward=1_900_664,
        backward=2_013_544,
    ),
    SmallStep(
        name="gpt_oss",
        config=_GPT_OSS,
        batch=2,
        sequence=32,
        precision="amp_bf16",
        forward=2_954_200,
        backward=3_136_792,
    ),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within a thousandth of the trace."""
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.001)
