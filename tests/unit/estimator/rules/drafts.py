"""Draft models of questions that break rules."""

import json
from dataclasses import replace

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.weights.gguf_bytes import GgufBytes, LayerBytes
from tests.tiny_models import tiny_config


def describe_gguf_draft() -> str:
    """Return a small draft model from a GGUF file, as our own specification."""
    model = architecture_from_config(tiny_config("llama"))
    layers = tuple(LayerBytes(0, 64, 32) for _ in range(model.num_hidden_layers))
    held = GgufBytes(table=64, head=64, outside=0, by_layer=layers)
    return json.dumps(replace(model, gguf=held).describe())
