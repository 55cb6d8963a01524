"""Name of the walk over recorded models, which loads none of them."""

WALKER = ("passes.recorded", "RecordedWalk")
"""Its module and class."""
