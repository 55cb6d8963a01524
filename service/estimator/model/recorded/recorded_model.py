"""A recorded model: its weights, and its passes as programs."""

from dataclasses import dataclass

from service.estimator.model.recorded.program import Instruction, Program, ValueSpec
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLayer:
    """One kind of layer, its weights named as in it."""

    weights: tuple[Weight, ...]
    linears: tuple[Linear, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPass:
    """A forward pass with its backward, in one variant of number formats.

    ``blocks`` are the programs by kind of layer, ``block_inputs`` the outer values that each reads.
    ``prologue`` leads to ``x``, ``epilogue`` from ``output`` of the last layer to ``hidden``, which
    the head reads, ``tail`` from there to ``loss``. ``holds_x``: a name of ``x`` stays until the
    layers are through. ``layer_args`` are what layers are called with beside it.
    """

    values: tuple[ValueSpec, ...]
    num_storages: int
    inputs: tuple[int, ...]
    prologue: tuple[Instruction, ...]
    x: int
    holds_x: bool
    layer_args: tuple[int, ...]
    blocks: tuple[Program, ...]
    block_inputs: tuple[tuple[int, ...], ...]
    output: int
    epilogue: tuple[Instruction, ...]
    hidden: int
    tail: tuple[Instruction, ...]
    loss: int
    returned: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModel:
    """A model type's implementation as it ran, without its weights."""

    spec: DecoderSpec
    model_type: str
    model_class: str
    transformers: str
    torch: str
    layers: tuple[RecordedLayer, ...]
    order: tuple[int, ...]
    outer_weights: tuple[Weight, ...]
    outer_linears: tuple[Linear, ...]
    embedding: str
    head: str
    buffer_bytes: int
    digest: str
    passes: dict[str, RecordedPass]
    """By variant: ``fp32``, ``half``, ``autocast``; ``…/frozen`` where no weight is trained."""
