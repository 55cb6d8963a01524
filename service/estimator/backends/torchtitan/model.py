"""Model as torchtitan runs it.

It has the same weights and its own forward.
"""

from dataclasses import fields, replace
from typing import Any, Protocol, TypeGuard, TypeVar, cast

from service.estimator.backends.torchtitan.blocks import TitanBlock
from service.estimator.model.architecture import Architecture
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.layers.layers import SequentialLayer
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.tensor_parallel.local import local_architecture
from service.estimator.model.tensor_parallel.split_plan import TORCHTITAN
from service.estimator.model.weights.tensors import Linear, Norm, Split
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.workload import Checkpointing, TrainWorkload

_ROTATES_HALVES = frozenset({"qwen3"})
"""Families that rotate by cosine and sine of their own, not by complex exponentials
(``models/qwen3/model/model.py``).
"""
_PROJECTIONS = 3
_M = TypeVar("_M", Attention, SelfAttention, Attention | SelfAttention, GatedFeedForward)


def build_torchtitan_model(
    model: Architecture, workload: TrainWorkload, *, context_ranks: int = 1, tensor_ranks: int = 1
) -> Architecture:
    """Return a rank's shard of the model with torchtitan's blocks.

    ``context_ranks`` split a sequence in context parallelism, ``tensor_ranks`` the weights in
    tensor parallelism. Raises NotModelledError for a model that torchtitan has not, or that is not
    modelled here.
    """
    per_operation = (
        workload.activation_checkpointing is Checkpointing.SELECTIVE
        and workload.selective_every is None
    )
    halves = model.family in _ROTATES_HALVES
    local_model = local_architecture(model, tensor_ranks, TORCHTITAN)
    blocks = tuple(
        (
            _build_block(
                local_model,
                block,
                workload,
                selects=per_operation,
                context_ranks=context_ranks,
                halves=halves,
                tensor_ranks=tensor_ranks,
            ),
            count,
        )
        for block, count in local_model.blocks
    )
    tables = (model.spec.head_dim,) * (2 if halves else 1)
    walker = ("backends.torchtitan.step", "RankStep") if tensor_ranks > 1 else None
    return replace(
        local_model,
        blocks=blocks,
        masks=(),
        rotary_tables=tables,
        rotary_dtype=DType.FP32,
        walker=walker,
    )


def _build_block(  # noqa: PLR0913 - each a choice of one block
    model: Architecture,
    block: object,
    workload: TrainWorkload,
    *,
    selects: bool,
    context_ranks: int,
    halves: bool,
    tensor_ranks: int,
) -> TitanBlock:
    if not _is_supported(block):
        what = f"a {model.family} with biases, windows or norms that torchtitan's has not"
        raise NotModelledError(
            what, field="model", modelled=["full attention and layers without biases"]
        )
    return TitanBlock(
        attention_norm=block.attention_norm,
        attention=_unsplit_linears(block.attention),
        feed_forward_norm=block.feed_forward_norm,
        feed_forward=_unsplit_linears(block.feed_forward),
        selects=selects,
        compiled=workload.compile,
        context_ranks=context_ranks,
        tensor_ranks=tensor_ranks,
        rotates_halves=halves,
    )


def _unsplit_linears(module: _M) -> _M:
    """Return a module whose layers are plain products.

    The block gathers their inputs, and reduces their outputs.
    """
    changes: dict[str, object] = {}
    for field in fields(module):
        part = getattr(module, field.name)
        if isinstance(part, Linear):
            changes[field.name] = replace(part, split=Split.NONE, ranks=1)
        elif field.name == "projections":
            changes[field.name] = tuple(replace(layer, split=Split.NONE, ranks=1) for layer in part)
    return cast("_M", replace(cast("Any", module), **changes))


class _SupportedLayer(Protocol):
    """Interface of a layer with the parts of torchtitan's."""

    attention_norm: Norm
    attention: Attention | SelfAttention
    feed_forward_norm: Norm
    feed_forward: GatedFeedForward


def _is_supported(block: object) -> TypeGuard[_SupportedLayer]:
    """Return whether a layer has exactly the parts of torchtitan's."""
    if not isinstance(block, (Block, SequentialLayer)):
        return False
    attention, feed_forward = block.attention, block.feed_forward
    return (
        isinstance(attention, (Attention, SelfAttention))
        and isinstance(feed_forward, GatedFeedForward)
        and block.attention_norm is not None
        and block.feed_forward_norm is not None
        and attention.sliding_window is None
        and len(attention.projections) == _PROJECTIONS
        and not any(layer.bias for layer in block.linears())
    )
