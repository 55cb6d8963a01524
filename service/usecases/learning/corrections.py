"""In-process cache of learnt corrections.

A fit asks no database whether its key was measured.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from service.calibration.environment import Environment, EnvironmentKey
from service.calibration.evidence import Quantity
from service.calibration.machines import build_machines
from service.calibration.pool import Member, Pools, build_pools
from service.db.records.stored import StoredCalibration
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.learning.lookup import CorrectionLookup
from service.usecases.learning.residuals import read_member
from service.usecases.learning.resolving import Key, Snapshot, StoredMember
from service.usecases.learning.running import select_environment_keys

ReadChanged = Callable[[datetime | None], tuple[StoredCalibration, ...]]
ReadEnvironments = Callable[[], tuple[Environment, ...]]
Shipped = Callable[[], tuple[Member, ...]]


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
        self._stored: dict[Key, StoredMember] | None = None
        self._running: tuple[Environment, ...] = ()
        self._newest: datetime | None = None
        self._lock = threading.Lock()
        self._lookup = CorrectionLookup(Snapshot())

    def refresh(self) -> None:
        """Read calibrations and running environments that changed since the last refresh."""
        with self._lock:
            is_first = self._stored is None
            changed = self._store_changed(self._read_changed(self._newest))
            running = self._read_environments()
            if is_first or changed or running != self._running:
                self._running = running
                self._lookup = CorrectionLookup(self._build_snapshot())

    def get_environment_key(self, gpu: str = "") -> EnvironmentKey:
        """Return the environment that runs now on a GPU.

        For a GPU that was never measured and has no worker, it is the libraries alone.
        """
        environment_keys = self._lookup.snapshot.environment_keys
        return environment_keys.get(gpu, environment_keys[""])

    @property
    def lookup(self) -> CorrectionLookup:
        """Lookup of this moment, whatever is learnt later."""
        return self._lookup

    @property
    def version(self) -> int:
        """Return a number that is another one whenever answers may be."""
        return self._lookup.snapshot.version

    def get_pools(self) -> Pools:
        """Return the pools of keys."""
        return self._lookup.snapshot.pools

    def find(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str = ""
    ) -> Corrections | None:
        """Return the corrections of a question on a GPU.

        ``None`` when nothing like it was measured.
        """
        return self._lookup(architecture, workload, layout, gpu)

    def __call__(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str = ""
    ) -> Corrections | None:
        """Find the corrections of a question."""
        return self.find(architecture, workload, layout, gpu)

    def get_time_floor(self, gpu: str) -> float:
        """Return the least time on a GPU over its analytic one."""
        return self._lookup.get_time_floor(gpu)

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
                stored[key] = StoredMember(id=str(calibration.id), member=member)
        return is_new

    def _build_snapshot(self) -> Snapshot:
        shipped = {
            (member.key, member.group.quantity): StoredMember(
                id=f"shipped:{member.key}", member=member
            )
            for member in self._shipped()
        }
        by_key = shipped | (self._stored or {})
        members = [stored.member for stored in by_key.values()]
        return Snapshot(
            by_key=by_key,
            pools=build_pools(members),
            machines=build_machines(members),
            environment_keys=select_environment_keys(self._running, members),
            quantities=tuple(dict.fromkeys(quantity for _, quantity in by_key)),
            version=self._lookup.snapshot.version + 1,
        )
