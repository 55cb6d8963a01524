"""Steps with axolotl's kernels for adapters, held against traces of models that they patch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from service.estimator.model.families.registry import (
    list_model_types,
)
from service.estimator.values.adapters.lora_kernels import PATCHED_FAMILIES, LoraKernel
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload
from tests.unit.probes.trace.axolotl_patches import find_lines, patch_model
from tests.unit.probes.trace.patched_steps import Step

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
        Step(family="llama", workload=TRAIN),
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
        Step(family="gemma3_text", workload=TRAIN),
        Step(family="cohere2", workload=change(CHECKPOINTED, dropout=0.1)),
        Step(family="gpt_oss", workload=TRAIN),
        Step(family="qwen3_next", workload=TRAIN, changes={"num_hidden_layers": 4}),
    ],
    ids=lambda step: step.family,
)
def test_a_step_is_that_of_axolotl(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its functions keep, copy and allocate is counted, family by family."""
    lora, is_quantised = step.workload.lora, step.workload.method is Method.QLORA
    assert lora is not None

    traced = step.trace(
        monkeypatch,
        lambda model: patch_model(model, lora.kernels, monkeypatch, quantised=is_quantised),
    )

    assert step.predict() == traced


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
    """Of all others axolotl says that it did not find them, and stops.

    nemotron_h has them in a mixer, and axolotl looks for self_attn: nothing gets its functions.
    """
    patched = {family for family in list_model_types() if find_lines(read_attention(family))}

    assert patched - {"nemotron_h"} == PATCHED_FAMILIES
