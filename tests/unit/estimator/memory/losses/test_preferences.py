"""Steps of preferences, held against TRL's own code on a small llama.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23, TRL 1.16's
``_compute_loss`` of DPO with its Triton kernels left out, which allocate nothing; KTO's are under
real ones on the CPU, with the fp32 products left out too, which CUDA's cuBLAS adds in place).
"""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.builders import a_device, a_model, a_training
from tests.tiny_shapes import WIDE_LLAMA

_SCALARS = 12
"""Means and sums of one number each, which the estimator does not count."""
_PER_SEQUENCE = 68
"""Labels, sums and losses of four bytes or eight, some of which the CPU's pass has not at the
peak.
"""
_LORA = {"method": Method.LORA, "lora": Lora(rank=8)}


def _dpo(reference: Reference, **changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {"micro_batch_size": 2, "sequence_length": 512}
    given |= {"optimizer": "adamw_fused", "loss": Loss.CHUNKED_NLL}
    return a_training(trainer=Trainer.DPO, reference=reference, **(given | changes))


@pytest.mark.parametrize(
    ("reference", "changes", "forward", "backward"),
    [
        (
            Reference.PRECOMPUTED,
            {"precision": "bf16", "sequence_length": 64},
            235845212,
            433087472,
        ),
        (Reference.MODEL, {"precision": "bf16"}, 489283756, 687169904),
        (Reference.MODEL, {"precision": "amp_bf16"}, 815857868, 957378928),
        (Reference.ADAPTERS_OFF, {"precision": "bf16", **_LORA}, 312395872, 313280804),
        (Reference.ADAPTERS_OFF, {"precision": "amp_bf16", **_LORA}, 379711872, 394248740),
    ],
)
def test_a_step_of_dpo_is_that_of_trl(
    reference: Reference, changes: dict[str, Any], forward: int, backward: int
) -> None:
    """Two sequences a pair, the metrics' numbers, and the reference's pass beside what is kept."""
    model = architecture_from_config(WIDE_LLAMA)
    timeline = build_train_timeline(model, _dpo(reference, **changes), Layout())

    phases = dict(timeline.phases)
    assert 0 <= forward - phases["forward_pass"] <= _SCALARS
    assert 0 <= backward - phases["backward_pass"] <= _SCALARS


@pytest.mark.parametrize(
    ("reference", "changes", "forward", "backward"),
    [
        (
            Reference.PRECOMPUTED,
            {"precision": "bf16", "sequence_length": 64},
            222960436,
            420079442,
        ),
        (Reference.MODEL, {"precision": "bf16"}, 384747814, 582159698),
        (Reference.MODEL, {"precision": "amp_bf16"}, 700847414, None),
        (Reference.ADAPTERS_OFF, {"precision": "amp_bf16", **_LORA}, 271177194, None),
    ],
)
def test_a_step_of_kto_is_that_of_trl(
    reference: Reference, changes: dict[str, Any], forward: int, backward: int | None
) -> None:
    """One sequence an example, and a pass of both models over mismatched ones before their own.

    Under autocast the CPU adds gradients out of place, so that its backward is not CUDA's.
    """
    model = architecture_from_config(WIDE_LLAMA)
    workload = replace(_dpo(reference, **changes), trainer=Trainer.KTO)
    phases = dict(build_train_timeline(model, workload, Layout()).phases)

    assert 0 <= phases["forward_pass"] - forward <= _PER_SEQUENCE
    assert backward is None or 0 <= phases["backward_pass"] - backward <= _PER_SEQUENCE


@pytest.mark.parametrize(
    ("trainer", "reference", "length", "forward", "backward"),
    [
        (Trainer.DPO, Reference.PRECOMPUTED, 64, 479801280, 607029964),
        (Trainer.DPO, Reference.MODEL, 64, 810439468, 677050700),
        (Trainer.DPO, Reference.MODEL, 128, 1344900396, 1080174924),
        (Trainer.KTO, Reference.MODEL, 64, 941775756, 677052748),
        (Trainer.KTO, Reference.MODEL, 128, 1607572876, 1080179020),
    ],
)
def test_whole_logits_of_preferences_are_those_of_llama_factory(
    trainer: Trainer, reference: Reference, length: int, forward: int, backward: int
) -> None:
    """Live bytes of its ``concatenated_forward`` on the CPU: masks are all that differs."""
    model = architecture_from_config(WIDE_LLAMA)
    number = 2 if trainer is Trainer.DPO else 4
    changes = {"loss": Loss.FULL_LOGITS, "micro_batch_size": number, "sequence_length": length}
    workload = replace(_dpo(reference, precision="bf16", **changes), trainer=trainer)
    phases = dict(build_train_timeline(model, workload, Layout()).phases)

    assert phases["forward_pass"] == pytest.approx(forward, rel=2e-5)
    assert phases["backward_pass"] == pytest.approx(backward, rel=2e-5)


@pytest.mark.parametrize(
    ("trainer", "precision", "reference", "forward", "backward"),
    [
        (Trainer.DPO, "bf16", Reference.PRECOMPUTED, 718750998, 489941752),
        (Trainer.DPO, "bf16", Reference.MODEL, 920105878, 559962488),
        (Trainer.DPO, "amp_bf16", Reference.MODEL, 1635587496, None),
        (Trainer.KTO, "bf16", Reference.MODEL, 1051444166, 559966584),
        (Trainer.KTO, "amp_bf16", Reference.PRECOMPUTED, 1495550296, None),
        (Trainer.KTO, "amp_bf16", Reference.MODEL, 1898259944, None),
    ],
)
def test_selective_scores_are_those_of_trl_before_its_fused_head(
    trainer: Trainer, precision: str, reference: Reference, forward: int, backward: int | None
) -> None:
    """Live bytes of TRL 1.8's operations on the CPU, whose listener adds a gradient out of place
    under autocast.
    """
    model = architecture_from_config(WIDE_LLAMA)
    number = 2 if trainer is Trainer.DPO else 4
    changes = {"loss": Loss.SELECTIVE, "micro_batch_size": number, "sequence_length": 128}
    workload = replace(_dpo(reference, precision=precision, **changes), trainer=trainer)
    phases = dict(build_train_timeline(model, workload, Layout()).phases)

    assert phases["forward_pass"] == pytest.approx(forward, rel=1e-4)
    assert backward is None or phases["backward_pass"] == pytest.approx(backward, rel=1e-4)


def test_a_second_model_is_resident() -> None:
    """Its weights and buffers are there from the first step on."""
    model = architecture_from_config(WIDE_LLAMA)
    alone, beside = (
        build_train_timeline(model, _dpo(reference, precision="bf16"), Layout())
        for reference in (Reference.PRECOMPUTED, Reference.MODEL)
    )

    weights = 2 * model.parameter_counts().total
    assert beside.steady_bytes - alone.steady_bytes == weights + model.buffer_bytes


def test_a_reward_model_has_one_score_in_place_of_its_head() -> None:
    """A head of its own is gone with its logits, and a tied one leaves the embedding."""
    workload = a_training(trainer=Trainer.REWARD, precision="bf16")
    untied, tied = (as_loaded(a_model(tie_word_embeddings=tie), workload) for tie in (False, True))
    supervised = a_model().parameter_counts().total

    assert untied.parameter_counts().total == supervised - (512 - 1) * 64
    assert tied.parameter_counts().total == untied.parameter_counts().total
    answer = estimate(a_model(), workload, layout=Layout(), device=a_device())
    assert "logits" not in {component.name for component in answer.components}


def test_a_pair_is_two_sequences() -> None:
    """A reward model's pairs take what twice as many sequences take."""
    model = as_loaded(a_model(), a_training(trainer=Trainer.REWARD))
    answers = [
        build_train_timeline(
            model,
            a_training(trainer=Trainer.REWARD, precision="bf16", micro_batch_size=size),
            Layout(),
        ).phases
        for size in (2, 4)
    ]

    assert a_training(trainer=Trainer.REWARD, micro_batch_size=2).num_sequences == 4
    assert dict(answers[0])["forward_pass"] < dict(answers[1])["forward_pass"]


def test_a_reference_goes_with_preferences_alone() -> None:
    """It is refused elsewhere, and adapters that are off need adapters."""
    with pytest.raises(InvalidInputError, match="dpo and kto have one"):
        a_training(reference=Reference.MODEL)
    with pytest.raises(InvalidInputError, match="dpo and kto have one"):
        a_training(trainer=Trainer.DPO)
    with pytest.raises(EstimatorError, match="needs adapters"):
        estimate(
            a_model(),
            _dpo(Reference.ADAPTERS_OFF, precision="bf16"),
            layout=Layout(),
            device=a_device(),
        )
