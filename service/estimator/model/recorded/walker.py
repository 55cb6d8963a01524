"""Walk over a recorded model, by its name: loaded where one is asked about."""

WALKER = ("passes.recorded", "RecordedWalk")
"""Module and class of the walk over a recorded model."""
