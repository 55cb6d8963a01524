"""Steps with foak's kernels, held against traces of models that they patch."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from torch import nn

from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload
from tests.unit.probes.trace.axolotl_patches import patch_attention
from tests.unit.probes.trace.foak_functions import Norm, compute_loss, join, rotate_both
from tests.unit.probes.trace.patched_steps import Step
from tests.unit.probes.trace.unsloth_functions import apply
from worker.probes.run.marks import LossMarks

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
TRAIN = TrainWorkload(
    sequence_length=96,
    micro_batch_size=2,
    precision=POLICIES["bf16"],
    method=Method.LORA,
    lora=Lora(rank=16, targets=TARGETS),
    kernels=Kernels.FOAK,
    loss=Loss.FUSED_CROSS_ENTROPY,
)
QUANTISED = replace(
    TRAIN,
    precision=POLICIES["bf16_autocast"],
    method=Method.QLORA,
    lora=Lora(rank=16, targets=TARGETS, dropout=0.1),
    activation_checkpointing=Checkpointing.FULL,
)
WORDS = {"vocab_size": 2000}
"""A vocabulary whose loss decides, where small ones leave it to the layers."""


def install(model: nn.Module, patch: pytest.MonkeyPatch, *, quantised: bool) -> None:
    """Put kernels in place of modules (``models/llama.py``, ``mistral.py``)."""
    inner: Any = model.get_submodule("base_model.model")
    layer = inner.model.layers[0]
    module = import_module(type(layer).__module__)
    patch.setattr(type(inner.model.norm), "forward", lambda self, x: apply(Norm, x, self.weight))
    patch.setattr(module, "apply_rotary_pos_emb", rotate_both)
    inner.loss_function = compute_loss
    patch.setattr(LossMarks, "check", lambda _marks: None)  # it looks for torch's own losses
    if not quantised:
        return
    patch_attention(type(layer.self_attn), patch)
    for each in inner.model.layers:
        attention = each.self_attn
        projections = [attention.q_proj, attention.k_proj, attention.v_proj]
        attention.apply_qkv = lambda x, modules=projections: join(modules, x)
        attention.apply_o = lambda x, module=attention.o_proj: join([module], x)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize(
    "step",
    [
        Step(family="llama", workload=TRAIN),
        Step(family="mistral", workload=TRAIN, changes=WORDS),
        Step(family="llama", workload=QUANTISED),
        Step(family="mistral", workload=QUANTISED, changes=WORDS),
    ],
    ids=lambda step: step.family,
)
def test_a_step_is_that_of_foak(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms, rotations, the loss, and adapters over quantised weights are counted."""
    is_quantised = step.workload.method is Method.QLORA

    traced = step.trace(
        monkeypatch, lambda model: install(model, monkeypatch, quantised=is_quantised)
    )

    assert step.predict() == traced
