"""Objectives of a plan."""

from enum import StrEnum


class Objective(StrEnum):
    """Fewest GPUs, least cost or most tokens per second.

    Cost is that of the run where its tokens are given, else of an hour.

    Ties go to the faster, then to the simpler layout.
    """

    FEWEST_GPUS = "fewest_gpus"
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
