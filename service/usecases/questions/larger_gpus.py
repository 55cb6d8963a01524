"""The same model on known GPUs with more memory."""

from collections.abc import Iterator

from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import list_gpus, resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.rules.grammar.hardware import has_capability
from service.estimator.values.device import Device, parse_slice
from service.estimator.values.units import GIB
from service.planner.fit.evaluator import Evaluator
from service.planner.remedies.other_gpus import OtherGpus
from service.usecases.questions.fit import FindCorrections, make_calibrated_evaluator

_PREFERRED = "server"
_CARDS = {_PREFERRED, "workstation", "desktop"}


def make_larger_gpus(
    architecture: Architecture,
    *,
    plans: PlanCache,
    find_corrections: FindCorrections | None,
    level: float,
) -> OtherGpus:
    """Return a function that yields evaluators on larger GPUs.

    They are cards of the same maker with more memory than one, the smallest first, one of each size
    as it is sold. Before them come the larger slices of a GPU that is sliced.
    """

    def iter_larger(device: Device) -> Iterator[Evaluator]:
        sizes: dict[int, Device] = {}
        slices = _list_larger_slices(device)
        names = {larger.name for larger in slices}
        for entry in sorted(list_gpus(), key=lambda entry: entry.form != _PREFERRED):
            size = round(entry.capacity_bytes / GIB)
            if size > round(device.capacity_bytes / GIB) and _can_replace(device, entry):
                sizes.setdefault(size, entry.to_device())
        cards = [larger_device for _, larger_device in sorted(sizes.items())]
        for larger_device in (*slices, *(card for card in cards if card.name not in names)):
            yield make_calibrated_evaluator(
                architecture,
                larger_device,
                plans=plans,
                find_corrections=find_corrections,
                level=level,
            )

    return iter_larger


def _list_larger_slices(device: Device) -> tuple[Device, ...]:
    """Return larger slices of a slice's GPU, then the GPU."""
    parts = parse_slice(device.name)
    if parts is None or device.mig_profile is None:
        return ()
    entry = resolve_gpu(parts[0])
    sizes: dict[int, Device] = {}
    for profile in sorted(entry.mig_profiles, key=lambda profile: profile.compute_slices):
        larger = entry.get_slice(profile.name)
        if larger is not None and larger.usable_bytes > device.usable_bytes:
            sizes.setdefault(profile.memory_eighths, larger)
    return (*(larger for _, larger in sorted(sizes.items())), entry.to_device())


def _can_replace(device: Device, entry: GpuEntry) -> bool:
    """Return whether a card runs all that the GPU runs.

    Nobody puts a laptop's GPU or a robot's module in the place of a card.
    """
    needed = device.compute_capability
    return (
        entry.form in _CARDS
        and entry.vendor == device.vendor
        and (needed is None or has_capability(entry.compute_capability, needed))
    )
