"""Needs of programs that one GPU does not meet."""

from collections.abc import Mapping
from functools import cache, cached_property

from service.estimator.model.architecture import Architecture
from service.estimator.rules.grammar.facts import Case, ModelFacts, collect_facts
from service.estimator.rules.grammar.hardware import HardwareNeed
from service.estimator.rules.tables.hardware import NEEDS
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload


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
            refusal = InvalidInputError(need.describe_gap(self._device, case), field=need.field)
            refusal.decided_by = need.when.paths
            raise refusal

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
        return [(need, case) for need in needs if need.when.holds(case)]

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
    for need in NEEDS:
        if not need.is_met_by(compute_capability, gfx_target):
            key = need.serves, need.warns
            unmet[key] = (*unmet.get(key, ()), need)
    return unmet
