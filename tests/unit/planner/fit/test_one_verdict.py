"""A verdict is one: by numbers alone, as a batch asks for thousands, and with all that explains it.

Random questions about real models of few layers are asked on GPUs whose memory is near what they
take, where a replay of the allocator tells.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.fit.parts import ALL_PARTS, EXPLAINED, NO_PARTS, FitPart
from service.planner.fit.replay_need import MOST_TIMES, is_replayable, may_turn
from service.planner.fit.verdict import Verdict, judge
from tests.unit.planner.builders import a_device, shallow

SEED, NUM_QUESTIONS = 20261124, 240
MODELS = [shallow("tinyllama-1.1b", 2), shallow("gpt2", 2, "n_layer"), shallow("gemma-2-2b", 2)]
LAYOUTS = [
    Layout(),
    Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2),
    Layout(data_parallel=2, zero_stage=2, sharding=Sharding.DEEPSPEED),
]
Case = tuple[Evaluator, Workload, Layout]


def random_workload(random: Random) -> Workload:
    """Return a training step or a replica of any size."""
    if random.random() < 0.25:
        engine = random.choice([Engine.TRANSFORMERS, Engine.TRANSFORMERS, Engine.VLLM])
        return ServeWorkload(
            engine=engine,
            num_sequences=random.choice([1, 8, 64]),
            prompt_tokens=random.choice([64, 500]),
            output_tokens=random.choice([0, 16]),
            max_model_len=None if engine is Engine.TRANSFORMERS else 1024,
        )
    method = random.choice([Method.FULL, Method.FULL, Method.LORA, Method.QLORA])
    return TrainWorkload(
        sequence_length=random.choice([128, 512, 1000]),
        micro_batch_size=random.choice([1, 2, 5, 16]),
        gradient_accumulation_steps=random.choice([1, 4]),
        framework=random.choice([Framework.TRANSFORMERS] * 4 + [Framework.MEGATRON]),
        method=method,
        lora=None if method is Method.FULL else Lora(),
        optimizer=random.choice(["adamw", "sgd"]),
        activation_checkpointing=random.choice(list(Checkpointing)),
    )


def iter_cases(num_questions: int) -> Iterator[Case]:
    """Yield questions on GPUs of 0.7 to 2.5 times the memory that their numbers ask for."""
    random, plans = Random(SEED), PlanCache(capacity=2048)  # noqa: S311 - questions, not secrets
    made = 0
    while made < num_questions:
        model, workload = random.choice(MODELS), random_workload(random)
        layout = Layout() if isinstance(workload, ServeWorkload) else random.choice(LAYOUTS)
        level = random.choice([0.5, 0.95])
        try:
            numbers = make_evaluator(
                model, a_device(2**36), plans=plans, level=level
            ).estimate_numbers(workload, layout)
        except EstimatorError:
            continue
        made += 1
        usable = int(numbers.device_bytes * random.uniform(0.7, 2.5))
        yield make_evaluator(model, a_device(usable), plans=plans, level=level), workload, layout


@pytest.fixture(scope="module", name="answered")
def _ask_all() -> list[tuple[Case, FitReport, FitReport]]:
    return [
        (case, assess_fit(*case, NO_PARTS), assess_fit(*case, ALL_PARTS))
        for case in iter_cases(NUM_QUESTIONS)
    ]


def test_numbers_have_the_verdict_of_the_whole_answer(
    answered: list[tuple[Case, FitReport, FitReport]],
) -> None:
    """Where numbers alone would have had another one, they are replayed."""
    turned = 0
    for (evaluator, workload, layout), numbers, whole in answered:
        assert numbers.verdict is whole.verdict, (workload, layout, evaluator.device)
        alone = judge(evaluator.estimate_numbers(workload, layout), evaluator.device).verdict
        turned += alone is not whole.verdict
        assert numbers.estimate.replayed or alone is whole.verdict

    assert turned > NUM_QUESTIONS / 50, "questions that no replay turns show nothing"


def test_a_replayed_item_has_the_bytes_of_the_whole_answer(
    answered: list[tuple[Case, FitReport, FitReport]],
) -> None:
    """What was replayed is the same to the byte, what was not is replayed by nobody or far from
    the limit; neither explains itself.
    """
    replayed = 0
    for (_, workload, _), numbers, whole in answered:
        if numbers.estimate.replayed:
            replayed += 1
            assert numbers.estimate.device_bytes == whole.estimate.device_bytes
            assert numbers.estimate.device_interval == whole.estimate.device_interval
        assert whole.estimate.replayed <= is_replayable(workload)
        assert numbers.throughput is None
        if is_replayable(workload):
            assert numbers.estimate.components == ()

    assert NUM_QUESTIONS / 4 < replayed < NUM_QUESTIONS


def test_no_replay_is_beyond_what_is_taken_for_sure(
    answered: list[tuple[Case, FitReport, FitReport]],
) -> None:
    """Twice the numbers' upper end is more than any replayed answer's."""
    for (evaluator, workload, layout), _, whole in answered:
        numbers = evaluator.estimate_numbers(workload, layout)
        high = whole.estimate.device_interval.high
        assert high < numbers.device_interval.high * MOST_TIMES


def test_parts_that_explain_come_with_the_replay() -> None:
    """Components that are asked for without a replay are those of the verdict's own bytes."""
    for evaluator, workload, layout in iter_cases(40):
        explained = assess_fit(evaluator, workload, layout, EXPLAINED)
        numbers = assess_fit(evaluator, workload, layout, NO_PARTS)

        assert explained.verdict is numbers.verdict
        assert explained.estimate.device_bytes == numbers.estimate.device_bytes
        total = sum(part.bytes for part in explained.estimate.components)
        assert total == explained.estimate.device_bytes


def test_a_replay_that_is_asked_for_is_made_far_from_any_limit() -> None:
    """The part of that name is the replay itself, whatever the verdict."""
    case = next(iter_cases(1))
    roomy = replace(case[0], device=a_device(2**40))

    report = assess_fit(
        roomy, TrainWorkload(sequence_length=128), Layout(), frozenset({FitPart.REPLAY})
    )

    assert report.estimate.replayed


def test_what_the_host_keeps_leaves_a_replay_less_room_where_memory_is_one() -> None:
    """Twice a job's own bytes have room on the GPU alone, and not beside what is offloaded."""
    workload = TrainWorkload(sequence_length=128, offload=Offload(optimizer=OffloadTarget.CPU))
    layout = Layout(sharding=Sharding.DEEPSPEED, zero_stage=2)
    roomy = make_evaluator(MODELS[0], a_device(2**40))
    numbers = roomy.estimate_numbers(workload, layout)
    usable = numbers.device_interval.high * MOST_TIMES + numbers.host_bytes_per_node // 2
    apart = replace(roomy, device=a_device(usable))
    shared = replace(apart, device=replace(apart.device, has_unified_memory=True))

    assert judge(numbers, shared.device).verdict is Verdict.FITS
    assert not may_turn(apart, workload, layout, numbers)
    assert may_turn(shared, workload, layout, numbers)
