"""A cluster as offers to a search, and a search's candidate back on the cluster's nodes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from service.estimator.values.device import Device, slice_name
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Workload
from service.planner.cluster.assignments import Never, NotToday, Placement, ask_of
from service.planner.cluster.inventory import Pool
from service.planner.cluster.placement import place
from service.planner.cluster.supply import KindSupply, Supply
from service.planner.search.offer import Offer

DeviceOf = Callable[[str], Device]
PriceOf = Callable[[Device, Pool], float | None]
JOINT = "+"
"""Between the names of pools that are one offer: no name has it."""


def offers_today(supply: Supply, device_of: DeviceOf, price_of: PriceOf, *, together: bool) -> tuple[Offer, ...]:
    """Return what is free of each kind of pool; nothing of what is full.

    GPUs that work ``together``, unlike replicas that stand alone, are offered in numbers that find equally many per node.
    """
    whole = tuple(
        replace(
            _offer(supply, kind, device_of, price_of, kind.free_gpus),
            counts=_even_counts(supply, kind) if together else None,
        )
        for kind in supply.kinds()
        if kind.free_gpus
    )
    return whole + _slices(supply, device_of, price_of, free=True)


def offers_if_empty(supply: Supply, device_of: DeviceOf, price_of: PriceOf) -> tuple[Offer, ...]:
    """Return what each kind of pool would have if nobody were on it: more than that can never run there."""
    whole = tuple(_offer(supply, kind, device_of, price_of, kind.total_gpus) for kind in supply.kinds() if kind.total_gpus)
    return whole + _slices(supply, device_of, price_of, free=False)


def place_candidate(
    supply: Supply, offer: Offer, workload: Workload, layout: Layout, estimate: Estimate
) -> Placement | NotToday | Never:
    """Return where a configuration that was found on an offer runs, or why not today, or why never."""
    names = set((offer.pool or "").split(JOINT))
    pools = tuple(pool for pool in supply.pools if pool.pool.name in names)
    gpus = tuple(dict.fromkeys(pool.pool.gpu for pool in pools))
    inventory = replace(supply.inventory, pools=tuple(pool.pool for pool in pools))
    return place(
        replace(supply, inventory=inventory, pools=pools),
        ask_of(gpus, workload, layout, estimate, mig_profile=offer.device.mig_profile),
    )


def _slices(supply: Supply, device_of: DeviceOf, price_of: PriceOf, *, free: bool) -> tuple[Offer, ...]:
    """Return the slices of each kind as GPUs of their own."""
    return tuple(
        _offer(supply, replace(kind, gpu=slice_name(kind.gpu, profile)), device_of, price_of, number)
        for kind in supply.kinds()
        for profile, number in (kind.free_slices if free else kind.total_slices).items()
        if number
    )


def _even_counts(supply: Supply, kind: KindSupply) -> frozenset[int]:
    free = Counter(node.free_gpus for pool in supply.pools if pool.pool.name in kind.pools for node in pool.nodes)
    counts: set[int] = set()
    num_nodes = 0
    for per_node in range(kind.gpus_per_node, 0, -1):
        num_nodes += free[per_node]
        counts.update(range(per_node, per_node * num_nodes + 1, per_node))
    return frozenset(counts)


def _offer(supply: Supply, kind: KindSupply, device_of: DeviceOf, price_of: PriceOf, max_gpus: int) -> Offer:
    device = device_of(kind.gpu)
    first = next(pool.pool for pool in supply.pools if pool.pool.name == kind.pools[0])
    return Offer(
        device=device,
        gpus_per_node=kind.gpus_per_node,
        island_size=kind.nvlink_island_size,
        max_gpus=max_gpus,
        host_memory_bytes=kind.host_memory_bytes,
        nvme_bytes=kind.nvme_bytes,
        network_bytes_per_second=kind.network_bytes_per_second,
        price_per_gpu_hour=price_of(device, first),
        pool=JOINT.join(kind.pools),
    )
