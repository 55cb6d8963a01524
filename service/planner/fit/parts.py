"""Parts of a fit answer beyond the verdict and the bytes."""

from enum import StrEnum


class FitPart(StrEnum):
    """Part of a fit answer that takes work of its own."""

    REPLAY = "replay"
    """the allocator replayed, which makes reserved bytes those of this very order of calls"""
    COMPONENTS = "components"
    INSTANTS = "instants"
    THROUGHPUT = "throughput"
    RULES_OF_THUMB = "rules_of_thumb"
    REMEDIES = "remedies"
    """each is compared with the replayed answer, so that it comes with a replay"""


ALL_PARTS = frozenset(FitPart)
NO_PARTS: frozenset[FitPart] = frozenset()
REPLAYED = frozenset({FitPart.REPLAY, FitPart.REMEDIES})
"""Parts that need a replay."""
EXPLAINED = frozenset({FitPart.COMPONENTS, FitPart.INSTANTS, FitPart.RULES_OF_THUMB})
"""Parts that need an explained estimate."""
