"""The fewest GPUs of one kind that are enough for a question.

The answer also says why fewer are not.
"""

from service.planner.fit.evaluator import Evaluator
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import OfferPlan, Plan
from service.planner.plans.plans import (
    add_candidates,
    add_smallest_change,
    plan_offer,
    select_question_format,
)
from service.planner.remedies.other_gpus import OtherGpus, list_no_other_gpus
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question


def find_fewest_gpus(
    evaluator: Evaluator, question: Question, *, larger_gpus: OtherGpus = list_no_other_gpus
) -> Plan:
    """Return the plan with the fewest GPUs.

    Raises EstimatorError when no configuration can run or has a term.
    """
    offer = Offer(device=evaluator.device)
    search = Search(
        evaluator,
        SearchSpace(evaluator.architecture, select_question_format(evaluator, question), offer),
    )
    plan = add_candidates(plan_offer(offer, search, Objective.FEWEST_GPUS), search)
    return add_smallest_change(
        OfferPlan(offer=offer, evaluator=evaluator, plan=plan), search, larger_gpus
    )
