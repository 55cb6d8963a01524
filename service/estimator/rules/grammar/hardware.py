"""Requirements of programs on GPUs."""

from dataclasses import dataclass
from functools import cache

from service.estimator.rules.grammar.conditions import Condition
from service.estimator.rules.grammar.facts import Case
from service.estimator.values.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareNeed:
    """A feature that only some GPUs support.

    It matters where ``when`` holds. ``warns``: elsewhere it runs in another way, with a warning.
    """

    field: str
    when: Condition
    serves: bool
    what: str
    instead: str
    source: str
    cuda: str | None = None
    gfx: tuple[str, ...] = ()
    warns: bool = False

    def is_met_by(self, compute_capability: str | None, gfx_target: str | None) -> bool:
        """Return whether a GPU meets the requirement.

        A GPU without known properties passes.
        """
        if compute_capability is not None and self.cuda is not None:
            return has_capability(compute_capability, self.cuda)
        return gfx_target is None or not self.gfx or gfx_target in self.gfx

    def describe_gap(self, device: Device, case: Case) -> str:
        """Describe the missing capability of a GPU and the remedy."""
        what = self.what.format(workload=case.workload)
        if device.compute_capability is not None:
            lacks = (
                f"needs compute capability {self.cuda}, and {device.name} has "
                f"{device.compute_capability}"
            )
        else:
            lacks = f"needs {' or '.join(self.gfx)}, and {device.name} is {device.gfx_target}"
        return f"{what} {lacks}: {self.instead}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """The makers whose GPUs a program runs on."""

    name: str
    vendors: frozenset[str]
    source: str


@cache
def has_capability(available: str | None, needed: str) -> bool:
    """Return whether a GPU has a compute capability.

    An unknown capability passes.
    """
    return available is None or _parse_version(available) >= _parse_version(needed)


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
