"""What calibration learnt, at hand in the process: a fit asks no database whether its key was measured."""

import threading
from collections.abc import Callable
from datetime import datetime

from service.db.values import StoredCalibration
from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections
from service.estimator.layout import Layout
from service.estimator.workload import Workload

QUANTITY = "allocated"

ReadChanged = Callable[[datetime | None], tuple[StoredCalibration, ...]]
KeyOf = Callable[[Architecture, Workload, Layout], str]
Apply = Callable[[StoredCalibration, Architecture, Workload, Layout], Corrections | None]


class CorrectionBook:
    """The newest calibration of every key.

    ``read_changed`` gives those of keys that may have changed since a time, ``key_of`` the key of a question, and ``apply``
    what a calibration says about a question.
    """

    def __init__(self, *, read_changed: ReadChanged, key_of: KeyOf, apply: Apply) -> None:
        """Start empty; nothing is read before the first refresh."""
        self._read_changed = read_changed
        self.key_of = key_of
        self._apply = apply
        self._by_key: dict[str, StoredCalibration] = {}
        self._newest: datetime | None = None
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Take in what was learnt since the last refresh."""
        with self._lock:
            for stored in self._read_changed(self._newest):
                if stored.quantity == QUANTITY:
                    self._by_key[stored.key] = stored
                self._newest = stored.created_at if self._newest is None else max(self._newest, stored.created_at)

    def find(self, architecture: Architecture, workload: Workload, layout: Layout) -> Corrections | None:
        """Return the corrections that hold for a question, ``None`` when nothing like it was measured."""
        if not self._by_key:
            return None
        stored = self._by_key.get(self.key_of(architecture, workload, layout))
        return None if stored is None else self._apply(stored, architecture, workload, layout)
