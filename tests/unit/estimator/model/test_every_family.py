"""What must hold of every model type that can be read, on its own published shapes."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import (
    list_models,
    list_supported_models,
    load_architecture,
    resolve_model,
)
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Estimate
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from tests.builders import a_device, a_serving, a_sharded_layout, a_training

_DEPTH = 8
_NAMES = tuple(
    next(
        entry.name for entry in list_models() if entry.model_type == model_type and entry.supported
    )
    for model_type in sorted({resolve_model(name).model_type for name in list_supported_models()})
)
"""One model of the catalogue for each model type."""
_PACKED = {"deepseek-v3", "deepseek-v3.2", "kimi-k2"}
_SHARDED = sorted(
    name for name in set(_NAMES) - _PACKED if resolve_model(name).model_type != "clip"
)
"""Those of them without a scalar parameter, which FSDP2 refuses, and without packed weights, which
get no gradient.
"""
_CHECKPOINTED: dict[str, Any] = {"activation_checkpointing": Checkpointing.FULL}
_LORA: dict[str, Any] = {"method": Method.LORA, "lora": Lora(rank=8)}
_QUESTIONS: dict[str, TrainWorkload | ServeWorkload] = {
    "bf16": a_training(precision="bf16"),
    "checkpointed": a_training(precision="bf16", **_CHECKPOINTED),
    "eager": a_training(precision="fp32", attention=Attention.EAGER),
    "padded": a_training(precision="bf16", padding_mask=True),
    "autocast": a_training(precision="amp_bf16"),
    "lora": a_training(precision="bf16", **_LORA),
    "lora, checkpointed": a_training(precision="bf16", **_LORA, **_CHECKPOINTED),
    "serve": a_serving(),
}


def _model(name: str) -> Architecture:
    model = load_architecture(resolve_model(name))
    return model.with_layers(min(_DEPTH, model.num_hidden_layers))


def _ask(
    model: Architecture, workload: TrainWorkload | ServeWorkload, layout: Layout | None = None
) -> Estimate:
    return estimate(
        model, _short_enough(model, workload), layout=layout or Layout(), device=a_device()
    )


def _short_enough(
    model: Architecture, workload: TrainWorkload | ServeWorkload
) -> TrainWorkload | ServeWorkload:
    """Return the workload with no more tokens than the model has learned positions (CLIP has 77),
    and none from an encoder.
    """
    positions = 2**30 if model.spec.rotary else model.spec.max_position_embeddings or 2**30
    if isinstance(workload, TrainWorkload):
        return replace(workload, sequence_length=min(workload.sequence_length, positions))
    if model.shifts_labels or isinstance(model, EncoderDecoder):
        return workload
    return replace(workload, prompt_tokens=min(workload.prompt_tokens, positions), output_tokens=0)


def _unrolled(model: Architecture) -> Architecture:
    """Return the same model with every layer recorded for itself."""
    kinds = model.order or tuple(
        kind for kind, (_, count) in enumerate(model.blocks) for _ in range(count)
    )
    return replace(model, blocks=tuple((model.blocks[kind][0], 1) for kind in kinds), order=())


@pytest.mark.parametrize("question", _QUESTIONS)
@pytest.mark.parametrize("name", _NAMES)
def test_closed_form_equals_a_loop_over_layers(name: str, question: str) -> None:
    """Recording equal layers once gives every number that recording each of them gives; or both
    refuse alike.
    """
    model, workload = _model(name), _QUESTIONS[question]

    try:
        closed = _ask(model, workload)
    except (InvalidInputError, NotModelledError) as refusal:
        with pytest.raises(type(refusal), match=f"^{refusal.message[:20]}"):
            _ask(_unrolled(model), workload)
        return

    assert closed == _ask(_unrolled(model), workload)
    assert sum(component.bytes for component in closed.components) == closed.device_bytes


@pytest.mark.parametrize("name", _SHARDED)
def test_sharding_in_closed_form_equals_a_loop(name: str) -> None:
    """FSDP2 gathers unit by unit, whatever the units are."""
    model, layout = _model(name), a_sharded_layout(4, sharding=Sharding.FSDP2)

    assert _ask(model, _QUESTIONS["checkpointed"], layout) == _ask(
        _unrolled(model), _QUESTIONS["checkpointed"], layout
    )


@pytest.mark.parametrize("name", _NAMES)
def test_a_family_describes_itself(name: str) -> None:
    """A model's own specification reads back as the same model."""
    model = load_architecture(resolve_model(name))

    again = architecture_from_spec(model.describe())

    assert again.fingerprint() == model.fingerprint()
    assert again.parameter_counts() == model.parameter_counts()


@pytest.mark.parametrize("name", _NAMES)
def test_layers_of_a_family_add_up(name: str) -> None:
    """Embedding, final norm and head are what is left when the blocks are taken away, whatever the
    depth.
    """
    model = load_architecture(resolve_model(name))
    cut = model.with_layers(1)

    assert cut.parameter_counts().outside_blocks == model.parameter_counts().outside_blocks
    assert model.with_layers(model.num_hidden_layers).parameter_counts() == model.parameter_counts()
