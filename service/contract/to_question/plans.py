"""Decoded plan requests as questions of the planner."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_device
from service.catalog.prices import Price, list_prices
from service.contract.schemas.fields import get_or_default, get_or_none
from service.contract.schemas.plans import PlanRequest
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.searches import (
    adopt_cache,
    read_devices,
    read_job_names,
    read_search,
)
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.device import Device
from service.planner.cluster.inventory import Pool
from service.planner.search.offer import Offer
from service.usecases.questions.plans import PlanQuestion

REQUEST_SOURCE = "the request"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """Prices by GPU name, the request's before the catalogue's."""

    overrides: Mapping[str, float]

    def get_price(self, device: Device, pool: Pool | None = None) -> float | None:
        """Return USD per GPU hour.

        A pool's own price comes before the catalogue's.
        """
        if device.name in self.overrides:
            return self.overrides[device.name]
        if pool is not None and device.mig_profile is None and pool.price_per_gpu_hour is not None:
            return pool.price_per_gpu_hour
        price = list_prices().get(device.name)
        return None if price is None else price.usd_per_gpu_hour

    def get_source(self, offer: Offer) -> str | None:
        """Return the source of a price."""
        if offer.price_per_gpu_hour is None:
            return None
        name, price = offer.device.name, list_prices().get(offer.device.name)
        if name in self.overrides:
            return REQUEST_SOURCE
        if offer.pool is not None and (
            price is None or price.usd_per_gpu_hour != offer.price_per_gpu_hour
        ):
            return f"pool {offer.pool}"
        return None if price is None else _cite(price)


def read_prices(request: PlanRequest) -> PriceBook:
    """Return the prices that hold for a request.

    Names and aliases in it mean one GPU each.
    """
    prices = {} if isinstance(request.prices, UnsetType) else request.prices
    return PriceBook(
        overrides={
            resolve_device(name, field="prices").name: price for name, price in prices.items()
        },
    )


def read_plan(request: PlanRequest, model: ResolvedModel, prices: PriceBook) -> PlanQuestion:
    """Return the question of a plan request.

    What a cluster offers is not in the request; it is added when the plan is placed.
    """
    search = adopt_cache(read_search(request), model)
    return PlanQuestion(
        architecture=as_loaded(model.architecture, search.question.workload),
        question=search.question,
        offers=_build_offers(request, prices),
        objective=request.objective,
        names=read_job_names(request, model),
        model=None if model.has_other_head else model.name,
        pareto=request.pareto,
        assumptions=(*model.notes, *search.assumptions),
        formats=tuple(get_or_none(request.format) or ()),
        cluster=get_or_default(request.cluster, ""),
    )


def read_cluster(request: PlanRequest) -> str | None:
    """Return the cluster that a request names.

    Refuses a request that does not name its GPUs exactly once.
    """
    cluster = get_or_none(request.cluster)
    if (cluster is None) == isinstance(request.gpus, UnsetType):
        message = 'say the GPUs once: either "gpus" or "cluster"'
        raise InvalidRequestError(message, errors=[{"field": "gpus", "message": message}])
    return cluster


def _build_offers(request: PlanRequest, prices: PriceBook) -> tuple[Offer, ...]:
    if isinstance(request.gpus, UnsetType):
        return ()
    named = {
        (device.name, device.usable_bytes): device
        for reference in request.gpus
        for device in read_devices(reference)
    }
    return tuple(
        Offer(device=device, price_per_gpu_hour=prices.get_price(device))
        for device in named.values()
    )


def _cite(price: Price) -> str:
    return f"{price.source}, {price.date}"
