"""The same model on the known GPUs that have more memory."""

from collections.abc import Iterator

from service.catalog.gpus import list_gpus
from service.estimator.estimate import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.planner.fit.evaluator import Subject
from service.planner.plans.relaxations import Larger
from service.usecases.questions.fit import FindCorrections, subject_of


def larger_gpus(
    architecture: Architecture, *, plans: PlanCache, find_corrections: FindCorrections | None, level: float
) -> Larger:
    """Return what knows the GPUs of the same maker with more memory than one, the smallest first, one of each size."""

    def larger(device: Device) -> Iterator[Subject]:
        known = [entry.device() for entry in list_gpus() if entry.vendor == device.vendor]
        sizes = {one.usable_bytes: one for one in reversed(known) if one.usable_bytes > device.usable_bytes}
        for _, one in sorted(sizes.items()):
            yield subject_of(architecture, one, plans=plans, find_corrections=find_corrections, level=level)

    return larger
