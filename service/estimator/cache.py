"""Cache of everything that answers rest on, which its owner keeps."""

from service.estimator.backends.pass_cache import MAX_PASSES, PassCache
from service.estimator.passes.stored_recordings import RecordingStore
from service.estimator.speed.throughput import WorkCache


class PlanCache(PassCache):
    """Recordings of passes, and the work of them that times rest on."""

    def __init__(self, capacity: int = MAX_PASSES, *, store: RecordingStore | None = None) -> None:
        """Keep at most ``capacity`` values of each kind.

        ``store`` keeps recordings of training.
        """
        super().__init__(capacity, store=store)
        self.works = WorkCache(capacity)

    def clear(self) -> None:
        """Keep nothing any more; what is asked next is made anew."""
        super().clear()
        self.works.clear()
