"""Lookups of what was learnt, in one view of all calibrations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from service.calibration.apply import KnownCalibration
from service.calibration.environment import Environment, EnvironmentKey
from service.calibration.evidence import Quantity
from service.calibration.field import get_device_curve
from service.calibration.key import get_run_kind
from service.calibration.machines import Machines, combine_speeds, get_machine_name
from service.calibration.pool import Group, Member, Pool, Pools, find_pool
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import SpeedRatios
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.learning.places import list_places

Key = tuple[str, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A calibration by its id."""

    id: str
    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedKey:
    """Calibrations of a question's parts, and bounds of their sum.

    They hold at any point of the curve. ``bounds`` are those of whole GPUs.
    """

    parts: tuple[KnownCalibration | Pool, ...]
    bounds: tuple[KnownCalibration, ...]
    speeds: SpeedRatios | None = None
    """Those of the machine, where anything was timed on it."""
    cluster_quantities: frozenset[str] = frozenset()
    """Quantities that a named cluster itself taught."""
    has_cluster_bounds: bool = False

    @property
    def corrects(self) -> bool:
        """Whether anything of the question's parts is known, or of its machine."""
        return bool(self.parts) or self.speeds is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Immutable snapshot of all calibrations.

    It is replaced in one step, so that no answer sees half of an update.

    ``environment_keys`` are what runs now: by the place's name, and under the empty name where
    there is no GPU.
    """

    by_key: Mapping[Key, StoredMember] = field(default_factory=dict)
    pools: Pools = field(default_factory=dict)
    machines: Machines = field(default_factory=dict)
    environment_keys: Mapping[str, EnvironmentKey] = field(
        default_factory=lambda: {"": Environment().key}
    )
    quantities: tuple[Quantity, ...] = ()
    """Quantities with any calibration."""
    version: int = 0
    """Number of snapshots before this one."""


def resolve_key(
    snapshot: Snapshot, curve: str, place: str, group: Callable[[Quantity, EnvironmentKey], Group]
) -> ResolvedKey:
    """Return calibrations of each quantity of a curve in a place.

    What a named cluster itself taught comes before what such GPUs anywhere did.
    """
    places = list_places(snapshot.environment_keys, place)
    machine = _find_machine(snapshot, places.in_cluster)
    is_timed = machine is not None
    machine = machine or _find_machine(snapshot, places.of_gpu)
    candidates: list[tuple[bool, KnownCalibration | Pool]] = []
    for quantity in snapshot.quantities:
        # Other clusters' times say nothing of a machine that was timed itself.
        common = () if is_timed and quantity.is_ratio else places.common
        entry = _find_correction(
            snapshot,
            curve,
            quantity,
            [(key, group(quantity, key)) for key in places.in_cluster],
            [(key, group(quantity, key)) for key in common],
        )
        candidates += [] if entry is None else [entry]
    in_cluster = _find_bounds(snapshot, curve, places.in_cluster)
    parts = tuple(part for _, part in candidates)
    timed_parts = [part for is_clusters, part in candidates if is_clusters or not is_timed]
    cluster_quantities = {
        _get_quantity(part).value for is_clusters, part in candidates if is_clusters
    }
    if is_timed:
        cluster_quantities |= {quantity.value for quantity in Quantity if quantity.is_ratio}
    return ResolvedKey(
        parts=parts,
        bounds=in_cluster or _find_bounds(snapshot, curve, places.common),
        speeds=None if machine is None else _combine(machine, timed_parts),
        cluster_quantities=frozenset(cluster_quantities),
        has_cluster_bounds=bool(in_cluster),
    )


def _find_bounds(
    snapshot: Snapshot, curve: str, places: Iterable[EnvironmentKey]
) -> tuple[KnownCalibration, ...]:
    entries = (
        snapshot.by_key.get((place.build_curve_key(get_device_curve(curve)), Quantity.DEVICE))
        for place in dict.fromkeys(places)
        if place.gpu is not None
    )
    return tuple(
        KnownCalibration(name=entry.id, calibration=entry.member.calibration)
        for entry in entries
        if entry is not None
    )


def _find_machine(
    snapshot: Snapshot, places: Iterable[EnvironmentKey]
) -> Mapping[str, float] | None:
    """Return what is known of the first machine that was timed."""
    names = (get_machine_name(place) for place in places)
    return next((snapshot.machines[name] for name in names if name in snapshot.machines), None)


def _combine(machine: Mapping[str, float], parts: Sequence[KnownCalibration | Pool]) -> SpeedRatios:
    """Return the speeds of a machine for a question."""
    own = [part.calibration.speeds for part in parts if isinstance(part, KnownCalibration)]
    return combine_speeds(machine, own)


def _get_quantity(part: KnownCalibration | Pool) -> Quantity:
    return part.group.quantity if isinstance(part, Pool) else part.calibration.quantity


GroupedPlaces = Sequence[tuple[EnvironmentKey, Group]]
_OF_PROCESS = frozenset({Quantity.DEVICE, Quantity.STEP_TIME, Quantity.PREFILL_TIME})
"""Quantities that a machine and its driver decide more than the model does."""


def _find_correction(
    snapshot: Snapshot,
    curve: str,
    quantity: Quantity,
    in_cluster: GroupedPlaces,
    common: GroupedPlaces,
) -> tuple[bool, KnownCalibration | Pool] | None:
    """Return the key's own calibration, else its family's or the global pool.

    It comes with whether the cluster itself taught it. Bytes of the allocator are better known by
    this very question measured elsewhere than by other questions measured in the cluster; what a
    process takes beside them is not.
    """
    key, cluster_entry = (False, _find_key, common), (True, _find_key, in_cluster)
    pool, cluster_pool = (False, _find_pool, common), (True, _find_pool, in_cluster)
    is_of_process = quantity in _OF_PROCESS
    ordered = (
        (cluster_entry, cluster_pool, key, pool)
        if is_of_process
        else (cluster_entry, key, cluster_pool, pool)
    )
    for is_clusters, find, places in ordered:
        entry = find(snapshot, curve, places)
        if entry is not None:
            return is_clusters, entry
    return None


def _find_key(snapshot: Snapshot, curve: str, places: GroupedPlaces) -> KnownCalibration | None:
    for place, group in places:
        stored = snapshot.by_key.get((place.build_curve_key(curve), group.quantity))
        if stored is not None:
            pool = find_pool(snapshot.pools, group)
            half_width, errors = (
                (None, ()) if pool is None else (pool.key_half_width, pool.key_errors)
            )
            return KnownCalibration(
                name=stored.id,
                calibration=stored.member.calibration,
                half_width=half_width,
                errors=errors,
            )
    return None


def _find_pool(snapshot: Snapshot, _curve: str, places: GroupedPlaces) -> Pool | None:
    pools = (find_pool(snapshot.pools, group) for _, group in places)
    return next((pool for pool in pools if pool is not None and pool.shares), None)


def make_group(
    architecture: Architecture,
    workload: Workload,
    layout: Layout,
    quantity: Quantity,
    place: EnvironmentKey,
) -> Group:
    """Return the group that a question's quantity is learnt in."""
    kind = get_run_kind(workload, layout, quantity)
    return Group(quantity=quantity, kind=kind, environment=place.name, family=architecture.family)
