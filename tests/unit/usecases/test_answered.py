"""What a process answered quickly is answered from what it keeps; all else takes longer."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import (
    Engine,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.usecases.questions.fit import (
    AnsweredQuestions,
    FitQuestion,
    judge_fit,
    judge_kept,
    make_question_evaluator,
)

TRAIN = TrainWorkload(sequence_length=128)
SERVE = ServeWorkload(num_sequences=1, prompt_tokens=128)
QUESTION = FitQuestion(
    architecture=load_architecture(resolve_model("gpt2")),
    workload=TRAIN,
    layout=Layout(),
    device=resolve_gpu("A100-SXM4-80GB").to_device(),
)


def with_sequences(workload: ServeWorkload, number: int) -> FitQuestion:
    """Return a question about so many sequences."""
    return replace(QUESTION, workload=replace(workload, num_sequences=number))


def on(device: Device, num_bytes: int) -> FitQuestion:
    """Return the question on a GPU with so much memory."""
    return replace(QUESTION, device=replace(device, usable_bytes=num_bytes))


def ask(question: FitQuestion, plans: PlanCache) -> bool:
    """Return whether a question is answered from what is kept, in the bytes of an own answer."""
    report = judge_kept(make_question_evaluator(question, plans, None), question)
    return report is not None and report == judge_fit(question, plans=PlanCache())


def test_a_model_in_a_layout_is_known_once_it_was_answered_quickly() -> None:
    """At every size and on every GPU, whose memory is no part of it."""
    answered = AnsweredQuestions()
    before = answered.has_answered(QUESTION)
    answered.record(QUESTION, is_quick=True)

    assert not before
    assert answered.has_answered(
        replace(
            QUESTION,
            workload=replace(TRAIN, micro_batch_size=3),
            device=resolve_gpu("T4").to_device(),
        )
    )
    assert not answered.has_answered(replace(QUESTION, workload=SERVE))
    assert not answered.has_answered(replace(QUESTION, layout=Layout(data_parallel=2)))


def test_what_took_long_counts_as_never_answered() -> None:
    """The next answer is not made where everybody waits for it; once it is quick, it is."""
    answered = AnsweredQuestions()
    answered.record(QUESTION, is_quick=True)
    answered.record(QUESTION, is_quick=False)
    after_slow = answered.has_answered(QUESTION)
    answered.record(QUESTION, is_quick=True)

    assert not after_slow
    assert answered.has_answered(QUESTION)


def test_the_oldest_is_forgotten_first() -> None:
    """What is remembered is bounded."""
    answered = AnsweredQuestions(capacity=2)
    questions = [replace(QUESTION, layout=Layout(data_parallel=number)) for number in (1, 2, 3)]
    for question in questions:
        answered.record(question, is_quick=True)

    assert [answered.has_answered(question) for question in questions] == [False, True, True]


@pytest.mark.parametrize(
    "workload",
    [
        TRAIN,
        replace(TRAIN, method=Method.LORA, lora=Lora()),
        SERVE,
        replace(SERVE, engine=Engine.VLLM),
    ],
)
def test_nothing_that_takes_long_is_made_for_a_kept_answer(workload: Workload) -> None:
    """The first answer records and replays; the next is the same, and takes neither."""
    question, plans = replace(QUESTION, workload=workload), PlanCache()
    before = ask(question, plans)
    judge_fit(question, plans=plans)

    assert not before
    assert ask(question, plans)


def test_another_size_is_recorded_by_the_same_recording_and_replayed_anew() -> None:
    """Numbers alone are of the recording; an answer in full takes a replay."""
    longer = replace(QUESTION, workload=replace(TRAIN, sequence_length=256))
    plans = PlanCache()
    judge_fit(QUESTION, plans=plans)

    assert not ask(longer, plans)
    assert ask(replace(longer, parts=frozenset()), plans)


def test_every_size_of_an_engine_is_kept() -> None:
    """What an engine serves is recorded once."""
    vllm, plans = replace(SERVE, engine=Engine.VLLM), PlanCache()
    judge_fit(with_sequences(vllm, 1), plans=plans)

    assert ask(with_sequences(vllm, 64), plans)


def test_a_full_gpu_is_replayed_in_its_own_room() -> None:
    """Where there is more room than is reserved, one replay is for all; elsewhere each has its own,
    and so has each of the GPU's kernels.
    """
    device, plans = QUESTION.device, PlanCache()
    report = judge_fit(QUESTION, plans=plans)
    needed = report.estimate.device_bytes

    assert ask(on(device, needed * 4), plans)
    full = on(device, needed - 2**20)
    assert not ask(full, plans)
    judge_fit(full, plans=plans)
    assert ask(full, plans)
    assert not ask(on(device, needed - 2 * 2**20), plans)
    assert not ask(replace(QUESTION, device=resolve_gpu("T4").to_device()), plans)
