"""GPUs that the catalogue does not have are offered by their memory, and not at all without."""

from collections.abc import Callable

import pytest

from service.estimator.values.device import UNKNOWN_VENDOR, Device
from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.offers import list_current_offers, list_empty_offers
from service.planner.cluster.placement import Supply, build_supply
from service.planner.search.offer import Offer

GIB = 1 << 30


def find_device(name: str) -> Device:
    """Return a GPU of the catalogue: the one that it has here."""
    assert name == "L4"
    return Device(name=name, capacity_bytes=24 * GIB, usable_bytes=22 * GIB)


def list_current(supply: Supply) -> tuple[Offer, ...]:
    """Return what is free."""
    return list_current_offers(supply, find_device, lambda _device, _pool: None, together=True)


def list_empty(supply: Supply) -> tuple[Offer, ...]:
    """Return what there is."""
    return list_empty_offers(supply, find_device, lambda _device, _pool: None)


@pytest.mark.parametrize("list_offers", [list_current, list_empty])
def test_a_gpu_is_offered_by_what_is_known_of_it(
    list_offers: Callable[[Supply], tuple[Offer, ...]],
) -> None:
    """Its memory is all that is known; of another not even that."""
    pools = [
        Pool(name=gpu, gpu=gpu, gpus_per_node=4, nodes=(Node(name="n"),), gpu_memory_bytes=memory)
        for gpu, memory in (("zeta9000", 20 * GIB), ("eta", 0), ("L4", None))
    ]

    offers = list_offers(build_supply(ClusterInventory(pools=tuple(pools))))

    devices = {offer.device.name: offer.device for offer in offers}
    assert set(devices) == {"zeta9000", "L4"}
    assert devices["zeta9000"].usable_bytes == 20 * GIB
    assert devices["zeta9000"].vendor == UNKNOWN_VENDOR
