"""Lookups of what was learnt, in one view of all calibrations."""

from collections.abc import Callable, Mapping, Sequence
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

    @property
    def corrects(self) -> bool:
        """Whether anything of the question's parts is known, or of its machine."""
        return bool(self.parts) or self.speeds is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Immutable snapshot of all calibrations.

    It is replaced in one step, so that no answer sees half of an update.

    ``environment_keys`` are what runs now: by the GPU's name, and under the empty name where there
    is no GPU.
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
    snapshot: Snapshot, curve: str, gpu: str, group: Callable[[Quantity, EnvironmentKey], Group]
) -> ResolvedKey:
    """Return calibrations of each quantity of a curve on a GPU."""
    # What a GPU itself was measured to allocate has its kernels' workspaces in it, and comes before
    # what libraries count.
    gpu_key = snapshot.environment_keys.get(gpu)
    # Who did not tell a driver may have had this one.
    gpu_keys = () if gpu_key is None else (gpu_key, gpu_key.without_driver)
    # Where a question was measured in both kernels, cuDNN's is the one that torch chooses by
    # itself.
    kernel_keys = tuple(variant for entry in gpu_keys for variant in (entry.with_cudnn, entry))
    environment_keys = list(dict.fromkeys((*kernel_keys, snapshot.environment_keys[""])))
    candidates = (
        _find_correction(
            snapshot, curve, [(place, group(quantity, place)) for place in environment_keys]
        )
        for quantity in snapshot.quantities
    )
    device_bounds = (
        snapshot.by_key.get((place.build_curve_key(get_device_curve(curve)), Quantity.DEVICE))
        for place in environment_keys
        if place.gpu is not None
    )
    parts = tuple(entry for entry in candidates if entry is not None)
    return ResolvedKey(
        parts=parts,
        bounds=tuple(
            KnownCalibration(name=entry.id, calibration=entry.member.calibration)
            for entry in device_bounds
            if entry is not None
        ),
        speeds=_find_speeds(snapshot, gpu_keys, parts),
    )


def _find_speeds(
    snapshot: Snapshot,
    gpu_keys: Sequence[EnvironmentKey],
    parts: Sequence[KnownCalibration | Pool],
) -> SpeedRatios | None:
    """Return the speeds of a GPU's machine for a question."""
    names = [get_machine_name(place) for place in gpu_keys]
    machine = next((snapshot.machines[name] for name in names if name in snapshot.machines), None)
    if machine is None:
        return None
    own = [part.calibration.speeds for part in parts if isinstance(part, KnownCalibration)]
    return combine_speeds(machine, own)


def _find_correction(
    snapshot: Snapshot, curve: str, places: Sequence[tuple[EnvironmentKey, Group]]
) -> KnownCalibration | Pool | None:
    """Return the key's own calibration, else its family's or the global pool."""
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
