"""Schedulers that take submissions, by their word."""

from collections.abc import Mapping

from service.base.errors import ServiceError
from service.cli.submissions.dstack import Dstack
from service.cli.submissions.kubernetes import Kubernetes
from service.cli.submissions.ray import Ray
from service.cli.submissions.scheduler import Scheduler
from service.cli.submissions.skypilot import SkyPilot
from service.cli.submissions.slurm import Slurm

SCHEDULERS: Mapping[str, Scheduler] = {
    "slurm": Slurm(),
    "kubernetes": Kubernetes(),
    "ray": Ray(),
    "skypilot": SkyPilot(),
    "dstack": Dstack(),
}


def find_scheduler(word: str) -> Scheduler:
    """Return a scheduler; raises ServiceError for one of a newer version."""
    if word not in SCHEDULERS:
        message = f"this version of headroom knows no scheduler {word!r}"
        raise ServiceError(message)
    return SCHEDULERS[word]
