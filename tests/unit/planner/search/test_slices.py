"""MIG slices are GPUs of their own: with their share of memory and speed, and nobody to work
with.
"""

from datetime import UTC, datetime

import pytest

from service.base.errors import UnknownGpuError
from service.catalog.gpus import resolve_device, resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.values.device import format_slice, parse_slice
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.cluster.inventory import ClusterInventory, MigSlices, Node, Pool
from service.planner.cluster.offers import list_current_offers, list_empty_offers, place_candidate
from service.planner.cluster.placement import Blocked, Placement, build_supply
from service.planner.cluster.reservation import Reservation, Share
from service.planner.fit.evaluator import make_evaluator
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plan
from service.planner.plans.plans import find_plans
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import SHORT

SLICE = "A100-SXM4-80GB-MIG-3g.40gb"
CHAT = ServeWorkload(
    engine=Engine.VLLM, num_sequences=8, prompt_tokens=256, output_tokens=256, max_model_len=1024
)
POOL = Pool(
    name="cut",
    gpu="A100-SXM4-80GB",
    gpus_per_node=8,
    nodes=(
        Node(
            name="n1",
            allocated_gpus=6,
            mig_gpus=2,
            mig_slices=(MigSlices(profile="3g.40gb", total=4, allocated=1),),
        ),
    ),
    price_per_gpu_hour=2.0,
)


def plan(
    name: str, *, layout: Layout | None = None, fixed: frozenset[str] = frozenset(), **limits: int
) -> Plan:
    """Return how many slices serve a model."""
    device = resolve_device(name)
    subject = make_evaluator(
        load_architecture(resolve_model("llama-3.2-1b")), device, plans=PlanCache()
    )
    question = Question(
        workload=CHAT, layout=layout or Layout(), fixed=fixed, limits=Limits(**limits)
    )
    return (
        find_plans([(Offer(device=device), subject)], question, Objective.FEWEST_GPUS)
        .offer_plans[0]
        .plan
    )


def test_a_slice_has_its_share_of_the_gpu() -> None:
    """Four eighths of memory and bandwidth, 42 of 108 processors, and less than its eighths to
    allocate.
    """
    whole, half = resolve_gpu("A100-SXM4-80GB").to_device(), resolve_device(SLICE)

    assert half.bandwidth_bytes_per_second == (whole.bandwidth_bytes_per_second or 0) // 2
    assert half.peak_flops["bf16"] == whole.peak_flops["bf16"] * 42 // 108
    assert half.link_bytes_per_second is None
    assert 39 * GIB < half.usable_bytes <= 39.25 * GIB


@pytest.mark.parametrize(
    ("name", "listed_gib"),
    [
        ("A100-SXM4-80GB-MIG-1g.10gb", 9.50),
        ("A100-SXM4-40GB-MIG-1g.5gb", 4.75),
        ("H100-SXM5-80GB-MIG-1g.10gb", 9.75),
        ("H100-SXM5-80GB-MIG-2g.20gb", 19.62),
        ("H100-SXM5-80GB-MIG-3g.40gb", 39.50),
    ],
)
def test_no_slice_promises_more_than_nvidia_smi_lists(name: str, listed_gib: float) -> None:
    """What ``nvidia-smi mig -lgip`` shows of a profile is more than is planned with, by half a GiB
    at most.
    """
    usable = resolve_device(name).usable_bytes / GIB

    assert listed_gib - 0.5 < usable <= listed_gib


def test_slices_are_named_as_gpu_feature_discovery_does() -> None:
    """Names go there and back, however they are spelt; an unknown profile is refused with those
    that there are.
    """
    assert (
        resolve_device("a100_sxm4-80gb-mig-3G.40GB").name
        == SLICE
        == format_slice("A100-SXM4-80GB", "3g.40gb")
    )
    assert parse_slice("A100-SXM4-80GB") is None
    with pytest.raises(UnknownGpuError, match=r"no MIG profile .9g\.90gb.; it has: 1g\.10gb"):
        resolve_device("A100-SXM4-80GB-MIG-9g.90gb")


def test_slices_never_work_together() -> None:
    """Training stays on one; a split replica is refused; replicas that stand alone have one
    each.
    """
    device = resolve_device(SLICE)
    subject = make_evaluator(load_architecture(resolve_model("llama-3-8b")), device)
    question = Question(workload=SHORT, layout=Layout())
    trained = (
        find_plans([(Offer(device=device), subject)], question, Objective.FEWEST_GPUS)
        .offer_plans[0]
        .plan
    )

    assert {miss.num_gpus for miss in trained.rejected} == {1}
    with pytest.raises(InvalidInputError, match="cannot work together"):
        plan(SLICE, layout=Layout(tensor_parallel=2), fixed=frozenset({"tensor_parallel"}))
    assert plan(SLICE, min_num_sequences=24).num_gpus == 3


def test_a_cluster_offers_its_free_slices() -> None:
    """Three of four are free: as many replicas find seats; the price of a whole GPU is not asked
    for a slice.
    """
    supply = build_supply(ClusterInventory(pools=(POOL,)))
    offers = list_current_offers(
        supply, resolve_device, lambda _device, pool: pool.price_per_gpu_hour, together=False
    )

    (offer,) = offers
    assert (offer.device.name, offer.max_gpus) == (SLICE, 3)
    found = plan(SLICE, min_num_sequences=24)
    best = found.candidates[0]
    placed = place_candidate(supply, offer, best.workload, best.layout, best.estimate)
    assert isinstance(placed, Placement)
    assert [seat.share.mig_profile for seat in placed.assignments] == ["3g.40gb"] * 3


def test_slices_that_others_hold_are_told_of() -> None:
    """What is reserved is not free today, and the answer says so in slices."""
    held = Share(pool="cut", node="n1", num_gpus=2, gpu_indices=None, mig_profile="3g.40gb")
    reserved = Reservation(
        holder="ana", shares=(held,), expires_at=datetime(2030, 1, 1, tzinfo=UTC)
    )
    supply = build_supply(ClusterInventory(pools=(POOL,)), (reserved,))
    (offer,) = (
        one
        for one in list_empty_offers(supply, resolve_device, lambda _device, _pool: None)
        if one.device.mig_profile
    )
    best = plan(SLICE, min_num_sequences=24).candidates[0]
    told = place_candidate(supply, offer, best.workload, best.layout, best.estimate)

    assert isinstance(told, Blocked)
    assert "1 of 4 3g.40gb slices of A100-SXM4-80GB" in told.reason
