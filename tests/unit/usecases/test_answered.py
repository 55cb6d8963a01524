"""What a process has answered is answered at once; what it has not takes longer."""

from dataclasses import replace

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload
from service.usecases.questions.fit import AnsweredQuestions, FitQuestion

QUESTION = FitQuestion(
    architecture=load_architecture(resolve_model("gpt2")),
    workload=TrainWorkload(sequence_length=128),
    layout=Layout(),
    device=resolve_gpu("A100-SXM4-80GB").to_device(),
)


def never() -> bool:
    """Say that an answer takes no replay."""
    return False


def longer(question: FitQuestion, sequence_length: int) -> FitQuestion:
    """Return the same question about longer sequences."""
    return replace(
        question,
        workload=replace(TrainWorkload(sequence_length=1), sequence_length=sequence_length),
    )


def test_a_configuration_is_known_once_it_was_answered() -> None:
    """Its replay has the kernels and the room of its GPU; another GPU, length or layout is another
    configuration.
    """
    answered = AnsweredQuestions()
    before = answered.has_answered(QUESTION, never)
    answered.record(QUESTION, is_replayed=False)

    assert not before
    assert answered.has_answered(replace(QUESTION), never)
    assert not answered.has_answered(replace(QUESTION, device=resolve_gpu("T4").to_device()), never)
    assert not answered.has_answered(longer(QUESTION, 256), never)
    assert not answered.has_answered(replace(QUESTION, layout=Layout(data_parallel=2)), never)


def test_serving_is_known_at_every_size() -> None:
    """What an engine serves is recorded once; on transformers each size is replayed."""
    answered = AnsweredQuestions()
    served = ServeWorkload(num_sequences=1, prompt_tokens=128, engine=Engine.VLLM)
    answered.record(replace(QUESTION, workload=served), is_replayed=False)

    assert answered.has_answered(
        replace(QUESTION, workload=replace(served, num_sequences=64, prompt_tokens=4096)), never
    )
    short = replace(served, engine=Engine.TRANSFORMERS)
    plain = replace(QUESTION, workload=short)
    assert not answered.has_answered(plain, never)
    answered.record(plain, is_replayed=True)
    assert not answered.has_answered(
        replace(plain, workload=replace(short, prompt_tokens=4096)), never
    )


def test_the_oldest_is_forgotten_first() -> None:
    """It is bounded as what it speaks of is: whoever is forgotten is computed beside the event loop
    again.
    """
    answered = AnsweredQuestions(capacity=2)
    for length in (1, 2, 3):
        answered.record(longer(QUESTION, length), is_replayed=False)

    assert [answered.has_answered(longer(QUESTION, length), never) for length in (1, 2, 3)] == [
        False,
        True,
        True,
    ]


def test_what_was_answered_by_numbers_is_new_where_another_gpu_takes_a_replay() -> None:
    """Its verdict may turn with the allocator, which is replayed beside the event loop."""
    answered = AnsweredQuestions()
    numbers = replace(QUESTION, parts=frozenset())
    answered.record(numbers, is_replayed=False)

    assert answered.has_answered(numbers, never)
    assert not answered.has_answered(numbers, lambda: True)
    assert not answered.has_answered(QUESTION, never)
    answered.record(numbers, is_replayed=True)
    assert answered.has_answered(numbers, lambda: True)


def test_what_took_long_counts_as_never_answered() -> None:
    """The next answer is not made where everybody waits for it; once it is quick, it is."""
    answered = AnsweredQuestions()
    answered.record(QUESTION, is_replayed=True)
    answered.record(QUESTION, is_replayed=True, is_quick=False)
    after_slow = answered.has_answered(QUESTION, never)
    answered.record(QUESTION, is_replayed=True, is_quick=True)

    assert not after_slow
    assert answered.has_answered(QUESTION, never)
