"""A model as torchtitan runs it: the same weights, its own forward."""

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
from service.estimator.model.tensor_parallel.split_plan import FIELD, TORCHTITAN
from service.estimator.model.weights.tensors import Linear, Norm, Split
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.workload import Checkpointing, TrainWorkload

FAMILIES = ("llama", "qwen3")
"""Families of torchtitan's own models that are read here: ``models/llama3`` and the dense ones of ``models/qwen3``."""
_ROTATES_HALVES = frozenset({"qwen3"})
"""Those that rotate by cosine and sine of their own, not by complex exponentials (``models/qwen3/model/model.py``)."""
_PROJECTIONS = 3
_M = TypeVar("_M", Attention, SelfAttention, Attention | SelfAttention, GatedFeedForward)


def in_torchtitan(model: Architecture, workload: TrainWorkload, *, ranks: int = 1, shares: int = 1) -> Architecture:
    """Return a rank's share of the model with torchtitan's blocks; raise NotModelledError for one that it has none of here.

    ``ranks``: context-parallel ranks that a sequence is split over; ``shares``: tensor-parallel ones.
    """
    if model.family not in FAMILIES:
        raise NotModelledError(f"{model.family} in torchtitan", field="workload.framework", modelled=FAMILIES)
    if shares > 1 and model.tied:
        what = "tensor_parallel of a head that is the embedding's table"
        raise NotModelledError(what, field=FIELD, modelled=["1", "models with a head of their own"])
    per_operation = workload.activation_checkpointing is Checkpointing.SELECTIVE and workload.selective_every is None
    halves = model.family in _ROTATES_HALVES
    share = local_architecture(model, shares, TORCHTITAN)
    blocks = tuple(
        (_block(share, block, workload, selects=per_operation, ranks=ranks, halves=halves, shares=shares), count)
        for block, count in share.blocks
    )
    tables = (model.spec.head_dim,) * (2 if halves else 1)
    walker = ("backends.torchtitan.step", "RankStep") if shares > 1 else None
    return replace(share, blocks=blocks, masks=(), rotary_tables=tables, rotary_dtype=DType.FP32, walker=walker)


def _block(  # noqa: PLR0913 - each a choice of one block
    model: Architecture, block: object, workload: TrainWorkload, *, selects: bool, ranks: int, halves: bool, shares: int
) -> TitanBlock:
    if not _is_plain(block):
        what = f"a {model.family} with biases, windows or norms that torchtitan's has not"
        raise NotModelledError(what, field="model", modelled=["full attention and layers without biases"])
    return TitanBlock(
        attention_norm=block.attention_norm,
        attention=_plainly(block.attention),
        feed_forward_norm=block.feed_forward_norm,
        feed_forward=_plainly(block.feed_forward),
        selects=selects,
        compiled=workload.compile,
        ranks=ranks,
        shares=shares,
        rotates_halves=halves,
    )


def _plainly(module: _M) -> _M:
    """Return a module whose layers are products alone: the block gathers what they read, and adds up what they make."""
    changes: dict[str, object] = {}
    for field in fields(module):
        part = getattr(module, field.name)
        if isinstance(part, Linear):
            changes[field.name] = replace(part, split=Split.NONE, ranks=1)
        elif field.name == "projections":
            changes[field.name] = tuple(replace(layer, split=Split.NONE, ranks=1) for layer in part)
    return cast("_M", replace(cast("Any", module), **changes))


class _Plain(Protocol):
    """A layer with the parts that torchtitan's have."""

    attention_norm: Norm
    attention: Attention | SelfAttention
    feed_forward_norm: Norm
    feed_forward: GatedFeedForward


def _is_plain(block: object) -> TypeGuard[_Plain]:
    """Tell whether a layer has the parts that torchtitan's have, and no others."""
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
