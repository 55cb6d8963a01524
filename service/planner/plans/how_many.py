"""How many GPUs of one kind: the fewest on which something that the request allows is enough, and why fewer are not."""

from service.planner.fit.evaluator import Subject
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Offered, Plan
from service.planner.plans.plans import helped, in_its_format, plan_on, widen
from service.planner.plans.relaxations import Larger, none_larger
from service.planner.search.layouts import Space
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question


def how_many(subject: Subject, question: Question, *, larger: Larger = none_larger) -> Plan:
    """Return the fewest GPUs; raises EstimatorError when no configuration can run or has a term."""
    offer = Offer(device=subject.device)
    search = Search(subject, Space(subject.architecture, in_its_format(subject, question), offer))
    plan = widen(plan_on(offer, search, Objective.FEWEST_GPUS), search)
    return helped(Offered(offer=offer, subject=subject, plan=plan), search, larger)
