"""Schedulers that take submissions, by their word."""

from collections.abc import Mapping

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
