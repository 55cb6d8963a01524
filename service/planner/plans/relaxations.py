"""The smallest change to a question that has no plan: each is searched on the model itself, none is promised."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Candidate
from service.planner.fit.evaluator import Subject
from service.planner.fit.remedies import Remedy, find_remedies, remedy_between
from service.planner.fit.verdict import Verdict
from service.planner.search.layouts import Space
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import DEFAULT_MAX_GPUS, OFFLOADING, QUANTIZING, Question

Larger = Callable[[Device], Iterable[Subject]]
"""Gives the same model on known GPUs of more memory, the smallest first."""


def none_larger(_device: Device) -> Iterable[Subject]:
    """Know no other GPU."""
    return ()


def smallest_change(search: Search, offer: Offer, nearest: Candidate, larger: Larger) -> Remedy | None:
    """Return what helps and changes least.

    The same job on no more GPUs; what the request may allow; the next larger GPU; more GPUs; adapters in place of the model.
    """
    most = max(_tried(search, offer))
    remedies = find_remedies(search.subject, nearest.workload, nearest.layout, nearest.estimate, max_gpus=most)
    fitting = [remedy for remedy in remedies if remedy.verdict is Verdict.FITS]
    same_job = next((remedy for remedy in fitting if "method" not in remedy.change), None)
    # A time is no matter of memory: what else is searched would be held to it with every layout that fits.
    widened = iter(()) if search.clock.is_limited else _widened(search, offer, nearest, larger)
    return same_job or next(widened, None) or next(iter(fitting), None)


def _widened(search: Search, offer: Offer, nearest: Candidate, larger: Larger) -> Iterator[Remedy]:
    before, question = (search.subject, nearest), search.question
    allowance = QUANTIZING if isinstance(question.workload, ServeWorkload) else OFFLOADING
    if allowance not in question.allow:
        found = _fewest(search.subject, replace(question, allow=question.allow | {allowance}), offer)
        if found is not None:
            yield remedy_between({"allow": sorted(question.allow | {allowance})}, before, (search.subject, found))
    # What a larger GPU costs, and whether a cluster has it, nobody said.
    if offer.pool is None and question.limits.max_cost_per_hour is None:
        for subject in larger(offer.device):
            found = _fewest(subject, question, replace(offer, device=subject.device, price_per_gpu_hour=None))
            if found is not None:
                yield remedy_between({"gpus": [subject.device.name]}, before, (subject, found))
    limits = replace(question.limits, max_gpus=DEFAULT_MAX_GPUS, max_nodes=None, max_cost_per_hour=None)
    found = None if limits == question.limits else _fewest(search.subject, replace(question, limits=limits), offer)
    if found is not None:
        yield remedy_between(_raised(search, offer, found), before, (search.subject, found))


def _fewest(subject: Subject, question: Question, offer: Offer) -> Candidate | None:
    """Return the fastest on the fewest GPUs that are enough."""
    try:
        search = Search(subject, Space(subject.architecture, question, offer))
        for count in _tried(search, offer):
            if search.suffices(count) and (found := next(search.best(count), None)) is not None:
                return found
    except EstimatorError:
        return None
    return None


def _tried(search: Search, offer: Offer) -> Iterator[int]:
    """Yield the numbers of GPUs that are offered and paid for."""
    most, price = search.question.limits.max_cost_per_hour, offer.price_per_gpu_hour
    for count in search.space.counts:
        if (offer.counts is None or count in offer.counts) and (most is None or price is None or count * price <= most):
            yield count


def _raised(search: Search, offer: Offer, found: Candidate) -> Mapping[str, object]:
    """Return the limits that so many GPUs go beyond, each with the value that it would need."""
    limits, cost = search.question.limits, offer.cost_per_hour(found.num_gpus)
    nodes = ceil_div(found.num_gpus, search.space.asked.gpus_per_node)
    needed = (
        ("max_gpus", limits.max_gpus, found.num_gpus),
        ("max_nodes", limits.max_nodes, nodes),
        ("max_cost_per_hour", limits.max_cost_per_hour, cost),
    )
    return {name: value for name, limit, value in needed if limit is not None and value is not None and value > limit}
