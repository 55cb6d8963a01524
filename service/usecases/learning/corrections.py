"""In-process cache of learnt corrections.

A fit asks no database whether its key was measured.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from service.calibration.apply import (
    KnownCalibration,
    apply_lower_bound,
    build_corrections,
    get_point,
)
from service.calibration.environment import Environment, EnvironmentKey
from service.calibration.evidence import Quantity
from service.calibration.field import get_device_curve
from service.calibration.key import build_calibration_key, get_run_kind
from service.calibration.machines import (
    Machines,
    build_machines,
    combine_speeds,
    get_machine_name,
)
from service.calibration.pool import Group, Member, Pool, Pools, build_pools, find_pool
from service.db.records.stored import StoredCalibration
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections, SpeedRatios
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.learning.residuals import read_member
from service.usecases.learning.running import select_environment_keys

ReadChanged = Callable[[datetime | None], tuple[StoredCalibration, ...]]
ReadEnvironments = Callable[[], tuple[Environment, ...]]
Shipped = Callable[[], tuple[Member, ...]]
_Key = tuple[str, Quantity]
MAX_RESOLVED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredMember:
    id: str
    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResolvedKey:
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
class _Snapshot:
    """Immutable snapshot of all calibrations.

    It is replaced in one step, so that no answer sees half of an update.

    ``environment_keys`` are what runs now: by the GPU's name, and under the empty name where there
    is no GPU.
    """

    by_key: Mapping[_Key, _StoredMember] = field(default_factory=dict)
    pools: Pools = field(default_factory=dict)
    machines: Machines = field(default_factory=dict)
    environment_keys: Mapping[str, EnvironmentKey] = field(
        default_factory=lambda: {"": Environment().key}
    )
    quantities: tuple[Quantity, ...] = ()
    """Quantities with any calibration."""
    resolved: dict[tuple[str, str], _ResolvedKey] = field(default_factory=dict)
    """Earlier lookups, by curve and GPU."""
    version: int = 0
    """Number of snapshots before this one."""


class CorrectionCache:
    """Newest calibration of every key, and pools of keys.

    ``read_changed`` gives calibrations of keys that may have changed since a time,
    ``read_environments`` what workers run on now, the newest last, and ``shipped`` what comes with
    the catalogue.
    """

    def __init__(
        self,
        *,
        read_changed: ReadChanged,
        read_environments: ReadEnvironments = tuple,
        shipped: Shipped = tuple,
    ) -> None:
        """Start empty; nothing is read before the first refresh."""
        self._read_changed, self._read_environments, self._shipped = (
            read_changed,
            read_environments,
            shipped,
        )
        self._stored: dict[_Key, _StoredMember] | None = None
        self._running: tuple[Environment, ...] = ()
        self._newest: datetime | None = None
        self._lock = threading.Lock()
        self._snapshot = _Snapshot()

    def refresh(self) -> None:
        """Read calibrations and running environments that changed since the last refresh."""
        with self._lock:
            is_first = self._stored is None
            changed = self._store_changed(self._read_changed(self._newest))
            running = self._read_environments()
            if is_first or changed or running != self._running:
                self._running = running
                self._snapshot = self._build_snapshot()

    def get_environment_key(self, gpu: str = "") -> EnvironmentKey:
        """Return the environment that runs now on a GPU.

        For a GPU that was never measured and has no worker, it is the libraries alone.
        """
        environment_keys = self._snapshot.environment_keys
        return environment_keys.get(gpu, environment_keys[""])

    @property
    def version(self) -> int:
        """Return a number that is another one whenever answers may be."""
        return self._snapshot.version

    def get_pools(self) -> Pools:
        """Return the pools of keys."""
        return self._snapshot.pools

    def find(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str = ""
    ) -> Corrections | None:
        """Return the corrections of a question on a GPU.

        ``None`` when nothing like it was measured.
        """
        snapshot = self._snapshot
        if not snapshot.by_key:
            return None
        curve = build_calibration_key(architecture, workload, layout)
        resolved = snapshot.resolved.get((curve, gpu))
        if resolved is None:
            resolved = _resolve_key(
                snapshot, curve, gpu, partial(_make_group, architecture, workload, layout)
            )
            if len(snapshot.resolved) >= MAX_RESOLVED:
                snapshot.resolved.clear()
            snapshot.resolved[curve, gpu] = resolved
        if not resolved.corrects and not resolved.bounds:
            return None
        point = get_point(architecture, workload, layout)
        return apply_lower_bound(
            build_corrections(resolved.parts, point, speeds=resolved.speeds)
            if resolved.corrects
            else None,
            resolved.bounds,
            point,
        )

    def _store_changed(self, changed: Sequence[StoredCalibration]) -> bool:
        """Store new calibrations and return whether there were any."""
        stored = {} if self._stored is None else self._stored
        self._stored = stored
        is_new = False
        for calibration in sorted(changed, key=lambda row: (row.created_at, row.id)):
            self._newest = (
                calibration.created_at
                if self._newest is None
                else max(self._newest, calibration.created_at)
            )
            key = (calibration.key, Quantity(calibration.quantity))
            if key in stored and stored[key].id == str(calibration.id):
                continue
            is_new = True
            member = read_member(calibration)
            # The latest is the last: it says what a GPU without a worker ran on.
            stored.pop(key, None)
            if member is not None:
                stored[key] = _StoredMember(id=str(calibration.id), member=member)
        return is_new

    def _build_snapshot(self) -> _Snapshot:
        shipped = {
            (member.key, member.group.quantity): _StoredMember(
                id=f"shipped:{member.key}", member=member
            )
            for member in self._shipped()
        }
        by_key = shipped | (self._stored or {})
        members = [stored.member for stored in by_key.values()]
        return _Snapshot(
            by_key=by_key,
            pools=build_pools(members),
            machines=build_machines(members),
            environment_keys=select_environment_keys(self._running, members),
            quantities=tuple(dict.fromkeys(quantity for _, quantity in by_key)),
            version=self._snapshot.version + 1,
        )


def _resolve_key(
    snapshot: _Snapshot, curve: str, gpu: str, group: Callable[[Quantity, EnvironmentKey], Group]
) -> _ResolvedKey:
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
    return _ResolvedKey(
        parts=parts,
        bounds=tuple(
            KnownCalibration(name=entry.id, calibration=entry.member.calibration)
            for entry in device_bounds
            if entry is not None
        ),
        speeds=_find_speeds(snapshot, gpu_keys, parts),
    )


def _find_speeds(
    snapshot: _Snapshot,
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
    snapshot: _Snapshot, curve: str, places: Sequence[tuple[EnvironmentKey, Group]]
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


def _make_group(
    architecture: Architecture,
    workload: Workload,
    layout: Layout,
    quantity: Quantity,
    place: EnvironmentKey,
) -> Group:
    kind = get_run_kind(workload, layout, quantity)
    return Group(quantity=quantity, kind=kind, environment=place.name, family=architecture.family)
