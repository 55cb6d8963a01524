"""What a rule refused once is not asked again, and all that counts as refused is refused."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import MIB
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.known_refusals import KnownRefusals
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import shallow

MODELS = [shallow("tinyllama-1.1b", 2), shallow("llama-3.1-8b", 2), shallow("mixtral-8x7b", 1)]
QUESTION = Question(
    workload=TrainWorkload(sequence_length=512), layout=Layout(), limits=Limits(max_gpus=32)
)


def _turing(usable_bytes: int) -> Device:
    """Return a GPU that has neither flash attention nor bf16, with any memory."""
    t4 = resolve_gpu("T4").to_device()
    return replace(t4, capacity_bytes=usable_bytes, usable_bytes=usable_bytes)


@pytest.mark.parametrize("model", MODELS, ids=["one head group", "grouped", "experts"])
def test_what_is_known_to_be_refused_is_refused(model: Architecture) -> None:
    """Every option that another one's refusal covers is refused when it is asked itself."""
    device = _turing(8_000 * MIB)
    evaluator = make_evaluator(model, device, plans=PlanCache(capacity=4096))
    space = SearchSpace(model, QUESTION, Offer(device=device))
    known, covered, asked = KnownRefusals(QUESTION.workload), 0, 0
    for count in space.counts:
        for option in space.list_options(count):
            for batch in space.list_batches(option)[:: len(space.list_batches(option)) // 3 or 1]:
                config = space.build_config(option, batch)
                if known.covers(option.strategy.name, config):
                    covered += 1
                    with pytest.raises(EstimatorError):
                        evaluator.estimate_numbers(*config)
                elif option.layout.pipeline_parallel == option.layout.expert_parallel == 1:
                    asked += 1
                    try:
                        evaluator.estimate_numbers(*config)
                    except EstimatorError as refusal:
                        known.record(option.strategy.name, config, refusal)

    assert covered > asked / 4


def test_a_refusal_is_asked_for_once() -> None:
    """Where no number is enough, a strategy that the GPU does not run is asked about once."""
    device, refused = _turing(600 * MIB), []
    evaluator = make_evaluator(MODELS[0], device, plans=PlanCache(capacity=4096))

    def estimate(workload: Workload, layout: Layout) -> Estimate:
        try:
            return evaluator.estimate_numbers(workload, layout)
        except EstimatorError as refusal:
            refused.append(refusal.message)
            raise

    search = Search(
        replace(evaluator, outlined=estimate),
        SearchSpace(MODELS[0], QUESTION, Offer(device=device)),
    )

    assert not any(map(search.suffices, search.space.counts))
    assert search.pruned["cannot_run"] > 10 * len(refused) > 0
    assert search.refusal is not None
    assert search.refusal.message == refused[0]


def test_a_refusal_whose_fields_are_not_known_covers_nothing() -> None:
    """One that a batch decides does not cover the others, nor one of a server any."""
    space = SearchSpace(MODELS[0], QUESTION, Offer(device=_turing(8_000 * MIB)))
    option = space.list_options(2)[0]
    few, many = (space.list_batches(option)[index] for index in (0, -1))
    config, other = space.build_config(option, few), space.build_config(option, many)
    cases = [
        (None, (False, False)),
        (frozenset({"workload.micro_batch_size", "model.family"}), (True, False)),
        (frozenset({"layout.tensor_parallel"}), (True, True)),
        (frozenset({"stored_as"}), (False, False)),
    ]
    for decided_by, covered in cases:
        known, refusal = KnownRefusals(QUESTION.workload), InvalidInputError("refused")
        refusal.decided_by = decided_by

        known.record(option.strategy.name, config, refusal)

        assert (
            known.covers(option.strategy.name, config),
            known.covers(option.strategy.name, other),
        ) == covered
        assert known.covers_batches(option.strategy.name, config) == covered[1]


def test_rules_about_ranks_do_not_cover_others() -> None:
    """A refusal that reads how many ranks there are is not one of any number of them."""
    space = SearchSpace(MODELS[0], QUESTION, Offer(device=_turing(8_000 * MIB)))
    option = space.list_options(2)[0]
    config = space.build_config(option, space.list_batches(option)[0])
    for path, is_of_any in (("layout.data_parallel", False), ("layout.sharding", True)):
        known, refusal = KnownRefusals(QUESTION.workload), InvalidInputError("refused")
        refusal.decided_by = frozenset({path})
        known.record(option.strategy.name, config, refusal)

        assert known.covers(option.strategy.name, config)
        assert known.covers_ranks(option.strategy.name, config) is is_of_any


def test_what_a_gpu_lacks_is_said_with_the_fields_that_decide() -> None:
    """Else each layout would be asked about: the refusals of the table, and those of hardware."""
    evaluator = make_evaluator(MODELS[1], _turing(8_000 * MIB), plans=PlanCache())
    space = SearchSpace(MODELS[1], QUESTION, Offer(device=evaluator.device))
    refusals: dict[str, EstimatorError] = {}
    for option in space.list_options(2):
        try:
            evaluator.estimate_numbers(*space.build_config(option, space.list_batches(option)[0]))
        except EstimatorError as refusal:
            refusals[option.strategy.name] = refusal

    assert {"torchtitan", "megatron"} <= refusals.keys()
    assert all(refusal.decided_by is not None for refusal in refusals.values())
