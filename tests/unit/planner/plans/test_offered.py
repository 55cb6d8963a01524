"""Every kind of GPU that is asked appears in the answer, with a plan or with a reason."""

import pytest

from service.catalog.gpus import resolve_device
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.formats.renderings.job import JobNames
from service.planner.fit.evaluator import make_evaluator
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plans, merge_refusals
from service.planner.plans.plans import find_plans
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from service.usecases.questions.how_many import HowManyQuestion, answer_how_many
from tests.unit.planner.builders import SHORT, a_device

WHOLE, SLICE = resolve_device("A100-SXM4-80GB"), resolve_device("A100-SXM4-80GB-MIG-3g.40gb")
ALONE = "a job has one MIG slice, and the layout takes 2: slices cannot work together"
TWO_RANKS = Question(
    workload=SHORT,
    layout=Layout(data_parallel=2),
    fixed=frozenset({"data_parallel", "sharding", "zero_stage"}),
    limits=Limits(max_gpus=8),
    frameworks=frozenset({"ddp"}),
)


@pytest.fixture(scope="module")
def model() -> Architecture:
    """Return a small model of the catalogue."""
    return load_architecture(resolve_model("gpt2"))


def _plans(model: Architecture, devices: tuple[Device, ...]) -> Plans:
    cache = PlanCache()
    subjects = [
        (Offer(device=device), make_evaluator(model, device, plans=cache)) for device in devices
    ]
    return find_plans(subjects, TWO_RANKS, Objective.FEWEST_GPUS)


@pytest.mark.parametrize("devices", [(WHOLE, SLICE), (SLICE, WHOLE)])
def test_a_kind_that_cannot_be_asked_is_told_beside_the_plan(
    model: Architecture, devices: tuple[Device, ...]
) -> None:
    """Two ranks run on whole GPUs and on no slices: both are in the answer, in the order in which
    they were asked.
    """
    plans = _plans(model, devices)
    by_name = {one.offer.device.name: one.plan for one in plans.offer_plans}

    assert plans.best is not None
    assert plans.best.offer.device is WHOLE
    assert list(by_name) == [device.name for device in devices]
    assert by_name[WHOLE.name].num_gpus == 2
    assert (
        by_name[SLICE.name].num_gpus,
        by_name[SLICE.name].reason,
        by_name[SLICE.name].is_refused,
    ) == (None, ALONE, True)


def test_what_no_kind_can_be_asked_is_the_error(model: Architecture) -> None:
    """Where all are refused for one reason, that is the answer."""
    with pytest.raises(InvalidInputError, match=f"^{ALONE}$") as refusal:
        _plans(model, (SLICE, resolve_device("A100-SXM4-80GB-MIG-1g.10gb")))

    assert refusal.value.field == "layout"


def test_different_reasons_are_all_told() -> None:
    """Of kinds that are refused for different reasons each is named with its own."""
    refusals: list[tuple[str, EstimatorError]] = [
        ("A", InvalidInputError("no price", field="constraints.max_cost_per_hour")),
        ("B", InvalidInputError("no fp8", field="workload.quantization")),
    ]
    told = merge_refusals(refusals)

    assert told.message == "none of these GPUs can be asked: A: no price; B: no fp8"
    assert told.field == "gpus"


def test_a_family_answers_for_each_of_its_kinds(model: Architecture) -> None:
    """A number for one kind is not taken away by a reason for another."""
    asked = HowManyQuestion(
        architecture=model,
        question=TWO_RANKS,
        devices=(SLICE, WHOLE),
        names=JobNames(model_name="any"),
    )
    found = {device.name: plan for device, plan in answer_how_many(asked, plans=PlanCache())}

    assert found[WHOLE.name].num_gpus == 2
    assert (found[SLICE.name].num_gpus, found[SLICE.name].reason) == (None, ALONE)


def test_a_kind_that_lacks_memory_is_nearer_than_one_that_is_refused(model: Architecture) -> None:
    """What is told of an answer without a number is what something could be done about."""
    tiny = a_device(2**30)
    plans = _plans(model, (SLICE, tiny))

    assert plans.best is None
    assert plans.nearest.offer.device is tiny
    assert plans.nearest.plan.closest is not None
