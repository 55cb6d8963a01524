"""A GGUF file as a model.

Its tree comes from the metadata, its bytes from the tensors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidConfigError
from service.formats.checkpoints.gguf_config import read_gguf_config
from service.formats.checkpoints.gguf_document import GgufModel
from service.formats.checkpoints.gguf_sums import get_layer, place_tensors

_ROTARY = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""Factors of rotary positions, which are no parameters."""


def build_gguf_architecture(document: Mapping[str, object]) -> Architecture:
    """Return the architecture of a document with its own bytes.

    Raises EstimatorError for what no family can read.
    """
    model = GgufModel.parse(document)
    try:
        architecture = architecture_from_config(read_gguf_config(model))
    except InvalidConfigError as error:
        error.field = f"metadata ({error.field})" if error.field else "metadata"
        raise
    return replace(architecture, gguf=place_tensors(model, architecture.num_hidden_layers))


def list_gguf_differences(model: GgufModel, architecture: Architecture) -> Iterator[str]:
    """Yield differences of elements between file and tree."""
    layers = architecture.num_hidden_layers
    spare = [tensor for tensor in model.tensors if (get_layer(tensor.name) or 0) >= layers]
    spare_names = {tensor.name for tensor in spare}
    if spare:
        size = sum(tensor.bytes for tensor in spare)
        yield f"layers from {layers} on predict further tokens and are not loaded: {size:,} bytes"
    num_elements = sum(
        tensor.num_elements
        for tensor in model.tensors
        if tensor.name not in _ROTARY
        and tensor.name not in spare_names
        and not (architecture.tied and tensor.name == "output.weight")
    )
    expected = architecture.parameter_counts().total
    if num_elements != expected:
        yield (
            f"the file's tensors have {num_elements:,} elements where a {architecture.family} of "
            f"its metadata has {expected:,}: its bytes are counted as they are"
        )
