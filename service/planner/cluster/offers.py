"""Cluster supply as offers to a search, and candidates placed on nodes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from service.estimator.values.device import UNKNOWN_VENDOR, Device, format_slice
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Workload
from service.planner.cluster.assignments import (
    Blocked,
    Impossible,
    Placement,
    build_placement_request,
)
from service.planner.cluster.inventory import Pool
from service.planner.cluster.placement import place
from service.planner.cluster.supply import KindSupply, Supply
from service.planner.search.offer import Offer

DeviceLookup = Callable[[str], Device]
PriceLookup = Callable[[Device, Pool], float | None]
JOINT = "+"
"""Between the names of pools that are one offer: no name has it."""


def list_current_offers(
    supply: Supply, get_device: DeviceLookup, get_price: PriceLookup, *, together: bool
) -> tuple[Offer, ...]:
    """Return the free GPUs and slices as offers by kind.

    Full pools are left out.

    GPUs that work ``together``, unlike replicas that stand alone, are offered in numbers that find
    equally many per node.
    """
    full_gpu_offers = tuple(
        replace(
            _make_offer(supply, kind, get_device, get_price, kind.free_gpus),
            counts=_find_even_counts(supply, kind) if together else None,
        )
        for kind in supply.list_kinds()
        if kind.free_gpus and kind.gpu_memory_bytes != 0
    )
    return full_gpu_offers + _list_slice_offers(supply, get_device, get_price, free=True)


def list_empty_offers(
    supply: Supply, get_device: DeviceLookup, get_price: PriceLookup
) -> tuple[Offer, ...]:
    """Return the offers of the empty cluster.

    More than what each kind of pool would have if nobody were on it can never run there.
    """
    full_gpu_offers = tuple(
        _make_offer(supply, kind, get_device, get_price, kind.total_gpus)
        for kind in supply.list_kinds()
        if kind.total_gpus and kind.gpu_memory_bytes != 0
    )
    return full_gpu_offers + _list_slice_offers(supply, get_device, get_price, free=False)


def place_candidate(
    supply: Supply, offer: Offer, workload: Workload, layout: Layout, estimate: Estimate
) -> Placement | Blocked | Impossible:
    """Place a candidate of an offer on the cluster.

    The answer says where it runs, or why not now, or why never.
    """
    names = set((offer.pool or "").split(JOINT))
    pools = tuple(pool for pool in supply.pools if pool.pool.name in names)
    gpus = tuple(dict.fromkeys(pool.pool.gpu for pool in pools))
    inventory = replace(supply.inventory, pools=tuple(pool.pool for pool in pools))
    return place(
        replace(supply, inventory=inventory, pools=pools),
        build_placement_request(
            gpus, workload, layout, estimate, mig_profile=offer.device.mig_profile
        ),
    )


def _list_slice_offers(
    supply: Supply, get_device: DeviceLookup, get_price: PriceLookup, *, free: bool
) -> tuple[Offer, ...]:
    """Return the slices of each kind as GPUs of their own."""
    return tuple(
        _make_offer(
            supply,
            replace(kind, gpu=format_slice(kind.gpu, profile)),
            get_device,
            get_price,
            number,
        )
        for kind in supply.list_kinds()
        if kind.gpu_memory_bytes is None
        for profile, number in (kind.free_slices if free else kind.total_slices).items()
        if number
    )


def _find_even_counts(supply: Supply, kind: KindSupply) -> frozenset[int]:
    free = Counter(
        node.free_gpus
        for pool in supply.pools
        if pool.pool.name in kind.pools
        for node in pool.nodes
    )
    counts: set[int] = set()
    num_nodes = 0
    for per_node in range(kind.gpus_per_node, 0, -1):
        num_nodes += free[per_node]
        counts.update(range(per_node, per_node * num_nodes + 1, per_node))
    return frozenset(counts)


def _make_offer(
    supply: Supply,
    kind: KindSupply,
    get_device: DeviceLookup,
    get_price: PriceLookup,
    max_gpus: int,
) -> Offer:
    device = (
        get_device(kind.gpu)
        if kind.gpu_memory_bytes is None
        else Device(
            name=kind.gpu,
            vendor=UNKNOWN_VENDOR,
            capacity_bytes=kind.gpu_memory_bytes,
            usable_bytes=kind.gpu_memory_bytes,
        )
    )
    first = next(pool.pool for pool in supply.pools if pool.pool.name == kind.pools[0])
    return Offer(
        device=device,
        gpus_per_node=kind.gpus_per_node,
        island_size=kind.nvlink_island_size,
        max_gpus=max_gpus,
        host_memory_bytes=kind.host_memory_bytes,
        nvme_bytes=kind.nvme_bytes,
        network_bytes_per_second=kind.network_bytes_per_second,
        price_per_gpu_hour=get_price(device, first),
        pool=JOINT.join(kind.pools),
    )
