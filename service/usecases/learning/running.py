"""Environments that run now, by the GPU's name."""

from collections.abc import Sequence

from service.calibration.environment import Environment, EnvironmentKey, make_environment_key
from service.calibration.pool import Member


def select_environment_keys(
    running: Sequence[Environment], members: Sequence[Member]
) -> dict[str, EnvironmentKey]:
    """Return the environments that run now.

    They are those of the workers, else those measured last, else the reference releases. A
    measurement that does not tell its driver says nothing of what runs on a GPU with a known
    driver.
    """
    environment_keys = {"": Environment().key}
    for member in members:
        place = make_environment_key(member.group.environment, gpu=member.gpu).without_cudnn
        current = environment_keys.get(member.gpu or "")
        if place.has_driver or current is None or not current.has_driver:
            environment_keys[member.gpu or ""] = place
    for environment in running:
        environment_keys[""] = environment.libraries.key
        environment_keys[environment.gpu or ""] = environment.key
    return environment_keys
