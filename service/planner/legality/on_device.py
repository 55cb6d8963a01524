"""What programs need of a GPU, read from a table: a CUDA compute capability at least, or one of AMD's targets."""

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
from service.planner.legality.conditions import Test, read_condition
from service.planner.legality.facts import Case, ModelFacts, facts_of

_TABLE = Path(__file__).with_name("tables") / "hardware.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What holds ``applies`` only on some GPUs; ``warns``: elsewhere it runs in another way, which is told."""

    field: str
    serves: bool
    applies: Test
    what: str
    cuda: str | None
    gfx: tuple[str, ...]
    instead: str
    warns: bool
    source: str

    def met_by(self, compute_capability: str | None, gfx_target: str | None) -> bool:
        """Tell whether a GPU has what is needed; of one that nobody told anything about, nothing is said."""
        if compute_capability is not None and self.cuda is not None:
            return has_capability(compute_capability, self.cuda)
        return gfx_target is None or not self.gfx or gfx_target in self.gfx

    def said_of(self, device: Device, case: Case) -> str:
        """Return what a GPU lacks, and what would be right."""
        what = self.what.format(workload=case.workload)
        if device.compute_capability is not None:
            lacks = f"needs compute capability {self.cuda}, and {device.name} has {device.compute_capability}"
        else:
            lacks = f"needs {' or '.join(self.gfx)}, and {device.name} is {device.gfx_target}"
        return f"{what} {lacks}: {self.instead}"


class Unmet:
    """What one GPU lacks for one model: most GPUs lack little, and then nothing is asked of a workload."""

    def __init__(self, model: Architecture, device: Device) -> None:
        """Drop the needs that the GPU meets."""
        self._device, self._model = device, model
        self._needs = unmet_needs(device.compute_capability, device.gfx_target)

    def check(self, workload: Workload) -> None:
        """Raise InvalidInputError for what does not run on the GPU, saying what would."""
        for need, case in self._of(workload, warns=False):
            raise InvalidInputError(need.said_of(self._device, case), field=need.field)

    def warnings(self, workload: Workload) -> tuple[str, ...]:
        """Return what runs on the GPU in another way than the request's words say."""
        return tuple(need.said_of(self._device, case) for need, case in self._of(workload, warns=True))

    def _of(self, workload: Workload, *, warns: bool) -> list[tuple[Need, Case]]:
        needs = self._needs.get((isinstance(workload, ServeWorkload), warns))
        if needs is None:
            return []
        case = Case(self._facts, workload, _ALONE)
        return [(need, case) for need in needs if need.applies(case)]

    @cached_property
    def _facts(self) -> ModelFacts:
        return facts_of(self._model)


_ALONE = Layout()
"""No layout changes what a GPU can do."""


@cache
def unmet_needs(compute_capability: str | None, gfx_target: str | None) -> Mapping[tuple[bool, bool], tuple[Need, ...]]:
    """Return what a kind of GPU lacks, by whether it is of serving and whether it only warns."""
    found: dict[tuple[bool, bool], tuple[Need, ...]] = {}
    for need in list_needs():
        if not need.met_by(compute_capability, gfx_target):
            key = need.serves, need.warns
            found[key] = (*found.get(key, ()), need)
    return found


@cache
def list_needs() -> tuple[Need, ...]:
    """Return the whole table."""
    return tuple(_need(raw) for raw in json.loads(_TABLE.read_bytes())["rules"])


def _need(raw: Mapping[str, Any]) -> Need:
    return Need(
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
def has_capability(of_device: str | None, needed: str) -> bool:
    """Tell whether a GPU has a compute capability; of one that nobody told anything about, nothing is doubted."""
    return of_device is None or _version(of_device) >= _version(needed)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
