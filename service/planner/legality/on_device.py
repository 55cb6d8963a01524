"""Hardware requirements of programs, read from a table.

A program needs a CUDA compute capability at least, or one of AMD's targets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.legality.conditions import Predicate, read_condition
from service.planner.legality.facts import Case, ModelFacts, collect_facts

_TABLE = Path(__file__).with_name("tables") / "hardware.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareNeed:
    """A feature that only some GPUs support.

    It matters where ``applies`` holds. ``warns``: elsewhere it runs in another way, with a warning.
    """

    field: str
    serves: bool
    applies: Predicate
    what: str
    cuda: str | None
    gfx: tuple[str, ...]
    instead: str
    warns: bool
    source: str

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


class UnmetNeeds:
    """Requirements of one model that one GPU does not meet.

    Most GPUs meet nearly all, and then nothing of a workload is checked.
    """

    def __init__(self, model: Architecture, device: Device) -> None:
        """Select the requirements that the GPU does not meet."""
        self._device, self._model = device, model
        self._needs = group_unmet_needs(device.compute_capability, device.gfx_target)

    def check(self, workload: Workload) -> None:
        """Raise InvalidInputError for a workload that cannot run on the GPU.

        The message says what would.
        """
        for need, case in self._find_applicable(workload, warns=False):
            raise InvalidInputError(need.describe_gap(self._device, case), field=need.field)

    def list_warnings(self, workload: Workload) -> tuple[str, ...]:
        """Return warnings about what runs differently on the GPU."""
        return tuple(
            need.describe_gap(self._device, case)
            for need, case in self._find_applicable(workload, warns=True)
        )

    def _find_applicable(
        self, workload: Workload, *, warns: bool
    ) -> list[tuple[HardwareNeed, Case]]:
        needs = self._needs.get((isinstance(workload, ServeWorkload), warns))
        if needs is None:
            return []
        case = Case(self._facts, workload, _DEFAULT_LAYOUT)
        return [(need, case) for need in needs if need.applies(case)]

    @cached_property
    def _facts(self) -> ModelFacts:
        return collect_facts(self._model)


_DEFAULT_LAYOUT = Layout()
"""No layout changes what a GPU can do."""


@cache
def group_unmet_needs(
    compute_capability: str | None, gfx_target: str | None
) -> Mapping[tuple[bool, bool], tuple[HardwareNeed, ...]]:
    """Return the unmet requirements of a kind of GPU.

    They are by whether it is of serving and whether it only warns.
    """
    unmet: dict[tuple[bool, bool], tuple[HardwareNeed, ...]] = {}
    for need in list_needs():
        if not need.is_met_by(compute_capability, gfx_target):
            key = need.serves, need.warns
            unmet[key] = (*unmet.get(key, ()), need)
    return unmet


@cache
def list_needs() -> tuple[HardwareNeed, ...]:
    """Return all requirements of the table."""
    return tuple(_parse_need(raw) for raw in json.loads(_TABLE.read_bytes())["rules"])


def _parse_need(raw: Mapping[str, Any]) -> HardwareNeed:
    return HardwareNeed(
        field=raw["field"],
        serves=raw["task"] == "serve",
        applies=read_condition(raw["when"]),
        what=raw["what"],
        cuda=raw.get("cuda"),
        gfx=tuple(raw.get("gfx", ())),
        instead=raw["instead"],
        warns=raw.get("warns", False),
        source=raw["source"],
    )


@cache
def has_capability(available: str | None, needed: str) -> bool:
    """Return whether a GPU has a compute capability.

    An unknown capability passes.
    """
    return available is None or _parse_version(available) >= _parse_version(needed)


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
