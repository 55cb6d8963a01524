"""What must hold of every plan: more is never worse, what is promised holds, bounds never exceed
what they bound.
"""

from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import Verdict, judge
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plan
from service.planner.plans.plans import add_candidates, plan_offer
from service.planner.search.bounds import compute_state_bytes
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import a_device, shallow

MODEL = shallow("smollm2-135m", 4)
PLANS = PlanCache(capacity=4096)
MEMORY = st.integers(1100, 3000).map(lambda size: size * MIB)
TRAINED = st.builds(
    TrainWorkload,
    sequence_length=st.sampled_from([256, 1024]),
    precision=st.sampled_from([POLICIES["bf16_mixed"], POLICIES["fp32"], POLICIES["bf16"]]),
    optimizer=st.sampled_from(["adamw", "sgd"]),
)
SERVED = st.builds(
    ServeWorkload,
    num_sequences=st.sampled_from([1, 16]),
    prompt_tokens=st.sampled_from([128, 512]),
    engine=st.just(Engine.VLLM),
    max_model_len=st.just(1024),
)
LIMITS = st.builds(
    Limits, max_gpus=st.sampled_from([1, 4]), confidence=st.sampled_from([0.95, None])
)
FIXED = st.sampled_from(
    [frozenset({"micro_batch_size"}), frozenset({"activation_checkpointing", "context_parallel"})]
)
FRAMEWORKS = st.sampled_from([None, frozenset({"megatron"}), frozenset({"transformers"})])
TO_TRAIN = st.builds(
    Question,
    workload=TRAINED,
    layout=st.just(Layout()),
    limits=LIMITS,
    fixed=FIXED,
    frameworks=FRAMEWORKS,
)
TO_SERVE = st.builds(Question, workload=SERVED, layout=st.just(Layout()), limits=LIMITS)
ASKED = st.one_of(
    st.tuples(TO_TRAIN, MEMORY),
    st.tuples(TO_SERVE, st.integers(4000, 16000).map(lambda size: size * MIB)),
)
"""A question beside a memory that may be too small for it, on one GPU or on all."""
Asked = tuple[Question, int]
OBJECTIVES = st.sampled_from(list(Objective))


def best(
    question: Question, usable_bytes: int, objective: Objective = Objective.FEWEST_GPUS
) -> Plan | None:
    """Return the plan on GPUs of so much memory; what would help where there is none is not
    searched.
    """
    offer = Offer(device=a_device(usable_bytes))
    search = Search(
        make_evaluator(MODEL, offer.device, plans=PLANS), SearchSpace(MODEL, question, offer)
    )
    try:
        plan = plan_offer(offer, search, objective)
    except EstimatorError:
        return None
    return None if plan.num_gpus is None else add_candidates(plan, search)


@settings(max_examples=80, deadline=None)
@given(asked=ASKED, more=MEMORY)
def test_more_memory_never_needs_more_gpus(asked: Asked, more: int) -> None:
    """None counts as more than any number."""
    question, small = asked
    little, much = best(question, small), best(question, small + more)

    if little is not None:
        assert much is not None
        assert (much.num_gpus or 0) <= (little.num_gpus or 0)


@settings(max_examples=60, deadline=None)
@given(asked=ASKED, objective=OBJECTIVES)
def test_a_larger_budget_never_makes_a_worse_plan(asked: Asked, objective: Objective) -> None:
    """Twice the GPUs may be left alone."""
    question, usable = asked
    wider = replace(
        question, limits=replace(question.limits, max_gpus=2 * question.limits.max_gpus)
    )
    narrow, wide = best(question, usable, objective), best(wider, usable, objective)

    if narrow is not None:
        assert wide is not None
        if objective is Objective.FASTEST:
            slower, faster = (one.candidates[0].seconds_per_token for one in (narrow, wide))
            assert faster <= slower * (1 + 1e-9)
        else:
            assert wide.num_gpus == narrow.num_gpus


@settings(max_examples=60, deadline=None)
@given(asked=ASKED, objective=OBJECTIVES)
def test_what_a_plan_promises_a_fit_confirms(asked: Asked, objective: Objective) -> None:
    """Its layout and workload, asked again, give the same bytes, and a verdict that the confidence
    allows.
    """
    question, usable = asked
    plan = best(question, usable, objective)
    accepted = {Verdict.FITS} if question.limits.confidence else {Verdict.FITS, Verdict.TIGHT}

    for candidate in plan.candidates if plan is not None else ():
        subject = make_evaluator(MODEL, a_device(usable))
        answer = subject.answer(candidate.workload, candidate.layout)
        assert answer == candidate.estimate
        assert judge(answer, subject.device).verdict in accepted
        assert candidate.num_gpus == candidate.layout.num_gpus <= question.limits.max_gpus


@settings(max_examples=40, deadline=None)
@given(workload=TRAINED, count=st.sampled_from([1, 2, 4]), index=st.integers(0, 1000))
def test_the_bound_of_states_never_exceeds_the_estimate(
    workload: TrainWorkload, count: int, index: int
) -> None:
    """What is pruned by its states alone could not have fitted."""
    question = Question(workload=workload, layout=Layout(), allow=frozenset({"offload"}))
    device = a_device(2**40)
    space, subject = (
        SearchSpace(MODEL, question, Offer(device=device)),
        make_evaluator(MODEL, device, plans=PLANS),
    )
    states = compute_state_bytes(MODEL, workload)
    slots = space.list_options(count)
    slot = slots[index % len(slots)]
    with suppress(EstimatorError):
        estimate = subject.answer(*space.build_config(slot, space.list_batches(slot)[0]))

        assert states.compute_rank_bytes(slot) <= estimate.device_bytes


@settings(max_examples=60, deadline=None)
@given(
    workload=TRAINED, count=st.sampled_from([1, 2, 4]), index=st.integers(0, 1000), usable=MEMORY
)
def test_a_batch_without_room_for_its_inputs_does_not_fit(
    workload: TrainWorkload, count: int, index: int, usable: int
) -> None:
    """What is never timed could not have fitted."""
    device = a_device(usable)
    subject = make_evaluator(MODEL, device, plans=PLANS)
    search = Search(
        subject,
        SearchSpace(MODEL, Question(workload=workload, layout=Layout()), Offer(device=device)),
    )
    left_out = [
        (slot, batch)
        for slot in search.space.list_options(count)
        for batch in search.space.list_batches(slot)
        if batch not in search.memory_bounds.list_fitting_batches(slot)
    ]
    if left_out:
        slot, batch = left_out[index % len(left_out)]
        with suppress(EstimatorError):
            assert subject.answer(*search.space.build_config(slot, batch)).device_bytes > usable
