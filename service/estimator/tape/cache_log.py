"""A log of a pass that replaces a key/value cache."""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Section, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePass:
    """Events of a pass over a model with a cache.

    ``before`` are the storages that the pass finds in the cache, none of which it allocates, and
    ``after`` those that it leaves there. Both are in the order of the layers, so that those after
    one pass are those before the next.
    """

    events: Events
    before: tuple[int, ...]
    after: tuple[int, ...]


class CacheTape(LoggingTape):
    """A tape that logs events and follows the storages of a cache."""

    def __init__(self, section: Section) -> None:
        """Start with an empty log of a pass without a graph."""
        super().__init__(section, Mode.INFERENCE)
        self.follows_caches = True
        self._before: list[int] = []
        self._after: list[int] = []

    def keep_cached(self, storage: Storage) -> None:
        """Log a storage that stays in the cache."""
        if storage.event is not None:
            self._after.append(storage.event)
            self.hold(storage)

    def drop_cached(self, count: int) -> None:
        """Log the release of storages that were there before."""
        for _ in range(count):
            index = self._log_allocation(sizes.ZERO)
            self._order[-1] = ~index
            self._before.append(index)

    def log(self) -> CachePass:
        """Return the logged pass."""
        return CachePass(events=self.events(), before=tuple(self._before), after=tuple(self._after))
