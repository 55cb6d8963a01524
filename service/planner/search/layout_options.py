"""Layout options of a search and the batches that run in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Offload, Quantization
from service.planner.search.strategies import Strategy

CHECKPOINTING_BY_INDEX = (Checkpointing.FULL, Checkpointing.SELECTIVE, Checkpointing.NONE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayoutOption:
    """One layout in one strategy, without batch and recomputation.

    A space has one object for each.
    """

    strategy: Strategy
    layout: Layout
    offload: Offload
    quantization: Quantization | None = None


class Batch(NamedTuple):
    """Sizes that decide a layout's activations.

    The smaller each, the smaller they are; ``micro_batches_in_flight`` are in a pipeline at once.
    """

    checkpointing_index: int
    micro_batch_size: int
    micro_batches_in_flight: int
    gradient_accumulation_steps: int

    @property
    def keeps_everything(self) -> bool:
        """Whether backward recomputes nothing."""
        return self.checkpointing_index == len(CHECKPOINTING_BY_INDEX) - 1

    def with_micro_batch_size(self, micro_batch_size: int) -> "Batch":
        """Return the same batch with another number of sequences at once."""
        return Batch(
            self.checkpointing_index,
            micro_batch_size,
            self.micro_batches_in_flight,
            self.gradient_accumulation_steps,
        )

    def dominates(self, other: "Batch") -> bool:
        """Return whether this needs at least the memory of another batch.

        Both are of the same option.
        """
        return (
            self.checkpointing_index >= other.checkpointing_index
            and self.micro_batch_size >= other.micro_batch_size
            and self.micro_batches_in_flight >= other.micro_batches_in_flight
            and (self.gradient_accumulation_steps > 1) >= (other.gradient_accumulation_steps > 1)
        )


def build_cheapest_batch(batches: Sequence[Batch]) -> Batch:
    """Return a batch that bounds the time per token from below.

    It has the largest of everything, and nothing is computed again.
    """
    return Batch(
        checkpointing_index=max(batch.checkpointing_index for batch in batches),
        micro_batch_size=max(batch.micro_batch_size for batch in batches),
        micro_batches_in_flight=1,
        gradient_accumulation_steps=max(batch.gradient_accumulation_steps for batch in batches),
    )


def rank_complexity(option: LayoutOption, batch: Batch) -> tuple[int, int, int, int]:
    """Return a rank of a configuration, the simplest first."""
    layout = option.layout
    return (
        (layout.tensor_parallel > 1)
        + (layout.pipeline_parallel > 1)
        + (layout.context_parallel > 1)
        + (layout.expert_parallel > 1),
        2 - batch.checkpointing_index,
        layout.zero_stage,
        batch.micro_batch_size,
    )


def get_kind(option: LayoutOption, batch: Batch) -> object:
    """Return the kind of a configuration.

    A plan shows one of each: strategy, recomputation, and of a server its replicas.
    """
    return (
        option.strategy.name,
        option.layout.data_parallel if option.strategy.framework is None else None,
        option.layout.zero_stage,
        option.offload,
        option.quantization,
        batch.checkpointing_index,
    )


def get_length_group(option: LayoutOption, batch: Batch) -> object:
    """Return the key of options that differ in sequence splitting only.

    They differ in context-parallel ranks and in how many ranks share a sequence alone.
    """
    layout = option.layout
    degrees = (
        layout.tensor_parallel,
        layout.pipeline_parallel,
        layout.expert_parallel,
        layout.shards,
        layout.zero_stage,
    )
    return option.strategy.name, degrees, option.offload, option.quantization, batch


def get_shard_group(option: LayoutOption, batch: Batch) -> object:
    """Return the key of options that differ in state shards only.

    They differ in how many ranks share their states, and in nothing else.
    """
    layout = option.layout
    degrees = (
        layout.tensor_parallel,
        layout.pipeline_parallel,
        layout.expert_parallel,
        layout.context_parallel,
    )
    return option.strategy.name, degrees, layout.zero_stage, option.offload, batch
