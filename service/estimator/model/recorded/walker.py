"""Name of the walk over recorded models, by which they are told from others."""

WALKER = ("passes.recorded", "RecordedWalk")
"""Module and class, as ``Architecture.walker`` has them."""
