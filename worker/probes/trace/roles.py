"""What each recorded storage is for: told by name where the run knows it, by the stretch that made it elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import nn

from worker.probes.models.optimizers import Stepper
from worker.probes.run.extrapolate import instant_of
from worker.probes.run.recorder import BEFORE_FIRST_MARK
from worker.probes.trace.ledger import Ledger
from worker.probes.trace.recorder import StorageRecorder


class Role(StrEnum):
    """Parts of what a device holds, in the words of an estimate's components."""

    WEIGHTS = "weights"
    MASTER_WEIGHTS = "master_weights"
    GRADIENTS = "gradients"
    OPTIMIZER_STATES = "optimizer_states"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    KV_CACHE = "kv_cache"
    TEMPORARIES = "temporaries"


_MADE_IN = {
    BEFORE_FIRST_MARK: Role.WEIGHTS,
    "load": Role.WEIGHTS,
    "forward": Role.ACTIVATIONS,
    "loss": Role.LOGITS,
    "prefill": Role.KV_CACHE,
    "growing": Role.KV_CACHE,
    "decode": Role.KV_CACHE,
}
"""Roles by the instant that made a storage which has no name; in serving, of what outlives the pass that made it."""
_PASSES = frozenset({"prefill", "growing", "decode"})


@dataclass(slots=True)
class Roles:
    """Names by place in the ledger."""

    named: dict[int, tuple[Role, str]] = field(default_factory=dict)

    def weights(self, recorder: StorageRecorder, model: nn.Module) -> None:
        """Name parameters and buffers."""
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._name(recorder, tensor, Role.WEIGHTS, name)

    def gradients(self, recorder: StorageRecorder, model: nn.Module) -> None:
        """Name the gradients that there are now."""
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                self._name(recorder, parameter.grad, Role.GRADIENTS, f"{name}.grad")

    def states(self, recorder: StorageRecorder, stepper: Stepper) -> None:
        """Name the optimizer's states and fp32 masters, and the gradients that masters have of their own."""
        for tensor in _tensors(stepper.keep):
            if tensor.grad is not None:
                self._name(recorder, tensor.grad, Role.GRADIENTS, "fp32 gradient of a master weight")
            self._name(recorder, tensor, Role.MASTER_WEIGHTS, "fp32 master weight")
        for kept in stepper.keep:
            if isinstance(kept, torch.optim.Optimizer):
                for state in kept.state.values():
                    for name, value in state.items():
                        if isinstance(value, torch.Tensor):
                            self._name(recorder, value, Role.OPTIMIZER_STATES, name)
            elif isinstance(kept, list):
                for tensor in _tensors(kept):
                    self._name(recorder, tensor, Role.OPTIMIZER_STATES, "state")

    def of(self, ledger: Ledger, place: int, lasting: frozenset[int]) -> Role:
        """Return the role of a storage; ``lasting`` are those that outlive the stretch that made them."""
        if place in self.named:
            return self.named[place][0]
        instant = instant_of(ledger.births[place].stretch)
        if instant in _PASSES and place not in lasting:
            return Role.TEMPORARIES
        return _MADE_IN.get(instant, Role.TEMPORARIES)

    def _name(self, recorder: StorageRecorder, tensor: torch.Tensor, role: Role, name: str) -> None:
        if (place := recorder.place_of(tensor)) is not None:
            self.named.setdefault(place, (role, name))


def _tensors(kept: Iterable[object]) -> Iterable[torch.Tensor]:
    """Yield the tensors of the lists among ``kept``."""
    for each in kept:
        if isinstance(each, list):
            yield from (tensor for tensor in each if isinstance(tensor, torch.Tensor))
