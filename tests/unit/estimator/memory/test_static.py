"""What a training step stands on is worked out once: answers are those of a question that is asked
first.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.quantization.weights import NF4
from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail
from service.estimator.values.workload import (
    Checkpointing,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from tests.builders import a_device, a_model, a_training

_SHAPES = ((1, 448), (3, 448), (1, 77), (2, 16))
_LORA: dict[str, Any] = {"method": Method.LORA, "lora": Lora(rank=8)}
_OFFLOAD = Offload(activations=OffloadTarget.CPU)
_SHARDED = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)


def _asked(words: dict[str, Any]) -> tuple[TrainWorkload, ...]:
    one = TrainWorkload(sequence_length=1)
    return tuple(
        replace(one, micro_batch_size=batch, sequence_length=tokens, **words)
        for batch, tokens in _SHAPES
    )


@pytest.mark.parametrize(
    ("name", "words", "layout"),
    [
        ("llama-3.2-1b", {}, Layout()),
        ("llama-3.2-1b", {"optimizer": "adafactor", "precision": POLICIES["amp_bf16"]}, _SHARDED),
        ("llama-3.2-1b", {"loss": Loss.FUSED_LINEAR}, Layout()),
        (
            "llama-3.2-1b",
            {"activation_checkpointing": Checkpointing.FULL, "offload": _OFFLOAD},
            Layout(),
        ),
        ("mistral-7b-v0.1", {**_LORA, "method": Method.QLORA}, Layout()),
        ("mamba-130m", {}, Layout(data_parallel=2)),
        ("jamba-v0.1", {}, _SHARDED),
        ("t5-small", {}, Layout()),
        ("whisper-tiny", {}, Layout()),
        ("whisper-tiny", {"decoder_length": 77}, Layout()),
        ("clip-vit-base-patch32", {}, Layout()),
        ("llava-1.5-7b", _LORA, Layout()),
        ("qwen2-vl-7b", {"num_images": 1, "image_tokens": 16}, Layout()),
    ],
)
@pytest.mark.parametrize("detail", [Detail.NUMBERS, Detail.FULL])
def test_answers_do_not_depend_on_the_order_of_questions(
    name: str, words: dict[str, Any], layout: Layout, detail: Detail
) -> None:
    """Batch and sequence change nothing that is kept: answered or refused, each question ends as it
    does alone.
    """
    model, plans = load_architecture(resolve_model(name)), PlanCache()

    def outcome(workload: TrainWorkload, known: PlanCache | None) -> object:
        try:
            return estimate(
                model, workload, layout=layout, device=a_device(), plans=known, detail=detail
            )
        except InvalidInputError as refusal:
            return refusal.message

    questions = _asked(words)
    alone = [outcome(question, None) for question in questions]

    assert [outcome(question, plans) for question in (*questions, *questions)] == [*alone, *alone]


def test_a_length_is_refused_after_another_was_answered() -> None:
    """What was found allowed of a shorter sequence says nothing about a longer one."""
    ask = partial(
        estimate,
        load_architecture(resolve_model("gpt2")),
        layout=Layout(),
        device=a_device(),
        plans=PlanCache(),
    )
    ask(a_training(sequence_length=1024))

    with pytest.raises(InvalidInputError, match="learned positions"):
        ask(a_training(sequence_length=1025))


@pytest.mark.parametrize("detail", [Detail.FULL, Detail.REPLAYED])
def test_what_differs_beside_the_shape_has_static_memory_of_its_own(detail: Detail) -> None:
    """Methods, precisions and layouts that follow each other on one cache, and a quantised twin of
    the same numbers.
    """
    plain, plans = a_model(), PlanCache()
    models = (plain, replace(plain, quantization=NF4))
    words: tuple[dict[str, Any], ...] = (
        {},
        {"precision": "bf16"},
        {"gradient_accumulation_steps": 2},
        _LORA,
    )
    workloads = [a_training(**each) for each in words]
    layouts = (
        Layout(),
        Layout(data_parallel=2),
        Layout(data_parallel=2, zero_stage=2, sharding=Sharding.DEEPSPEED),
    )
    questions = [
        (model, workload, layout)
        for model, workload, layout in product(models, workloads, layouts)
        if model is plain or workload.lora is not None
    ]

    for model, workload, layout in questions:
        ask = partial(estimate, model, workload, layout=layout, device=a_device(), detail=detail)
        assert ask(plans=plans) == ask()


@pytest.mark.parametrize("detail", [Detail.FULL, Detail.REPLAYED])
def test_gpu_level_and_corrections_change_an_answer_on_one_cache(detail: Detail) -> None:
    """What a step holds is worked out once, and what differs beside it is each question's own."""
    plans = PlanCache()
    learnt = Corrections(
        calibration="c", instants={"backward": InstantCorrection(fixed_bytes=2**20)}
    )
    devices = (a_device(), resolve_gpu("T4").to_device())
    questions = product(devices, (0.95, 0.5), (None, learnt, None))

    for device, level, corrections in questions:
        ask = partial(
            estimate,
            a_model(),
            a_training(),
            layout=Layout(),
            device=device,
            level=level,
            corrections=corrections,
            detail=detail,
        )
        assert ask(plans=plans) == ask()
