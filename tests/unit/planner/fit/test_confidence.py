"""Answers at other levels than 0.95: intervals and plans grow with them, and none is promised that
is not carried.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from service.catalog.gpus import resolve_device
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.intervals.allocator_ratios import RATIOS, ROUNDING
from service.estimator.memory.intervals.ends import HIGHEST, get_level_index, get_residual_ends
from service.estimator.memory.intervals.pooled_ends import (
    HIGHEST_PERCENT,
    LOWEST_PERCENT,
    NUM_GROUPS,
    POOLED,
)
from service.estimator.memory.intervals.table import WIDTHS
from service.estimator.values.corrections import Corrections
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Engine, ServeWorkload, Workload
from service.planner.fit.confidence import check_confidence, list_confidence_notes
from service.planner.fit.evaluator import make_evaluator
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import ADAPTERS, CHAT, LONG, ONE_GPU, SHORT, a_device

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.93, 0.95, 0.96, 0.97)
MODEL = load_architecture(resolve_model("smollm2-135m"))
A100 = resolve_device("A100-SXM4-80GB")
PLANS = PlanCache()
HELD_OUT = tuple(index / 1000 for index in range(1, 31))
LEARNT = Corrections(
    calibration="test",
    relative_error=0.029,
    conformal=True,
    allocated_errors=HELD_OUT,
    reserved_error=0.029,
    reserved_errors=HELD_OUT,
    outside_error=0.029,
    outside_errors=HELD_OUT,
)


def at(
    level: float,
    workload: Workload,
    known: Corrections | None = None,
    detail: Detail = Detail.REPLAYED,
) -> Estimate:
    """Return an answer with intervals of a level."""
    return estimate(
        MODEL,
        workload,
        layout=ONE_GPU,
        device=A100,
        corrections=known,
        plans=PLANS,
        detail=detail,
        level=level,
    )


@pytest.mark.parametrize("detail", [Detail.NUMBERS, Detail.REPLAYED])
@pytest.mark.parametrize("known", [None, LEARNT], ids=["shipped", "learnt"])
@pytest.mark.parametrize("workload", [SHORT, ADAPTERS, CHAT], ids=["full", "lora", "serve"])
def test_a_higher_level_is_never_narrower(
    workload: Workload, known: Corrections | None, detail: Detail
) -> None:
    """All three intervals hold those of every lower level, around the same bytes, and say their
    level.
    """
    answers = [at(level, workload, known, detail) for level in LEVELS]

    assert [answer.interval_level for answer in answers] == list(LEVELS)
    assert len({answer.device_bytes for answer in answers}) == 1
    for lower, higher in pairwise(answers):
        for name in ("allocated_interval", "reserved_interval", "device_interval"):
            inner, outer = getattr(lower, name), getattr(higher, name)
            assert outer.low <= inner.low <= inner.high <= outer.high
    assert answers[0].device_interval.high < answers[-1].device_interval.high


def test_every_row_of_the_table_grows_with_the_level() -> None:
    """Lows fall and highs rise, one for each percent."""
    number = HIGHEST_PERCENT - LOWEST_PERCENT + 1
    rows = [*POOLED.values(), *WIDTHS.values(), *RATIOS.values(), (ROUNDING[::-1], ROUNDING)]

    assert all(len(lows) == len(highs) == number for lows, highs in rows)
    assert all(
        list(lows) == sorted(lows, reverse=True) and list(highs) == sorted(highs)
        for lows, highs in rows
    )


def test_a_level_between_two_has_the_wider() -> None:
    """A thousandth rounds up, and a hundredth that is read from text is no more than it says."""
    assert get_residual_ends("training", "reserved", 0.925) == get_residual_ends(
        "training", "reserved", 0.93
    )
    assert [get_level_index(percent / 100) for percent in range(50, 98)] == list(range(48))


def test_learnt_residuals_are_asked_for_the_level() -> None:
    """Of thirty errors the sixteenth holds half of what comes next; beyond what they carry the
    shipped interval counts too.
    """
    half, usual = at(0.5, SHORT, LEARNT), at(0.95, SHORT, LEARNT)
    most, shipped = at(0.97, SHORT, LEARNT), at(0.97, SHORT)
    allocated = half.allocated_bytes

    assert half.allocated_interval.high == allocated + round(allocated * 0.016)
    assert usual.allocated_interval.high == allocated + round(allocated * 0.029)
    assert most.allocated_interval.high == max(
        allocated + round(allocated * 0.03), shipped.allocated_interval.high
    )


@pytest.mark.parametrize(
    ("confidence", "workload", "says"),
    [
        (
            0.99,
            SHORT,
            f"{NUM_GROUPS} groups of readings that the intervals rest on carry {HIGHEST:g} at most",
        ),
        (0.4, SHORT, "it must be 0.5 or more"),
        (0.96, replace(CHAT, engine=Engine.VLLM), "carry 0.95 at most"),
    ],
)
def test_a_level_that_is_not_carried_is_refused(
    confidence: float, workload: Workload, says: str
) -> None:
    """The refusal names the highest level that the residuals carry."""
    with pytest.raises(InvalidInputError, match=says) as refusal:
        Question(workload=workload, layout=ONE_GPU, limits=Limits(confidence=confidence))

    assert refusal.value.field == "confidence"


def test_what_has_one_interval_says_so() -> None:
    """Engines are known by ends of readings, which stand at lower levels as well."""
    served = ServeWorkload(engine=Engine.VLLM, num_sequences=1, prompt_tokens=1)
    check_confidence(0.8, served)

    assert list_confidence_notes(0.8, served)[0].startswith("confidence = 0.95")
    assert (
        list_confidence_notes(0.95, served)
        == list_confidence_notes(None, served)
        == list_confidence_notes(0.8, SHORT)
        == ()
    )


def test_less_confidence_never_takes_more_gpus() -> None:
    """What is enough at a level is enough at every lower one, and the point takes the fewest;
    reasons say the level.
    """
    need = at(0.95, LONG).device_interval
    device = a_device((need.low + need.high) // 2)
    fixed = frozenset(
        {"micro_batch_size", "activation_checkpointing", "tensor_parallel", "pipeline_parallel"}
    )
    numbers, told = [], set()
    for confidence in (None, 0.5, 0.8, 0.95, HIGHEST):
        limits = Limits(confidence=confidence, max_gpus=8)
        question = Question(
            workload=LONG,
            layout=ONE_GPU,
            fixed=fixed,
            limits=limits,
            frameworks=frozenset({"ddp", "fsdp2"}),
        )
        plan = find_fewest_gpus(
            make_evaluator(MODEL, device, plans=PLANS, level=question.level), question
        )
        numbers.append(plan.num_gpus or 9)
        told |= {
            miss.reason.rpartition(" at ")[2] for miss in plan.rejected if "tight" in miss.reason
        }

    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1]
    assert told == {"50%", "80%", "95%", f"{HIGHEST * 100:g}%"}
