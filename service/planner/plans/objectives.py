"""What a plan is best at."""

from enum import StrEnum


class Objective(StrEnum):
    """Fewest GPUs, least cost (of the run where its tokens are said, else of an hour), or most tokens per second.

    Ties go to the faster, then to the simpler layout.
    """

    FEWEST_GPUS = "fewest_gpus"
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
