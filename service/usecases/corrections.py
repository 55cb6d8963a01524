"""What calibration learnt, at hand in the process: a fit asks no database whether its key was measured."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from service.calibration.apply import corrections_at, from_document, point_of
from service.calibration.derive import Calibration
from service.calibration.key import calibration_key
from service.db.values import StoredCalibration
from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections
from service.estimator.layout import Layout
from service.estimator.workload import Workload
from service.logs import logger

QUANTITY = "allocated"

ReadChanged = Callable[[datetime | None], tuple[StoredCalibration, ...]]

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learnt:
    id: str
    calibration: Calibration


class CorrectionBook:
    """The newest calibration of every key; ``read_changed`` gives those of keys that may have changed since a time."""

    def __init__(self, *, read_changed: ReadChanged) -> None:
        """Start empty; nothing is read before the first refresh."""
        self._read_changed = read_changed
        self._by_key: dict[str, _Learnt] = {}
        self._newest: datetime | None = None
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Take in what was learnt since the last refresh."""
        with self._lock:
            for stored in self._read_changed(self._newest):
                self._newest = stored.created_at if self._newest is None else max(self._newest, stored.created_at)
                if stored.quantity == QUANTITY:
                    self._take_in(stored)

    def find(self, architecture: Architecture, workload: Workload, layout: Layout) -> Corrections | None:
        """Return the corrections that hold for a question, ``None`` when nothing like it was measured."""
        if not self._by_key:
            return None
        learnt = self._by_key.get(calibration_key(architecture, workload, layout))
        if learnt is None:
            return None
        return corrections_at(learnt.calibration, point_of(architecture, workload, layout), calibration_id=learnt.id)

    def _take_in(self, stored: StoredCalibration) -> None:
        known = self._by_key.get(stored.key)
        if known is not None and known.id == str(stored.id):
            return
        try:
            self._by_key[stored.key] = _Learnt(id=str(stored.id), calibration=from_document(stored.correction))
        except (KeyError, TypeError, ValueError) as error:
            # A newer version may have written it; what this one cannot read must not correct anything.
            self._by_key.pop(stored.key, None)
            _log.warning("calibration.unreadable", calibration=str(stored.id), error=repr(error))
