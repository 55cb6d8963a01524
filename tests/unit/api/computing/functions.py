"""Functions that children call in tests of costly answers."""

import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from service.api.computing.means import Means
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload

HOST = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """A model and what it does."""

    model: Architecture
    workload: Workload


def estimate_memory(question: Estimation, means: Means) -> tuple[Architecture, dict[str, int]]:
    """Return the model as it came, and its bytes by instant."""
    answer = estimate(
        question.model, question.workload, layout=Layout(), device=HOST, plans=means.plans
    )
    return question.model, {instant.name: instant.allocated_bytes for instant in answer.instants}


def spend(_question: None, means: Means) -> None:
    """Check a budget until it is spent."""
    while True:
        means.check()


def get_version(_question: None, means: Means) -> int:
    """Return the version of the corrections."""
    version: int = means.find.find.snapshot.version  # type: ignore[attr-defined]  # the lookup that is limited
    return version


def get_pid(_question: object, _means: Means) -> int:
    """Return the process."""
    return os.getpid()


def die(_question: None, _means: Means) -> None:
    """End as a crash does."""
    os.kill(os.getpid(), signal.SIGSEGV)


def list_loaded(packages: tuple[str, ...], _means: Means) -> list[str]:
    """Return which packages are loaded."""
    return [package for package in packages if package in sys.modules]


def make_function(_question: None, _means: Means) -> Any:  # noqa: ANN401 - a function without a name
    """Return what no other process can find."""
    return lambda: 7


def take_memory(num_bytes: int, _means: Means) -> int:
    """Take memory for a moment."""
    return len(bytearray(num_bytes))
