"""Speeds of machines, common to all questions that were timed on them.

A machine is a GPU of a kind with its driver and releases. The mean of its questions is shrunk
towards the shipped rates, and a question's own towards the machine's: one run that differs by no
more than runs differ changes nothing, and one that differs far more is believed as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp

from service.calibration.environment import EnvironmentKey, make_environment_key
from service.calibration.pool import Member
from service.calibration.shrinkage import Mean, average_groups, shrink_firmly
from service.estimator.values.corrections import SpeedRatios
from service.estimator.values.result import Bound

Machines = Mapping[str, Mapping[str, float]]
"""Logarithms of both sides' ratios, by the machine's name."""


def get_machine_name(place: EnvironmentKey) -> str:
    """Return the name of an environment's machine, whatever kernel attention takes there."""
    return place.without_cudnn.name


def build_machines(members: Iterable[Member]) -> dict[str, dict[str, float]]:
    """Return what all keys tell of each machine.

    Their order does not matter.
    """
    means: dict[str, dict[str, list[Mean]]] = {}
    for member in sorted(members, key=lambda entry: (entry.key, entry.group.quantity)):
        for side, mean in member.calibration.speeds.items():
            place = make_environment_key(member.group.environment, gpu=member.gpu)
            means.setdefault(get_machine_name(place), {}).setdefault(side, []).append(mean)
    return {
        name: {side: _shrink_all(collected) for side, collected in sides.items()}
        for name, sides in means.items()
    }


def combine_speeds(
    machine: Mapping[str, float], own: Iterable[Mapping[str, Mean]] = ()
) -> SpeedRatios:
    """Return the speeds for a question on a machine.

    ``own`` are the means of its own key.
    """
    collected = list(own)
    ratios = {
        side: _shrink_all(
            [means[side] for means in collected if side in means], prior=machine.get(side, 0.0)
        )
        for side in map(str, Bound)
    }
    return SpeedRatios(host=exp(ratios[Bound.HOST]), gpu=exp(ratios[Bound.GPU]))


def _shrink_all(means: Sequence[Mean], *, prior: float = 0.0) -> float:
    """Return what means agree on; one alone counts as well."""
    common = average_groups(means) or (means[0] if means else None)
    return prior if common is None else shrink_firmly(common, prior=prior)
