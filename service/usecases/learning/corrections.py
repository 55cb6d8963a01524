"""What calibration learnt, at hand in the process: a fit asks no database whether its key was measured."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from service.calibration.apply import Known, bounded, corrections_of, point_of
from service.calibration.environment import Environment, Place, place_named
from service.calibration.evidence import Quantity
from service.calibration.field import field_curve
from service.calibration.key import calibration_key, kind_of
from service.calibration.pool import Group, Member, Pool, Pools, parent_of, pools_of
from service.db.records.stored import StoredCalibration
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.learning.residuals import member_of

ReadChanged = Callable[[datetime | None], tuple[StoredCalibration, ...]]
ReadEnvironments = Callable[[], tuple[Environment, ...]]
Shipped = Callable[[], tuple[Member, ...]]
_Key = tuple[str, Quantity]
MAX_RESOLVED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learnt:
    id: str
    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolved:
    """What is known of a question's parts, and what was seen of all of them together, whatever its point."""

    parts: tuple[Known | Pool, ...]
    seen: tuple[Known, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Knowledge:
    """Everything that is known at one time: replaced as a whole, so that no answer sees half of it.

    ``places`` are what runs now: by the GPU's name, and under the empty one where there is none.
    """

    by_key: Mapping[_Key, _Learnt] = field(default_factory=dict)
    pools: Pools = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=lambda: {"": Environment().place})
    quantities: tuple[Quantity, ...] = ()
    """Those of which anything is known."""
    resolved: dict[tuple[str, str], _Resolved] = field(default_factory=dict)
    """What was looked up already, by curve and GPU."""


class CorrectionBook:
    """The newest calibration of every key, and what keys have in common.

    ``read_changed`` gives calibrations of keys that may have changed since a time, ``read_environments`` what workers run on
    now, the newest last, and ``shipped`` what comes with the catalogue.
    """

    def __init__(
        self,
        *,
        read_changed: ReadChanged,
        read_environments: ReadEnvironments = tuple,
        shipped: Shipped = tuple,
    ) -> None:
        """Start empty; nothing is read before the first refresh."""
        self._read_changed, self._read_environments, self._shipped = read_changed, read_environments, shipped
        self._stored: dict[_Key, _Learnt] | None = None
        self._running: tuple[Environment, ...] = ()
        self._newest: datetime | None = None
        self._lock = threading.Lock()
        self._knowledge = _Knowledge()

    def refresh(self) -> None:
        """Take in what was learnt since the last refresh, and what workers run on now."""
        with self._lock:
            is_first = self._stored is None
            changed = self._take_in(self._read_changed(self._newest))
            running = self._read_environments()
            if is_first or changed or running != self._running:
                self._running = running
                self._knowledge = self._known()

    def place(self, gpu: str = "") -> Place:
        """Return what runs now: on a GPU that was measured or has a worker, else the libraries alone."""
        places = self._knowledge.places
        return places.get(gpu, places[""])

    def pools(self) -> Pools:
        """Return what keys have in common."""
        return self._knowledge.pools

    def find(self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str = "") -> Corrections | None:
        """Return the corrections that hold for a question on a GPU, ``None`` when nothing like it was measured."""
        known = self._knowledge
        if not known.by_key:
            return None
        curve = calibration_key(architecture, workload, layout)
        found = known.resolved.get((curve, gpu))
        if found is None:
            found = _resolve(known, curve, gpu, partial(_group, architecture, workload, layout))
            if len(known.resolved) >= MAX_RESOLVED:
                known.resolved.clear()
            known.resolved[curve, gpu] = found
        if not found.parts and not found.seen:
            return None
        point = point_of(architecture, workload, layout)
        return bounded(corrections_of(found.parts, point) if found.parts else None, found.seen, point)

    def _take_in(self, changed: Sequence[StoredCalibration]) -> bool:
        """Keep what is new; tell whether anything was."""
        stored = {} if self._stored is None else self._stored
        self._stored = stored
        is_new = False
        for one in sorted(changed, key=lambda each: (each.created_at, each.id)):
            self._newest = one.created_at if self._newest is None else max(self._newest, one.created_at)
            key = (one.key, Quantity(one.quantity))
            if key in stored and stored[key].id == str(one.id):
                continue
            is_new = True
            member = member_of(one)
            # The latest is the last: it says what a GPU without a worker ran on.
            stored.pop(key, None)
            if member is not None:
                stored[key] = _Learnt(id=str(one.id), member=member)
        return is_new

    def _known(self) -> _Knowledge:
        shipped = {
            (member.key, member.group.quantity): _Learnt(id=f"shipped:{member.key}", member=member)
            for member in self._shipped()
        }
        by_key = shipped | (self._stored or {})
        members = [learnt.member for learnt in by_key.values()]
        return _Knowledge(
            by_key=by_key,
            pools=pools_of(members),
            places=_current(self._running, members),
            quantities=tuple(dict.fromkeys(quantity for _, quantity in by_key)),
        )


def _resolve(known: _Knowledge, curve: str, gpu: str, group: Callable[[Quantity, Place], Group]) -> _Resolved:
    """Return what is known of each quantity of a curve on a GPU."""
    # What a GPU itself was measured to allocate has its kernels' workspaces in it, and comes before what libraries count.
    own = known.places.get(gpu)
    # Who did not tell a driver may have had this one.
    told = () if own is None else (own, own.unknown_driver)
    # Where a question was measured in both kernels, cuDNN's is the one that torch chooses by itself.
    named = tuple(each for one in told for each in (one.with_cudnn, one))
    places = list(dict.fromkeys((*named, known.places[""])))
    found = (_find(known, curve, [(place, group(quantity, place)) for place in places]) for quantity in known.quantities)
    looks = (
        known.by_key.get((place.address(field_curve(curve)), Quantity.DEVICE)) for place in places if place.gpu is not None
    )
    return _Resolved(
        parts=tuple(one for one in found if one is not None),
        seen=tuple(Known(name=one.id, calibration=one.member.calibration) for one in looks if one is not None),
    )


def _find(known: _Knowledge, curve: str, places: Sequence[tuple[Place, Group]]) -> Known | Pool | None:
    """Return the key's own calibration, else what its family has in common, else what all have."""
    for place, group in places:
        learnt = known.by_key.get((place.address(curve), group.quantity))
        if learnt is not None:
            pool = parent_of(known.pools, group)
            half_width, errors = (None, ()) if pool is None else (pool.key_half_width, pool.key_errors)
            return Known(name=learnt.id, calibration=learnt.member.calibration, half_width=half_width, errors=errors)
    pools = (parent_of(known.pools, group) for _, group in places)
    return next((pool for pool in pools if pool is not None and pool.shares), None)


def _group(architecture: Architecture, workload: Workload, layout: Layout, quantity: Quantity, place: Place) -> Group:
    kind = kind_of(workload, layout, quantity)
    return Group(quantity=quantity, kind=kind, environment=place.name, family=architecture.family)


def _current(running: Sequence[Environment], members: Sequence[Member]) -> dict[str, Place]:
    """Return what runs now: what workers say, else what was measured last, else the reference releases.

    A measurement that does not tell its driver says nothing of what runs on a GPU of which one was told.
    """
    places = {"": Environment().place}
    for member in members:
        place = place_named(member.group.environment, gpu=member.gpu).plain
        known = places.get(member.gpu or "")
        if place.tells_driver or known is None or not known.tells_driver:
            places[member.gpu or ""] = place
    for environment in running:
        places[""] = environment.libraries.place
        places[environment.gpu or ""] = environment.place
    return places
