"""Name of the walk over recorded models."""

WALKER = ("passes.recorded", "RecordedWalk")
"""Module and class, as ``Architecture.walker`` has them."""
