"""From a decoded plans request to a question that the planner can answer."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_device
from service.catalog.prices import Price, list_prices
from service.contract.schemas.fields import optional
from service.contract.schemas.plans import PlanRequest
from service.contract.to_question.fits import ResolvedModel
from service.contract.to_question.searches import read_asked, read_devices
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.device import Device
from service.planner.cluster.inventory import Pool
from service.planner.search.offer import Offer
from service.usecases.questions.plans import PlanQuestion

SAID = "the request"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """Prices by name of the GPU: the request's own before those of the catalogue."""

    said: Mapping[str, float]

    def of(self, device: Device, pool: Pool | None = None) -> float | None:
        """Return USD per GPU hour; a pool's own price comes before the catalogue's."""
        if device.name in self.said:
            return self.said[device.name]
        if pool is not None and device.mig_profile is None and pool.price_per_gpu_hour is not None:
            return pool.price_per_gpu_hour
        known = list_prices().get(device.name)
        return None if known is None else known.usd_per_gpu_hour

    def source(self, offer: Offer) -> str | None:
        """Return where a price is from."""
        if offer.price_per_gpu_hour is None:
            return None
        name, known = offer.device.name, list_prices().get(offer.device.name)
        if name in self.said:
            return SAID
        if offer.pool is not None and (known is None or known.usd_per_gpu_hour != offer.price_per_gpu_hour):
            return f"pool {offer.pool}"
        return None if known is None else _cited(known)


def read_prices(request: PlanRequest) -> PriceBook:
    """Return the prices that hold for a request; names and aliases of its own mean one GPU each."""
    said = {} if isinstance(request.prices, UnsetType) else request.prices
    return PriceBook(said={resolve_device(name, field="prices").name: price for name, price in said.items()})


def read_plan(request: PlanRequest, model: ResolvedModel, prices: PriceBook) -> PlanQuestion:
    """Return the question; what a cluster offers is not in the request, and is for whoever places the plan."""
    asked = read_asked(request)
    return PlanQuestion(
        architecture=as_loaded(model.architecture, asked.question.workload),
        model_name=request.model.rpartition("/")[2] if isinstance(request.model, str) else model.architecture.family,
        checkpoints=model.checkpoints,
        question=asked.question,
        offers=_offers(request, prices),
        objective=request.objective,
        pareto=request.pareto,
        assumptions=asked.assumptions,
    )


def cluster_of(request: PlanRequest) -> str | None:
    """Return the cluster that a request names; it says its GPUs exactly once."""
    cluster = optional(request.cluster)
    if (cluster is None) == isinstance(request.gpus, UnsetType):
        message = 'say the GPUs once: either "gpus" or "cluster"'
        raise InvalidRequestError(message, errors=[{"field": "gpus", "message": message}])
    return cluster


def _offers(request: PlanRequest, prices: PriceBook) -> tuple[Offer, ...]:
    if isinstance(request.gpus, UnsetType):
        return ()
    named = {(device.name, device.usable_bytes): device for said in request.gpus for device in read_devices(said)}
    return tuple(Offer(device=device, price_per_gpu_hour=prices.of(device)) for device in named.values())


def _cited(price: Price) -> str:
    return f"{price.source}, {price.date}"
