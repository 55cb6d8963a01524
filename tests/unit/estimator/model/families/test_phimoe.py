"""Phi-MoE: its parameters by hand, what it refuses, and small steps against traces of them."""

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention
from tests.builders import a_device, a_serving
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_CONFIG: dict[str, object] = {
    "model_type": "phimoe",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_local_experts": 8,
    "attention_bias": True,
    "lm_head_bias": True,
}
_STEPS = (
    SmallStep(name="one sequence", config=_CONFIG, forward=402_832, backward=1_124_232),
    SmallStep(name="two sequences", config=_CONFIG, batch=2, forward=804_408, backward=1_205_032),
    SmallStep(
        name="checkpointed",
        config=_CONFIG,
        batch=2,
        checkpointed=True,
        forward=281_496,
        backward=1_207_528,
    ),
    SmallStep(
        name="fp32",
        config=_CONFIG,
        batch=2,
        precision="fp32",
        forward=1_190_904,
        backward=2_370_152,
    ),
    SmallStep(
        name="autocast",
        config=_CONFIG,
        batch=2,
        precision="amp_bf16",
        forward=1_344_632,
        backward=2_331_240,
    ),
    SmallStep(
        name="adapters",
        config=_CONFIG,
        batch=2,
        lora=4,
        targets=("q_proj", "v_proj"),
        forward=722_808,
        backward=814_184,
    ),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within a hundredth of the trace."""
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.01)


def test_parameters_are_counted() -> None:
    """Attention and head with biases, layer norms with two vectors each, eight experts and a router
    in every layer.
    """
    attention = (64 + 1) * 64 + 2 * (64 + 1) * 32 + (64 + 1) * 64
    layer = attention + 8 * 64 + 8 * 3 * 64 * 96 + 4 * 64

    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.total == 3 * layer + 2 * 512 * 64 + 512 + 2 * 64
    assert counts.total - counts.active == 3 * 6 * 3 * 64 * 96


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_CONFIG)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("field", "value"), [("input_jitter_noise", 0.1), ("num_experts_per_tok", 4)]
)
def test_what_has_no_term_is_refused(field: str, value: float) -> None:
    """Noise on the input is not recorded, and the router cannot choose more than two."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | {field: value})

    assert getattr(refused.value, "field", None) == field


def test_serving_is_what_was_traced() -> None:
    """Without training nothing is sampled: the best expert is taken, and the best of the others."""
    workload = a_serving(
        num_sequences=2, prompt_tokens=24, output_tokens=2, attention=Attention.EAGER
    )

    answer = estimate(a_family(**_CONFIG), workload, layout=Layout(), device=a_device())

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 19_968
    assert instants["prefill"] - instants["load"] == pytest.approx(146_560, rel=0.01)
    assert instants["decode"] - instants["load"] == pytest.approx(36_640, rel=0.01)
