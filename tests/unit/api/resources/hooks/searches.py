"""Searches for how many GPUs a job needs that never end, or fail."""

from collections.abc import Hashable

from service.usecases.hooks.way_out import Search, WayOuts


class EndlessSearches(WayOuts):
    """Searches of which none has ended when a hook answers."""

    def find(self, key: Hashable, search: Search, **_terms: object) -> None:
        """Return no way out."""
        del key, search


class CountedSearches(EndlessSearches):
    """Searches that are counted as they begin."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__()
        self.num_begun = 0

    def find(self, key: Hashable, search: Search, **_terms: object) -> None:
        """Count one, and return no way out."""
        self.num_begun += 1
        super().find(key, search)


class FaultySearches(WayOuts):
    """Searches that fail as no search should."""

    def find(self, key: Hashable, search: Search, **_terms: object) -> None:
        """Fail."""
        del key, search
        raise ZeroDivisionError
