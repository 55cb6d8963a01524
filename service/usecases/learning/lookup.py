"""Lookup of what was learnt, in one snapshot of all calibrations."""

from dataclasses import replace
from functools import partial

from service.calibration.apply import apply_lower_bound, build_corrections, get_point
from service.calibration.environment import split_place
from service.calibration.key import build_calibration_key
from service.calibration.time_floor import find_time_floor
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import SEEN, Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.learning.resolving import ResolvedKey, Snapshot, make_group, resolve_key

MAX_RESOLVED = 4096


class CorrectionLookup:
    """Corrections of questions by a snapshot.

    It remembers what it found, and travels to another process without that.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Look in ``snapshot``, which never changes."""
        self.snapshot = snapshot
        self._resolved: dict[tuple[str, str], ResolvedKey] = {}
        self._time_floors: dict[str, float] = {}

    def __reduce__(self) -> tuple[type["CorrectionLookup"], tuple[Snapshot]]:
        """Pickle the snapshot alone."""
        return CorrectionLookup, (self.snapshot,)

    def __call__(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str = ""
    ) -> Corrections | None:
        """Return the corrections of a question on a GPU of a place.

        ``None`` when nothing like it was measured.
        """
        if not self.snapshot.by_key:
            return None
        curve = build_calibration_key(architecture, workload, layout)
        resolved = self._resolved.get((curve, gpu))
        if resolved is None:
            group = partial(make_group, architecture, workload, layout)
            resolved = resolve_key(self.snapshot, curve, gpu, group)
            if len(self._resolved) >= MAX_RESOLVED:
                self._resolved.clear()
            self._resolved[curve, gpu] = resolved
        if not resolved.corrects and not resolved.bounds:
            return None
        point = get_point(architecture, workload, layout)
        corrections = apply_lower_bound(
            build_corrections(resolved.parts, point, speeds=resolved.speeds)
            if resolved.corrects
            else None,
            resolved.bounds,
            point,
        )
        return corrections if corrections is None else _name_quantities(corrections, resolved)

    def get_time_floor(self, gpu: str) -> float:
        """Return the least time on a GPU over its analytic one."""
        floor = self._time_floors.get(gpu)
        if floor is None:
            members = [stored.member for stored in self.snapshot.by_key.values()]
            names = dict.fromkeys((gpu, split_place(gpu)[0]))
            floor = min(
                find_time_floor(members, self.snapshot.pools.values(), name) for name in names
            )
            if len(self._time_floors) < MAX_RESOLVED:
                self._time_floors[gpu] = floor
        return floor


def _name_quantities(corrections: Corrections, resolved: ResolvedKey) -> Corrections:
    """Return corrections with the quantities that a named cluster itself taught."""
    has_cluster_bound = resolved.has_cluster_bounds and corrections.device_at_least_bytes
    quantities = resolved.cluster_quantities | ({SEEN} if has_cluster_bound else set())
    if not quantities:
        return corrections
    return replace(corrections, cluster_quantities=tuple(sorted(quantities)))
