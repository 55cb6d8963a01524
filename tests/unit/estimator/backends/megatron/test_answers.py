"""Answers for Megatron-LM: losses, precisions, warnings, and what is remembered between
questions.
"""

from dataclasses import replace

import pytest

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, Framework
from tests.builders import a_model, a_training
from tests.unit.estimator.backends.megatron.builders import (
    H100,
    a_gpt3,
    a_megatron_layout,
    a_megatron_step,
    answered,
)

_TOKENS, _VOCABULARY = 4 * 1024, 50304


def test_a_fused_loss_makes_no_fp32_logits() -> None:
    """Transformer Engine's writes the gradient where the 16-bit logits were: four bytes per logit
    less.
    """
    full, fused = (answered(loss=loss) for loss in (Loss.FULL_LOGITS, Loss.FUSED_CROSS_ENTROPY))

    peaks = [
        {instant.name: instant.allocated_bytes for instant in answer.instants}["loss"]
        for answer in (full, fused)
    ]
    assert peaks[0] - peaks[1] == 4 * _TOKENS * _VOCABULARY


def test_narrow_gradients_are_widened_for_the_step() -> None:
    """Without fp32 gradient buffers the optimizer makes fp32 gradients of all it owns, which stay
    until the next step begins (optimizer.py, training.py).
    """
    answer = answered(precision=POLICIES["fp16_mixed"])

    instants = {instant.name: instant for instant in answer.instants}
    step, gradients = instants["optimizer_step"], 4 * a_gpt3().counts.total
    assert step.parts["gradients"] - instants["forward"].parts["gradients"] == gradients
    assert step.allocated_bytes == answer.steady_bytes


def test_a_checkpoint_holds_the_whole_model() -> None:
    """Weights in 16 bit, masters and moments in fp32, whatever the ranks."""
    answer = answered(
        layout={"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2, "zero_stage": 1}
    )

    assert answer.checkpoint is not None
    assert (answer.checkpoint.weights, answer.checkpoint.optimizer) == (
        2 * a_gpt3().counts.total,
        12 * a_gpt3().counts.total,
    )


def test_words_without_an_effect_are_named() -> None:
    """Clipping costs a few bytes, and one rank has nobody to share its states with."""
    answer = answered(gradient_clipping=True, layout={"zero_stage": 1})

    assert any("gradient_clipping" in warning for warning in answer.warnings)
    assert any("no effect on one data-parallel rank" in warning for warning in answer.warnings)


def test_what_was_recorded_serves_the_next_question() -> None:
    """The second answer is the first one's equal, and records nothing."""
    plans = PlanCache()
    layout = a_megatron_layout(tensor_parallel=2, pipeline_parallel=2)

    first, second = (
        estimate(a_gpt3(), a_megatron_step(), layout=layout, device=H100, plans=plans)
        for _ in range(2)
    )

    assert first == second
    assert len(plans.get_memo("megatron")) == 1


def test_context_ranks_exchange_keys_and_values() -> None:
    """Unfused attention meets the keys of all ranks: its scores fall with the ranks, not with their
    square.
    """
    one, two = (
        answered(layout={"context_parallel": ranks}, attention=Attention.EAGER) for ranks in (1, 2)
    )

    beyond = [answer.allocated_bytes - answer.steady_bytes for answer in (one, two)]
    assert 0.45 < beyond[1] / beyond[0] < 0.55


def test_experts_beside_tensor_ranks_need_sequence_parallelism() -> None:
    """Megatron Core asserts it; the answer says where."""
    model = architecture_from_config(
        {
            "model_type": "mixtral",
            "vocab_size": 512,
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 96,
        },
    )

    with pytest.raises(InvalidInputError, match="sequence_parallel"):
        answered(model, layout={"tensor_parallel": 2})
    answer = answered(
        model,
        layout={
            "tensor_parallel": 2,
            "sequence_parallel": True,
            "data_parallel": 2,
            "expert_parallel": 2,
        },
    )
    assert any("routed evenly" in line for line in answer.assumptions)


def test_autocast_has_no_term() -> None:
    """Megatron-LM keeps its weights in the dtype that it computes in."""
    with pytest.raises(NotModelledError, match="compute dtype"):
        answered(precision=replace(POLICIES["amp_bf16"]))


def test_the_worst_stage_is_the_worst_once_corrected() -> None:
    """What was measured can move the peak to another stage, whose numbers are then all of the
    answer.
    """
    step, layout = a_megatron_step(), a_megatron_layout(pipeline_parallel=4)
    plain = estimate(a_gpt3(), step, layout=layout, device=H100)
    less = InstantCorrection(fixed_bytes=-(2**40))
    known = Corrections(
        calibration="c", proven=True, instants=dict.fromkeys(("forward", "loss", "backward"), less)
    )

    found = estimate(a_gpt3(), step, layout=layout, device=H100, corrections=known)

    assert found.stages[found.worst_pipeline_stage].allocated_bytes == found.allocated_bytes
    assert found.allocated_bytes == max(stage.allocated_bytes for stage in found.stages)
    assert found.allocated_bytes < plain.allocated_bytes


def test_frameworks_remember_apart() -> None:
    """What one framework drops when it has too much is its own."""
    plans, device = PlanCache(), H100
    estimate(a_gpt3(), a_megatron_step(), layout=a_megatron_layout(), device=device, plans=plans)
    estimate(
        a_model(),
        a_training(framework=Framework.TORCHTITAN),
        layout=Layout(),
        device=device,
        plans=plans,
    )

    assert len(plans.get_memo("megatron")) == len(plans.get_memo("torchtitan passes")) == 1


def test_library_workspaces_are_counted_once() -> None:
    """Megatron's own temporaries have those of cuBLAS and of Transformer Engine."""
    components = {part.name for part in answered().components if part.bytes}

    assert "library_workspaces" not in components
