"""Rules of thumb give the numbers that people know them for, and how far they are off."""

from dataclasses import replace

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import GIB
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Framework,
    Method,
    Quantization,
    Workload,
)
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.rule_of_thumb import RuleOfThumb
from service.planner.fit.rules_of_thumb import list_rules_of_thumb
from tests.unit.planner.builders import (
    ADAPTERS,
    CHAT,
    LONG,
    ONE_GPU,
    SHORT,
    ZERO_3,
    a_subject,
    an_estimate,
)

LLAMA_2_7B = 6_738_415_616
GPT2 = 124_439_808


def _rules(
    subject: Evaluator, workload: Workload, layout: Layout = ONE_GPU
) -> dict[str, RuleOfThumb]:
    found = list_rules_of_thumb(subject, workload, layout, subject.evaluate(workload, layout))
    return {rule.name: rule for rule in found}


@pytest.mark.parametrize("num_bytes", [16, 18, 20])
def test_bytes_per_parameter(num_bytes: int) -> None:
    """16, 18 and 20 bytes per parameter of llama-2-7b."""
    rule = _rules(a_subject("llama-2-7b"), LONG)[f"{num_bytes} bytes per parameter"]

    assert rule.bytes == num_bytes * LLAMA_2_7B


def test_stage_three_shards_the_whole_rule() -> None:
    """ZeRO-3 leaves an eighth on each of eight ranks (arXiv:1910.02054, figure 1)."""
    rule = _rules(a_subject("llama-2-7b"), LONG, ZERO_3)["16 bytes per parameter"]

    assert rule.bytes == 2 * LLAMA_2_7B


@pytest.mark.parametrize(("stage", "expected"), [(1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_stages_shard_what_zero_says(stage: int, expected: float) -> None:
    """The three lines of the ZeRO paper's figure 1, for 8 ranks."""
    rule = _rules(a_subject("gpt2"), SHORT, replace(ZERO_3, zero_stage=stage))[
        "16 bytes per parameter"
    ]

    assert rule.bytes == pytest.approx(expected * GPT2, rel=1e-6)


@pytest.mark.parametrize(
    ("policy", "num_bytes"), [("bf16_mixed", 16), ("megatron_bf16", 18), ("deepspeed_bf16", 20)]
)
def test_the_rule_of_the_policy_says_that_it_is_the_sum(policy: str, num_bytes: int) -> None:
    """Of the three, the one that counts this policy's copies says so, and the others say what the
    policy has.
    """
    rules = _rules(a_subject("gpt2"), replace(SHORT, precision=POLICIES[policy]))

    own = rules.pop(f"{num_bytes} bytes per parameter")
    assert own.why.startswith("the sum of")
    assert sum(f"{policy} has {num_bytes}" in rule.why for rule in rules.values()) == 2


def test_off_by_is_the_rule_over_ours_less_one() -> None:
    """A rule that says half is off by minus a half."""
    subject = a_subject("gpt2")
    ours = subject.evaluate(SHORT, ONE_GPU).device_bytes

    rule = _rules(subject, SHORT)["16 bytes per parameter"]

    assert rule.off_by == pytest.approx(16 * GPT2 / ours - 1, abs=1e-4)


def test_adapters_have_two_bytes_per_parameter() -> None:
    """The rule for LoRA counts the frozen model alone."""
    assert _rules(a_subject("gpt2"), ADAPTERS)["2 bytes per parameter (LoRA)"].bytes == 2 * GPT2


@pytest.mark.parametrize(("bits", "name"), [(4, "0.5"), (8, "1"), (2, "0.25")])
def test_quantised_adapters_have_their_bits_per_parameter(bits: int, name: str) -> None:
    """The rule for QLoRA counts four bits of each frozen parameter, or eight, or two."""
    rules = list_rules_of_thumb(
        a_subject("gpt2"),
        replace(ADAPTERS, method=Method.QLORA, quantization_bits=bits),
        ONE_GPU,
        a_subject("gpt2").evaluate(ADAPTERS, ONE_GPU),
    )

    assert rules[0].name == f"{name} bytes per parameter (QLoRA)"
    assert rules[0].bytes == GPT2 * bits // 8
    assert f"{bits} bits: " in rules[1].why


@pytest.mark.parametrize(
    ("policy", "num_bytes"), [("bf16", 8), ("bf16_mixed", 18), ("amp_bf16", 18)]
)
def test_llama_factory_has_a_table(policy: str, num_bytes: int) -> None:
    """Its last column: 8x GB in pure bf16, 18x GB otherwise."""
    rule = _rules(a_subject("gpt2"), replace(SHORT, precision=POLICIES[policy]))[
        "LLaMA-Factory's table"
    ]

    assert rule.bytes == num_bytes * GPT2


def test_inference_is_a_fifth_more_than_the_weights() -> None:
    """1.2 x 16-bit weights, and no other rule for serving."""
    rules = _rules(a_subject("llama-2-7b"), CHAT)

    assert list(rules) == ["1.2 x weights"]
    assert rules["1.2 x weights"].bytes == 12 * 2 * LLAMA_2_7B // 10


def test_a_fifth_more_than_packed_weights_is_of_what_they_take() -> None:
    """AWQ's four bits with their scales are a quarter of sixteen and a bit."""
    chat = replace(CHAT, engine=Engine.VLLM, quantization=Quantization.AWQ_INT4)

    rule = _rules(a_subject("llama-2-7b"), chat)["1.2 x weights"]

    assert rule.bytes is not None
    assert 0.25 < rule.bytes / (12 * 2 * LLAMA_2_7B // 10) < 0.31


def test_activations_by_korthikanti() -> None:
    """34sbh + 5as²b per layer (arXiv:2205.05198, equation 1), worked out for gpt2's 12 layers."""
    workload = replace(SHORT, sequence_length=1024, micro_batch_size=8)

    rule = _rules(a_subject("gpt2"), workload)["34sbh + 5as²b per layer"]

    assert rule.bytes == 12 * (34 * 1024 * 8 * 768 + 5 * 12 * 1024**2 * 8)


def test_recomputed_layers_keep_their_inputs() -> None:
    """2sbh per layer under full checkpointing (arXiv:2205.05198, section 5)."""
    workload = replace(
        SHORT, sequence_length=1024, micro_batch_size=8, activation_checkpointing=Checkpointing.FULL
    )

    rule = _rules(a_subject("gpt2"), workload)["2sbh per layer"]

    assert rule.bytes == 12 * 2 * 1024 * 8 * 768


def test_activations_are_compared_where_they_are_the_most() -> None:
    """A peak in the optimizer's step has none, and forward before it has."""
    subject = a_subject("llama-2-7b")
    estimate = subject.evaluate(LONG, ONE_GPU)
    assert estimate.peak_instant == "optimizer_step"

    rule = _rules(subject, LONG)["34sbh + 5as²b per layer"]

    assert rule.our_bytes == max(
        instant.parts.get("activations", 0) for instant in estimate.instants
    )
    assert rule.our_bytes > 0


def test_no_activations_have_no_rule() -> None:
    """An answer without instants has nothing to compare with."""
    subject = a_subject("gpt2")

    found = list_rules_of_thumb(subject, SHORT, ONE_GPU, an_estimate(GIB))

    assert not [rule.name for rule in found if "per layer" in rule.name]


def test_tensor_and_pipeline_ranks_share_the_states() -> None:
    """A copy of the weights that eight ranks hold together takes an eighth on each (megatron,
    tensor 4 x pipeline 2).
    """
    subject = a_subject("llama-2-7b")
    workload = replace(
        LONG,
        framework=Framework.MEGATRON,
        precision=POLICIES["megatron_bf16"],
        gradient_accumulation_steps=2,
    )
    split = Layout(tensor_parallel=4, pipeline_parallel=2, sharding=Sharding.MEGATRON)

    rules = _rules(subject, workload, split)

    assert rules["18 bytes per parameter"].bytes == pytest.approx(18 * LLAMA_2_7B / 8, rel=1e-6)
    assert rules["LLaMA-Factory's table"].bytes == 120 * 10**9 // 8
    assert "the column of 7B, spread over 8 GPUs" in rules["LLaMA-Factory's table"].why
