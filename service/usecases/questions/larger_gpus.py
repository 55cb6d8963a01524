"""The same model on known GPUs with more memory."""

from collections.abc import Iterator

from service.catalog.gpus import list_gpus
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.planner.fit.evaluator import Evaluator
from service.planner.plans.relaxations import LargerGpus
from service.usecases.questions.fit import FindCorrections, make_calibrated_evaluator


def make_larger_gpus(
    architecture: Architecture,
    *,
    plans: PlanCache,
    find_corrections: FindCorrections | None,
    level: float,
) -> LargerGpus:
    """Return a function that yields evaluators on larger GPUs.

    They are GPUs of the same maker with more memory than one, the smallest first, one of each size.
    """

    def iter_larger(device: Device) -> Iterator[Evaluator]:
        devices = [entry.to_device() for entry in list_gpus() if entry.vendor == device.vendor]
        sizes = {
            larger_device.usable_bytes: larger_device
            for larger_device in reversed(devices)
            if larger_device.usable_bytes > device.usable_bytes
        }
        for _, larger_device in sorted(sizes.items()):
            yield make_calibrated_evaluator(
                architecture,
                larger_device,
                plans=plans,
                find_corrections=find_corrections,
                level=level,
            )

    return iter_larger
