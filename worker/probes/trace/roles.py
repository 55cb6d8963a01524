"""The role of each recorded storage.

It is known by name where the run has one for it, elsewhere by the stretch that made it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import nn

from worker.probes.models.optimizers import Stepper
from worker.probes.run.extrapolate import get_instant
from worker.probes.run.recorder import BEFORE_FIRST_MARK
from worker.probes.trace.ledger import Ledger
from worker.probes.trace.recorder import StorageRecorder


class Role(StrEnum):
    """Parts of a device's memory, named as in an estimate."""

    WEIGHTS = "weights"
    MASTER_WEIGHTS = "master_weights"
    GRADIENTS = "gradients"
    OPTIMIZER_STATES = "optimizer_states"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    KV_CACHE = "kv_cache"
    TEMPORARIES = "temporaries"


_ROLES_BY_INSTANT = {
    BEFORE_FIRST_MARK: Role.WEIGHTS,
    "load": Role.WEIGHTS,
    "forward": Role.ACTIVATIONS,
    "loss": Role.LOGITS,
    "prefill": Role.KV_CACHE,
    "growing": Role.KV_CACHE,
    "decode": Role.KV_CACHE,
}
"""Roles by the instant that made a storage which has no name.

In serving, they are those of storages that outlive the pass that made them.
"""
_PASSES = frozenset({"prefill", "growing", "decode"})


@dataclass(slots=True)
class Roles:
    """Roles and names of storages, by position in the ledger."""

    named: dict[int, tuple[Role, str]] = field(default_factory=dict)

    def name_weights(self, recorder: StorageRecorder, model: nn.Module) -> None:
        """Name parameters and buffers."""
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._name(recorder, tensor, Role.WEIGHTS, name)

    def name_gradients(self, recorder: StorageRecorder, model: nn.Module) -> None:
        """Name the gradients that exist now."""
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                self._name(recorder, parameter.grad, Role.GRADIENTS, f"{name}.grad")

    def name_states(self, recorder: StorageRecorder, stepper: Stepper) -> None:
        """Name the optimizer's states, fp32 masters and the masters' gradients."""
        for tensor in _iter_tensors(stepper.states):
            if tensor.grad is not None:
                self._name(
                    recorder, tensor.grad, Role.GRADIENTS, "fp32 gradient of a master weight"
                )
            self._name(recorder, tensor, Role.MASTER_WEIGHTS, "fp32 master weight")
        for container in stepper.states:
            if isinstance(container, torch.optim.Optimizer):
                for state in container.state.values():
                    for name, value in state.items():
                        if isinstance(value, torch.Tensor):
                            self._name(recorder, value, Role.OPTIMIZER_STATES, name)
            elif isinstance(container, list):
                for tensor in _iter_tensors(container):
                    self._name(recorder, tensor, Role.OPTIMIZER_STATES, "state")

    def get_role(self, ledger: Ledger, place: int, lasting: frozenset[int]) -> Role:
        """Return the role of a storage.

        ``lasting`` are those that outlive the stretch that made them.
        """
        if place in self.named:
            return self.named[place][0]
        instant = get_instant(ledger.allocations[place].stretch)
        if instant in _PASSES and place not in lasting:
            return Role.TEMPORARIES
        return _ROLES_BY_INSTANT.get(instant, Role.TEMPORARIES)

    def _name(self, recorder: StorageRecorder, tensor: torch.Tensor, role: Role, name: str) -> None:
        if (place := recorder.find_place(tensor)) is not None:
            self.named.setdefault(place, (role, name))


def _iter_tensors(containers: Iterable[object]) -> Iterable[torch.Tensor]:
    """Yield the tensors of the lists among ``containers``."""
    for container in containers:
        if isinstance(container, list):
            yield from (tensor for tensor in container if isinstance(tensor, torch.Tensor))
