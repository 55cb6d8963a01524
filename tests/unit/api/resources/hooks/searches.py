"""Searches for how many GPUs a job needs that never end, or fail."""

from collections.abc import Hashable

from service.usecases.hooks.way_out import Search, WayOuts


class EndlessSearches(WayOuts):
    """Searches of which none has ended when a hook answers."""

    def find(self, key: Hashable, search: Search, **_terms: object) -> None:
        """Return no way out."""
        del key, search


class FaultySearches(WayOuts):
    """Searches that fail as no search should."""

    def find(self, key: Hashable, search: Search, **_terms: object) -> None:
        """Fail."""
        del key, search
        raise ZeroDivisionError
