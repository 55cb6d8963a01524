"""Numbers of articles are the ones that they quote, beside ours and with their source."""

from dataclasses import replace

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.qlora import make_qlora
from service.planner.fit.rule_of_thumb import RuleOfThumb
from service.planner.fit.rules_of_thumb import list_rules_of_thumb
from tests.unit.planner.builders import CHAT, ONE_GPU, SHORT, ZERO_3, a_shallow_subject, a_subject

GPT2 = 124_439_808
ZERO_ACTIVATIONS = "12 x hidden x batch x length x layers"


def _rules(
    subject: Evaluator, workload: Workload, layout: Layout = ONE_GPU
) -> dict[str, RuleOfThumb]:
    estimate = subject.evaluate(workload, layout)
    return {rule.name: rule for rule in list_rules_of_thumb(subject, workload, layout, estimate)}


def test_gpt2_of_the_zero_paper_has_60_gb_of_activations() -> None:
    """1.5 billion parameters, 32 sequences of 1,024 tokens: 60 GB, and ours of the same run."""
    subject = a_subject("gpt2-xl")
    workload = TrainWorkload(
        sequence_length=1024,
        micro_batch_size=32,
        precision=POLICIES["fp16_mixed"],
        attention=Attention.EAGER,
    )

    rule = _rules(subject, workload)[ZERO_ACTIVATIONS]

    parts = subject.evaluate(workload, ONE_GPU).components
    assert rule.bytes == pytest.approx(60e9, rel=0.01)
    assert rule.our_bytes == sum(part.bytes for part in parts if part.name == "activations")
    assert rule.bytes is not None
    assert rule.our_bytes is not None
    assert rule.off_by == round(rule.bytes / rule.our_bytes - 1, 4)
    assert "section 3.2" in rule.source


def test_what_is_computed_again_has_no_activations_of_the_article() -> None:
    """The article's formula is for activations that are kept."""
    recomputed = replace(SHORT, activation_checkpointing=Checkpointing.FULL)

    assert ZERO_ACTIVATIONS not in _rules(a_subject(), recomputed)


@pytest.mark.parametrize(
    ("stage", "name", "expected"),
    [
        (1, "ZeRO-1: 4 + 12 / 8 bytes per parameter", 4 + 12 / 8),
        (2, "ZeRO-2: 2 + 14 / 8 bytes per parameter", 2 + 14 / 8),
        (3, "ZeRO-3: 16 / 8 bytes per parameter", 16 / 8),
    ],
)
def test_stages_of_zero_are_named_with_their_parts(stage: int, name: str, expected: float) -> None:
    """Stage 2 keeps 2 bytes of each parameter and shards 14, stage 3 shards all 16."""
    rule = _rules(a_subject(), SHORT, replace(ZERO_3, zero_stage=stage))[name]

    assert rule.bytes == pytest.approx(expected * GPT2, rel=1e-6)


def test_replicas_are_no_stage() -> None:
    """Where nothing is sharded there is no line of the paper's figure."""
    rules = _rules(a_subject(), SHORT, Layout(data_parallel=8, sharding=Sharding.DDP))

    assert not [name for name in rules if name.startswith("ZeRO-")]


def test_accumulated_gradients_are_two_or_six_bytes() -> None:
    """DeepSpeed's bf16 holds six bytes of each, the 16-bit policies two."""
    accumulated = replace(SHORT, gradient_accumulation_steps=4)
    deepspeed = replace(accumulated, precision=POLICIES["deepspeed_bf16"])
    layout = Layout(data_parallel=2, zero_stage=1, sharding=Sharding.DEEPSPEED)

    for workload, exact in ((accumulated, 2), (deepspeed, 6)):
        rules = _rules(a_subject(), workload, layout)
        for size in (2, 6):
            rule = rules[f"{size}\N{GREEK CAPITAL LETTER PHI} of gradients under accumulation"]
            assert rule.bytes == size * GPT2
            assert (abs(rule.off_by) < 0.01) == (size == exact)
    assert not [name for name in _rules(a_subject(), SHORT) if "accumulation" in name]


def test_a_checkpoint_of_ten_bytes_leaves_out_master_weights() -> None:
    """Ours of bf16_mixed has 14 bytes of each parameter: fp32 masters as well."""
    rule = _rules(a_subject(), SHORT)["10 bytes per parameter on disk"]

    assert rule.bytes == 10 * GPT2
    assert rule.our_bytes == 14 * GPT2


def test_one_checkpoint_more_than_the_limit_has_to_have_room() -> None:
    """The Trainer deletes the oldest once the next is there."""
    limited = replace(SHORT, save_total_limit=3)
    estimate = a_subject().evaluate(limited, ONE_GPU)
    rule = _rules(a_subject(), limited)["save_total_limit 3: 3 checkpoints on disk"]

    assert estimate.checkpoint is not None
    assert rule.bytes == 3 * estimate.checkpoint.total
    assert rule.our_bytes == estimate.checkpoint.disk == 4 * estimate.checkpoint.total


def test_qlora_is_timed_beside_lora() -> None:
    """The article's 39 % are of LoRA's step, ours is QLoRA's own."""
    subject = a_shallow_subject(
        2, usable_bytes=80 * 2**30, model="llama-2-7b", depth="num_hidden_layers"
    )
    workload = make_qlora(SHORT, ONE_GPU)

    rule = _rules(subject, workload)["QLoRA takes 39 % longer than LoRA"]

    own = subject.get_throughput(workload, ONE_GPU, subject.evaluate(workload, ONE_GPU))
    assert own is not None
    assert rule.seconds is not None
    assert rule.our_seconds == own.step_time_s
    assert rule.bytes is None
    assert rule.off_by == round(rule.seconds / own.step_time_s - 1, 4)


@pytest.mark.parametrize("workload", [SHORT, CHAT, make_qlora(SHORT, ONE_GPU)])
def test_every_rule_has_a_source_and_our_number(workload: Workload) -> None:
    """Nothing is quoted without a place where it can be read."""
    for rule in _rules(a_subject(), workload).values():
        assert rule.source
        assert (rule.our_bytes is None) == (rule.bytes is None)
        assert (rule.our_seconds is None) == (rule.seconds is None)
