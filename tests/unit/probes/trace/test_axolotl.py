"""Steps with axolotl's kernels for adapters, held against traces of models that they patch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import transformers
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import (
    architecture_from_config,
    list_model_types,
)
from service.estimator.values.adapters.lora_kernels import PATCHED_FAMILIES, LoraKernel
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload
from service.probing.plan import ProbeQuestion, get_target_point
from tests.tiny_models import tiny_config
from tests.unit.probes.trace.axolotl_patches import find_lines, patch_model
from worker.probes.measure import make_probe_setup
from worker.probes.models.build import add_adapters
from worker.probes.run import assemble
from worker.probes.run.session import select_steady_stretches
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.run import run_traced

ALL = tuple(LoraKernel)
TRAIN = TrainWorkload(
    sequence_length=96,
    micro_batch_size=2,
    precision=POLICIES["bf16_autocast"],
    method=Method.LORA,
    lora=Lora(rank=16, kernels=ALL),
)
CHECKPOINTED = replace(TRAIN, activation_checkpointing=Checkpointing.FULL)
"""Without checkpoints what a layer keeps decides, with them what it allocates."""
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
    workload: TrainWorkload = TRAIN
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """The model's config."""
        return {**tiny_config(self.family), **NARROW, **self.changes}

    def trace(self, patch: pytest.MonkeyPatch) -> int:
        """Return the most bytes of a step before its optimizer, beyond what stays."""
        lora = self.workload.lora
        assert lora is not None
        plain = replace(lora, kernels=())
        workload = replace(
            self.workload, method=Method.LORA, lora=plain, reentrant_checkpointing=False
        )
        question = ProbeQuestion(
            architecture=architecture_from_config(self.config),
            workload=workload,
            layout=Layout(),
            full_depth=True,
            deadline_s=600.0,
        )
        kernels = lora.kernels
        is_quantised = self.workload.method is Method.QLORA

        def add_patched(model: Any, adapters: Lora, head: Head) -> nn.Module:
            adapted = add_adapters(model, adapters, head)
            patch_model(adapted, kernels, patch, quantised=is_quantised)
            if self.workload.reentrant_checkpointing:
                recompute = partial(model.activation_checkpointing_enable, {"use_reentrant": True})
                patch.setattr(model, "activation_checkpointing_enable", lambda _: recompute())
            return adapted

        patch.setattr(assemble, "add_adapters", add_patched)
        setup = make_probe_setup(question, self.config, 0)
        point = get_target_point(question)
        ledger = run_traced(setup, point, on_step=lambda _step: None, scratch={}).ledger
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


def change(workload: TrainWorkload, **changes: Any) -> TrainWorkload:
    """Return a workload with other adapters."""
    assert workload.lora is not None
    return replace(workload, lora=replace(workload.lora, **changes))


LARGE = {"hidden_size": 512, "intermediate_size": 1024, "head_dim": 128}
"""Weights of which a dequantised one is larger than what a layer keeps."""
QUANTISED = replace(CHECKPOINTED, method=Method.QLORA, sequence_length=16, micro_batch_size=1)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.filterwarnings("ignore:The following .* keys did not match:RuntimeWarning")
@pytest.mark.parametrize(
    "step",
    [
        Step(family="llama"),
        Step(family="llama", workload=CHECKPOINTED),
        Step(family="llama", workload=change(TRAIN, dropout=0.1)),
        Step(family="mistral", workload=change(CHECKPOINTED, dropout=0.1)),
        Step(family="llama", workload=replace(CHECKPOINTED, reentrant_checkpointing=True)),
        Step(
            family="llama",
            workload=replace(change(CHECKPOINTED, dropout=0.1), reentrant_checkpointing=True),
        ),
        Step(family="llama", workload=QUANTISED, changes=LARGE),
        Step(family="qwen3", workload=change(QUANTISED, dropout=0.1), changes=LARGE),
        Step(family="qwen2", workload=change(TRAIN, kernels=(LoraKernel.QKV,))),
        Step(family="qwen3", workload=change(TRAIN, kernels=(LoraKernel.OUTPUT,))),
        Step(family="gemma", workload=change(CHECKPOINTED, kernels=(LoraKernel.MLP,))),
        Step(family="gemma3_text"),
        Step(family="cohere2", workload=change(CHECKPOINTED, dropout=0.1)),
        Step(family="gpt_oss"),
        Step(family="qwen3_next", changes={"num_hidden_layers": 4}),
    ],
    ids=lambda step: step.family,
)
def test_a_step_is_that_of_axolotl(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its functions keep, copy and allocate is counted, family by family."""
    assert step.predict() == step.trace(monkeypatch)


def read_attention(family: str) -> str:
    """Return the code of the attention that axolotl patches (``get_attention_cls_from_config``).

    Empty where there is no such module or class.
    """
    folder = {"gemma3_text": "gemma3", "mistral3": "mistral"}.get(family, family)
    file = Path(transformers.__file__).parent / "models" / folder / f"modeling_{folder}.py"
    named = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(
        folder, "".join(part.capitalize() for part in folder.split("_"))
    )
    for ending in ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel"):
        named = named.removesuffix(ending)
    classes = file.read_text().split("\nclass ") if file.exists() else []
    return next((code for code in classes if code.startswith(f"{named}Attention(")), "")


def test_families_are_those_whose_attention_has_the_lines() -> None:
    """Of all others axolotl says that it did not find them, and stops."""
    patched = {family for family in list_model_types() if find_lines(read_attention(family))}

    assert patched == PATCHED_FAMILIES
