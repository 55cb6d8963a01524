"""Cache of everything that answers rest on, which its owner keeps."""

from typing import Any

from service.estimator.backends.pass_cache import MAX_PASSES, PassCache
from service.estimator.passes.stored_recordings import RecordingStore
from service.estimator.speed.throughput import WorkCache
from service.estimator.values.memo import Memo

MAX_CONFIGURATIONS = 512
"""Those that are asked about again and again."""


class PlanCache(PassCache):
    """Recordings of passes, and the work of them that times rest on."""

    def __init__(self, capacity: int = MAX_PASSES, *, store: RecordingStore | None = None) -> None:
        """Keep at most ``capacity`` values of each kind.

        ``store`` keeps recordings of training.
        """
        super().__init__(capacity, store=store)
        self.works = WorkCache(capacity)

    def list_memos(self) -> dict[str, Memo[Any]]:
        """Return all that is kept, by kind; any thread may ask."""
        return {**super().list_memos(), **self.works.list_memos()}
