"""What a plan is best at."""

from enum import StrEnum


class Objective(StrEnum):
    """Fewest GPUs, least cost per hour, or most tokens per second; ties go to the faster, then to the simpler layout."""

    FEWEST_GPUS = "fewest_gpus"
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
