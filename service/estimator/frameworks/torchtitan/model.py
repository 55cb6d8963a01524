"""A model as torchtitan runs it: the same weights, its own forward."""

from dataclasses import replace

from service.estimator.architecture import Architecture
from service.estimator.dtypes import DType
from service.estimator.errors import NotModelledError
from service.estimator.frameworks.torchtitan.blocks import TitanBlock
from service.estimator.modules.attention import Attention
from service.estimator.modules.block import Block
from service.estimator.modules.feedforward import GatedFeedForward
from service.estimator.workload import Checkpointing, TrainWorkload

FAMILIES = ("llama", "qwen3")
"""Families of torchtitan's own models that are read here: ``models/llama3`` and the dense ones of ``models/qwen3``."""


def in_torchtitan(model: Architecture, workload: TrainWorkload, *, ranks: int = 1) -> Architecture:
    """Return the model with torchtitan's blocks; raise NotModelledError for one that it has none of here.

    ``ranks``: context-parallel ranks that a sequence is split over.
    """
    if model.family not in FAMILIES:
        raise NotModelledError(f"{model.family} in torchtitan", field="workload.framework", modelled=FAMILIES)
    per_operation = workload.activation_checkpointing is Checkpointing.SELECTIVE and workload.selective_every is None
    blocks = tuple((_block(block, workload, selects=per_operation, ranks=ranks), count) for block, count in model.blocks)
    return replace(model, blocks=blocks, masks=(), rotary_tables=(model.spec.head_dim,), rotary_dtype=DType.FP32)


def _block(block: object, workload: TrainWorkload, *, selects: bool, ranks: int) -> TitanBlock:
    assert isinstance(block, Block)  # noqa: S101 - the families above are made of these
    assert isinstance(block.attention, Attention)  # noqa: S101 - likewise
    assert isinstance(block.feed_forward, GatedFeedForward)  # noqa: S101 - likewise
    return TitanBlock(
        attention_norm=block.attention_norm,
        attention=block.attention,
        feed_forward_norm=block.feed_forward_norm,
        feed_forward=block.feed_forward,
        selects=selects,
        compiled=workload.compile,
        ranks=ranks,
    )
