"""Ceilings over every layout of some GPUs, held against asking each of them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.batches import Clip, Inputs, Picture
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import (
    Engine,
    Framework,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Config, Evaluator, make_evaluator
from service.planner.fit.verdict import missing_bytes
from service.planner.plans.ceiling_search import Ceiling
from service.planner.plans.ceiling_values import Maximized
from service.planner.plans.ceilings import find_ceiling
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from tests.unit.estimator.model.families.vision.vision_models import SMALL
from tests.unit.planner.builders import a_device, an_estimate

MODEL = load_architecture(resolve_model("smollm2-135m"))
PLANS = PlanCache()
BATCHES = TrainWorkload(sequence_length=512)


def subject_of(usable_bytes: int) -> Evaluator:
    """Return a small model on a GPU of so much memory."""
    return make_evaluator(MODEL, a_device(usable_bytes), plans=PLANS)


def ceiling(question: Question, maximized: Maximized, usable_bytes: int = 4 * GIB) -> Ceiling:
    """Return a ceiling of the small model."""
    subject = subject_of(usable_bytes)
    return find_ceiling(question, maximized, lambda _value: subject)


def configs(question: Question, subject: Evaluator) -> Iterator[Config]:
    """Yield every configuration of a question's GPUs, at micro batch 1."""
    space = SearchSpace(MODEL, question, Offer(device=subject.device))
    for slot in space.list_options(question.limits.max_gpus):
        yield from (space.build_config(slot, batch) for batch in space.list_batches(slot))


def fits(subject: Evaluator, config: Config, size: int) -> bool:
    """Whether a micro batch fits, answered in full."""
    workload, layout = config
    assert isinstance(workload, TrainWorkload)
    try:
        estimate = subject.answer(replace(workload, micro_batch_size=size), layout)
    except EstimatorError:
        return False
    return not missing_bytes(estimate, subject.device, confident=True)


@pytest.mark.parametrize("num_gpus", [1, 2])
def test_no_layout_holds_a_larger_batch(num_gpus: int) -> None:
    """Every layout of so many GPUs is asked for one more, and none has room for it."""
    fixed = frozenset(
        {"micro_batch_size", "gradient_accumulation_steps", "pipeline_parallel", "context_parallel"}
    )
    question = Question(
        workload=BATCHES, layout=Layout(), fixed=fixed, limits=Limits(max_gpus=num_gpus)
    )
    found, subject = (
        ceiling(question, Maximized.MICRO_BATCH_SIZE, 5 * GIB),
        subject_of(5 * GIB),
    )

    assert found.value is not None
    assert found.best is not None
    assert found.next is not None
    assert found.best.missing_bytes == 0 < found.next.missing_bytes
    assert found.next.value == found.value + 1
    assert not [
        config for config in configs(question, subject) if fits(subject, config, found.value + 1)
    ]


def test_more_gpus_in_whichever_layout_hold_longer_sequences() -> None:
    """Ranks share a sequence where a framework can split it; the length stays divisible, and so
    does the next.
    """
    one, four = (
        ceiling(
            Question(
                workload=BATCHES,
                layout=Layout(),
                fixed=frozenset({"sequence_length"}),
                limits=Limits(max_gpus=count),
            ),
            Maximized.SEQUENCE_LENGTH,
            8 * GIB,
        )
        for count in (1, 4)
    )

    assert one.value is not None
    assert four.value is not None
    assert four.best is not None
    assert four.next is not None
    assert four.value > 2 * one.value
    ranks = four.best.layout.context_parallel
    assert ranks > 1
    assert four.value % (2 * ranks) == 0 == four.next.value % (2 * ranks)
    assert isinstance(four.best.workload, TrainWorkload)
    assert four.best.workload.framework in {Framework.TORCHTITAN, Framework.MEGATRON}


def test_a_replica_is_spread_in_the_way_that_serves_most() -> None:
    """On two GPUs more sequences fit than on one."""
    device = resolve_gpu("A100-SXM4-40GB").to_device()
    subject = make_evaluator(load_architecture(resolve_model("llama-2-13b")), device, plans=PLANS)
    chat = ServeWorkload(
        engine=Engine.VLLM,
        num_sequences=1,
        prompt_tokens=1024,
        output_tokens=256,
        max_model_len=2048,
    )
    one, two = (
        find_ceiling(
            Question(workload=chat, layout=Layout(), limits=Limits(max_gpus=count)),
            Maximized.NUM_SEQUENCES,
            lambda _: subject,
        )
        for count in (1, 2)
    )

    assert one.value is not None
    assert two.value is not None
    assert two.value > 2 * one.value


@pytest.mark.parametrize("steps", [1, 3])
def test_no_layout_holds_a_larger_global_batch(steps: int) -> None:
    """Whatever dealt out to its ranks is more than the ceiling has no room in any layout; what is
    accumulated counts.
    """
    fixed = frozenset(
        {"micro_batch_size", "gradient_accumulation_steps", "pipeline_parallel", "context_parallel"}
    )
    workload = replace(BATCHES, gradient_accumulation_steps=steps)
    question = Question(workload=workload, layout=Layout(), fixed=fixed, limits=Limits(max_gpus=2))
    found, subject = (
        ceiling(question, Maximized.GLOBAL_BATCH_SIZE, 5 * GIB),
        subject_of(5 * GIB),
    )

    assert found.value is not None
    assert found.best is not None
    assert found.next is not None
    assert isinstance(found.best.workload, TrainWorkload)
    ranks = found.best.layout.data_parallel
    assert (
        found.best.workload.micro_batch_size * steps * ranks
        == found.value
        == found.next.value - steps * ranks
    )
    assert found.best.missing_bytes == 0 < found.next.missing_bytes
    for config in configs(question, subject):
        more = found.value // (steps * config[1].data_parallel) + 1
        assert not fits(subject, config, more)


def test_a_sequence_is_no_shorter_than_its_images() -> None:
    """The search for the longest begins at the tokens of the images."""
    subject = make_evaluator(architecture_from_config(SMALL["qwen2_vl"]), a_device(4 * GIB))
    inputs = Inputs(images=(Picture(width=56, height=56, count=8),))
    question = Question(workload=TrainWorkload(sequence_length=1, inputs=inputs), layout=Layout())

    found = find_ceiling(question, Maximized.SEQUENCE_LENGTH, lambda _value: subject)

    assert found.value is not None
    assert found.value > 32


def test_images_are_added_until_a_sequence_has_no_room() -> None:
    """Each of the first size takes its tokens, and the refusal of the next says how many."""
    subject = make_evaluator(architecture_from_config(SMALL["qwen2_vl"]), a_device(4 * GIB))
    inputs = Inputs(images=(Picture(width=56, height=56),))
    workload = TrainWorkload(sequence_length=66, inputs=inputs)

    found = find_ceiling(
        Question(workload=workload, layout=Layout()), Maximized.NUM_IMAGES, lambda _value: subject
    )

    assert found.value == 16
    assert found.best is not None
    assert [item.count * item.tokens for item in found.best.estimate.inputs] == [64]
    assert "inputs take 68 tokens of a sequence" in str(found.refusal)


@pytest.mark.parametrize(
    ("workload", "maximized", "says"),
    [
        (BATCHES, Maximized.MAX_MODEL_LEN, "word of task 'serve'"),
        (
            ServeWorkload(num_sequences=1, prompt_tokens=1),
            Maximized.GLOBAL_BATCH_SIZE,
            "word of task 'train'",
        ),
        (
            ServeWorkload(num_sequences=1, prompt_tokens=1),
            Maximized.MAX_MODEL_LEN,
            "bounds nothing in engine 'transformers'",
        ),
        (BATCHES, Maximized.LORA_RANK, "lora_rank needs adapters"),
        (
            replace(BATCHES, inputs=Inputs(videos=(Clip(frames=2, width=56, height=56),))),
            Maximized.NUM_IMAGES,
            "num_images needs an image: say inputs",
        ),
    ],
)
def test_what_means_nothing_is_refused(workload: Workload, maximized: Maximized, says: str) -> None:
    """Each refusal says where the word would mean something."""
    with pytest.raises(InvalidInputError, match=says):
        ceiling(Question(workload=workload, layout=Layout()), maximized)


@pytest.mark.parametrize(
    ("failing", "end", "value"),
    [({12, 13, 14, 15}, 16, 11), ({3}, 8, 2), ({1}, 8, None), (set(), 16, 16), ({60}, 16, 16)],
)
def test_whatever_is_below_a_ceiling_fits(failing: set[int], end: int, value: int | None) -> None:
    """A replay that reserves more for less ends the ceiling below it; what fits again beyond the
    next value is no ceiling.
    """

    def answer(workload: Workload, _layout: Layout) -> Estimate:
        assert isinstance(workload, TrainWorkload)
        size = workload.micro_batch_size
        return an_estimate(
            2 * GIB if size in failing or end < size < end + 4 or size > 2 * end else GIB
        )

    def numbers(workload: Workload, _layout: Layout) -> Estimate:
        assert isinstance(workload, TrainWorkload)
        return an_estimate(GIB if workload.micro_batch_size <= end else 2 * GIB)

    subject = replace(subject_of(GIB), evaluate=answer, replayed=answer, outlined=numbers)
    fixed = frozenset({"framework", "sharding", "zero_stage", "activation_checkpointing"})
    question = Question(workload=BATCHES, layout=Layout(), fixed=fixed, limits=Limits(max_gpus=1))
    found = find_ceiling(question, Maximized.MICRO_BATCH_SIZE, lambda _value: subject)

    assert found.value == value
    assert found.next is not None
    assert found.next.value == (value or 0) + 1
    assert found.next.missing_bytes
