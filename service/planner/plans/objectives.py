"""Objectives of a plan."""

from enum import StrEnum


class Objective(StrEnum):
    """Fewest GPUs, least cost or most tokens per second.

    Cost is that of the run where its tokens are given, else of an hour.

    Of equal ones the better plan is taken: it keeps every limit, makes the most tokens per second
    of the whole job, of all replicas where it serves, and of equally fast ones is the simplest.
    """

    FEWEST_GPUS = "fewest_gpus"
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
