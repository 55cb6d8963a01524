"""Nodes for a job, by the decision about it on each GPU."""

from collections.abc import Mapping
from dataclasses import replace

from service.catalog.prices import list_prices
from service.usecases.hooks.decision import Action, Decision, HookVerdict, Mode

MAX_SCORE = 10
"""``MaxExtenderPriority`` of kube-scheduler."""
_UNPRICED = 0.5


def settle_node(decision: Decision, mode: Mode, sku: str | None = None) -> Decision:
    """Return the decision about a job on one node.

    A node is left out where its GPUs cannot hold the job. That it asks for too few of them is no
    reason: its other pods are not seen here. A question that names another GPU says nothing of
    this one.
    """
    if decision.action is not Action.REFUSE:
        return decision
    is_about_it = sku is None or decision.gpu in {None, sku}
    cannot_hold = decision.lacks_memory or decision.verdict is HookVerdict.UNKNOWN
    if mode is not Mode.WARN and is_about_it and cannot_hold:
        return decision
    return replace(decision, action=Action.WARN)


def rank_skus(decisions: Mapping[str, Decision]) -> Mapping[str, int]:
    """Return a score of 0 to 10 for each SKU.

    10 is the cheapest that holds the job; a GPU that costs twice as much has half of it, and so has
    one on which it is tight.
    """
    book = list_prices()
    holding = {
        sku: decision.verdict
        for sku, decision in decisions.items()
        if decision.verdict in {HookVerdict.FITS, HookVerdict.TIGHT} and decision.gpu == sku
    }
    prices = {sku: book[sku].usd_per_gpu_hour for sku in holding if sku in book}
    cheapest = min(prices.values(), default=0.0)
    return {
        sku: _score(
            cheapest / prices[sku] if prices.get(sku) else _UNPRICED,
            is_tight=holding[sku] is HookVerdict.TIGHT,
        )
        if sku in holding
        else 0
        for sku in decisions
    }


def _score(share: float, *, is_tight: bool) -> int:
    return max(1, round(MAX_SCORE * share / (2 if is_tight else 1)))
