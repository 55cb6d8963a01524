"""Steps of small models whose modules are patched, traced and predicted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import pytest
import torch
from torch import nn

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.tape.ops.elementwise import SILU_INNER_PRODUCTS
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.workload import Lora, Method, TrainWorkload
from service.probing.plan import ProbeQuestion, get_target_point
from tests.tiny_models import tiny_config
from worker.probes.measure import make_probe_setup
from worker.probes.models.build import add_adapters
from worker.probes.run import assemble
from worker.probes.run.session import select_steady_stretches
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.run import run_traced

COMPOSITES: Mapping[object, Callable[..., Sequence[int]]] = {
    torch.ops.aten.silu_backward.default: lambda grad, *_: (
        [prod(grad.shape) * grad.element_size()] * SILU_INNER_PRODUCTS
    )
}
"""Tensors of silu's backward as ATen composes it, which the estimator counts beside no GPU."""
Install = Callable[[nn.Module], object]
"""Puts functions in place of the modules of a model with adapters."""
LOSS_BYTES = 4
"""The loop's own name for the loss, which the estimator does not count."""
SCALAR_BYTES = 24
"""Scalars of the loss that are gone when a reentrant checkpoint runs a backward of its own; the
estimator counts them, kernels or not.
"""
NARROW: Mapping[str, Any] = {
    "vocab_size": 96,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "num_hidden_layers": 2,
}
"""A vocabulary whose logits are smaller than a layer's tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step of a small model."""

    family: str
    workload: TrainWorkload
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """The model's config."""
        return {**tiny_config(self.family), **NARROW, **self.changes}

    def trace(self, patch: pytest.MonkeyPatch, install: Install) -> int:
        """Return the most bytes of a step before its optimizer, beyond what stays."""
        lora = self.workload.lora
        assert lora is not None
        plain = replace(lora, kernels=())
        workload = replace(
            self.workload,
            method=Method.LORA,
            lora=plain,
            reentrant_checkpointing=False,
            kernels=Kernels.TORCH,
            loss=Loss.FULL_LOGITS,
        )
        question = ProbeQuestion(
            architecture=architecture_from_config(self.config),
            workload=workload,
            layout=Layout(),
            full_depth=True,
            deadline_s=600.0,
        )

        def add_patched(model: Any, adapters: Lora, head: Head) -> nn.Module:
            adapted = add_adapters(model, adapters, head)
            install(adapted)
            if self.workload.reentrant_checkpointing:
                recompute = partial(model.activation_checkpointing_enable, {"use_reentrant": True})
                patch.setattr(model, "activation_checkpointing_enable", lambda _: recompute())
            return adapted

        patch.setattr(assemble, "add_adapters", add_patched)
        setup = make_probe_setup(question, self.config, 0)
        point = get_target_point(question)
        ledger = run_traced(setup, point, on_step=lambda _step: None, scratch=COMPOSITES).ledger
        first, *others = select_steady_stretches(compute_stretches(ledger, ledger.live()))
        highest = max(one.live_peak for one in (first, *others) if "optim" not in one.name)
        token_bytes = workload.micro_batch_size * workload.sequence_length * 8
        return highest - first.start + token_bytes

    def predict(self) -> int:
        """Return the same of an estimate."""
        model = architecture_from_config(self.config)
        timeline = build_train_timeline(model, self.workload, Layout())
        phases, resident = dict(timeline.phases), timeline.static_memory.resident_bytes
        backward = phases["backward_pass"] + LOSS_BYTES
        if self.workload.reentrant_checkpointing:
            backward -= SCALAR_BYTES
        return max(phases["forward_pass"], backward) - resident
