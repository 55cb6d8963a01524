"""Modules that stay unquantised are found by the names that checkpoints have for them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.quantization.configs import read_quantization
from service.estimator.model.quantization.fields import FIELD
from service.estimator.model.quantization.weights import iter_placements


def compressed(*ignored: str) -> Mapping[str, object]:
    """Return a quantization_config of 8-bit integers that leaves some modules alone."""
    group = {
        "targets": ["Linear"],
        "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "ignore": list(ignored),
        "config_groups": {"group_0": group},
    }


@pytest.mark.parametrize(
    ("model", "ignored", "kept"),
    [
        (
            "llava-1.5-7b",
            "vision_tower.vision_model.encoder.layers.3.mlp.fc1",
            {"vision.3.mlp.fc1"},
        ),
        (
            "llava-1.5-7b",
            "model.vision_tower.vision_model.encoder.layers.3.mlp.fc1",
            {"vision.3.mlp.fc1"},
        ),
        (
            "gemma-3-4b",
            "re:.*vision_tower.*layers\\.0\\.mlp.*",
            {"vision.0.mlp.fc1", "vision.0.mlp.fc2"},
        ),
        ("qwen2.5-vl-7b", "visual.blocks.31.attn.qkv", {"visual.31.attn.qkv"}),
        (
            "mistral-small-3.1-24b",
            "model.multi_modal_projector.linear_2",
            {"multi_modal_projector.linear_2"},
        ),
        ("mistral-small-3.1-24b", "language_model.lm_head", {"lm_head"}),
        ("mistral-small-3.1-24b", "language_model.model.layers.7.mlp.up_proj", {"mlp.up_proj"}),
        ("mistral-small-3.1-24b", "model.language_model.layers.7.mlp.up_proj", {"mlp.up_proj"}),
        ("llama-3.1-8b", "language_model.lm_head", set()),
    ],
)
def test_a_list_of_either_generation_is_read(model: str, ignored: str, kept: set[str]) -> None:
    """The same modules stay under the names of transformers 4 and 5, and a model of text alone has
    no others.
    """
    plain = load_config(resolve_model(model))

    every, fewer = (
        _kept({**plain, "quantization_config": compressed(*names)}) for names in ((), (ignored,))
    )

    assert fewer - every == {f"{name}.weight" for name in kept}


def test_layers_of_a_recording_are_found_in_their_whole_model() -> None:
    """A recording has the names within a layer; lists say the path to it."""
    recorded = load_architecture(resolve_model("google/gemma-4-31B-it"))
    ignored = ("re:model\\.language_model\\.layers\\.3\\.mlp.*",)
    schemes = [read_quantization({FIELD: compressed(*names)}) for names in ((), ignored)]

    every, fewer = (_list_kept(replace(recorded, quantization=scheme)) for scheme in schemes)

    assert fewer - every == {f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")}


def _kept(config: Mapping[str, object]) -> set[str]:
    """Return the names of the weights that stay in some layer."""
    return _list_kept(architecture_from_config(config))


def _list_kept(model: Architecture) -> set[str]:
    assert model.quantization is not None
    return {
        placed.weight.name
        for placed in iter_placements(model, model.quantization)
        if placed.num_unpacked
    }
