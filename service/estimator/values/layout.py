"""Layout of one job over GPUs."""

from dataclasses import dataclass
from enum import StrEnum
from sys import maxsize

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.pipeline import (
    EVEN,
    ONE_CHUNK,
    V_SHAPED,
    PipelineSchedule,
    PipelineSplit,
)

MAX_ZERO_STAGE = 3


class Sharding(StrEnum):
    """Library that shards the states over the data-parallel ranks."""

    DDP = "ddp"
    FSDP1 = "fsdp1"
    FSDP2 = "fsdp2"
    DEEPSPEED = "deepspeed"
    MEGATRON = "megatron"


class ContextMethod(StrEnum):
    """Method by which ranks share a sequence in attention."""

    RING = "ring"
    ULYSSES = "ulysses"


FULLY_SHARDED = frozenset({Sharding.FSDP1, Sharding.FSDP2})
"""PyTorch's own, by flat parameters (``FullyShardedDataParallel``) and by tensors
(``fully_shard``): stage 3 alone.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of parallelism of one job.

    Its ranks are their product (expert parallelism regroups data and context ranks).
    """

    data_parallel: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    context_parallel_method: ContextMethod = ContextMethod.RING
    zero_stage: int = 0
    sharding: Sharding = Sharding.DDP
    sequence_parallel: bool = False
    reshard_after_forward: bool = True
    gpus_per_node: int = 8
    expert_tensor_parallel: int | None = None
    """Ranks that split one expert; None is ``tensor_parallel``, and with 1 experts spread over
    tensor x data ranks.
    """
    virtual_pipeline_stages: int = 1
    pipeline_split: PipelineSplit = EVEN
    pipeline_schedule: PipelineSchedule | None = None
    """None is 1F1B, interleaved where stages have several chunks."""
    shard_embeddings_separately: bool = False
    shard_size: int | None = None
    """Ranks that share one copy of the states (hybrid sharding); None is all of them."""
    network_bytes_per_second: int | None = None
    """Rate of one node's network in one direction; None is the usual rate of such nodes."""
    host_memory_bytes: int | None = None
    """Memory of one node, which offloaded states and pinned buffers must fit in; None is not
    checked.
    """
    nvme_bytes: int | None = None
    """NVMe of one node, which states and parameters that are offloaded to it must fit on; None is
    not checked.
    """

    def __post_init__(self) -> None:
        """Refuse impossible degrees and stages.

        These are degrees below one, unknown stages, and a stage that the sharding cannot run.
        """
        for name in (
            "data_parallel",
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
            "expert_parallel",
            "gpus_per_node",
            "virtual_pipeline_stages",
        ):
            value = getattr(self, name)
            if value < 1:
                message = f"{name} is {value}; it must be 1 or more"
                raise InvalidInputError(message, field=f"layout.{name}")
        if not 0 <= self.zero_stage <= MAX_ZERO_STAGE:
            message = f"zero_stage is {self.zero_stage}; it must be 0, 1, 2 or 3"
            raise InvalidInputError(message, field="layout.zero_stage")
        if self.sharding in FULLY_SHARDED and self.zero_stage != MAX_ZERO_STAGE:
            what = f"sharding {self.sharding.value!r} shards parameters, gradients and states"
            message = f"{what}: zero_stage is 3, not {self.zero_stage}"
            raise InvalidInputError(message, field="layout.zero_stage")
        if self.sharding is Sharding.DDP and self.zero_stage:
            message = (
                f"sharding 'ddp' replicates everything, but zero_stage is {self.zero_stage}; use "
                "'deepspeed' or 'fsdp2'"
            )
            raise InvalidInputError(message, field="layout.sharding")
        self._check_pipeline()
        self._check_regrouping()

    def _check_pipeline(self) -> None:
        """Refuse splits and schedules of other stages than the layout's."""
        split, virtual = self.pipeline_split, self.virtual_pipeline_stages
        if self.pipeline_parallel == 1 and (split != EVEN or self.pipeline_schedule is not None):
            field = split.field if split != EVEN else "layout.pipeline_schedule"
            message = (
                f"{field.removeprefix('layout.')} is of a pipeline, but pipeline_parallel is 1"
            )
            raise InvalidInputError(message, field=field)
        counts, chunks = split.pipeline_layers, self.pipeline_parallel * virtual
        if counts is not None and len(counts) != chunks:
            message = (
                f"pipeline_layers has {len(counts)} numbers, but pipeline_parallel "
                f"{self.pipeline_parallel} x virtual_pipeline_stages {virtual} is {chunks} chunks"
            )
            raise InvalidInputError(message, field="layout.pipeline_layers")
        wanted = _list_chunks_per_stage(self.schedule)
        if virtual not in wanted:
            some = f"{wanted[0]}" if len(wanted) == 1 else f"{wanted[0]} or more"
            message = (
                f"pipeline_schedule {self.schedule.value} has virtual_pipeline_stages {some}, not "
                f"{virtual}"
            )
            raise InvalidInputError(message, field="layout.pipeline_schedule")

    def _check_regrouping(self) -> None:
        if self.sequence_parallel and self.tensor_parallel == 1:
            message = (
                "sequence_parallel splits the sequence over tensor-parallel ranks, but "
                "tensor_parallel is 1"
            )
            raise InvalidInputError(message, field="layout.sequence_parallel")
        ranks = self.data_parallel * self.context_parallel
        spread, remainder = divmod(
            ranks * self.tensor_parallel, self.expert_tensor_parallel or self.tensor_parallel
        )
        if remainder or spread % self.expert_parallel:
            over = "data_parallel x context_parallel"
            if self.expert_tensor_parallel not in {None, self.tensor_parallel}:
                over += f" x tensor_parallel / expert_tensor_parallel {self.expert_tensor_parallel}"
            message = f"expert_parallel {self.expert_parallel} does not divide {over} = {spread}"
            raise InvalidInputError(message, field="layout.expert_parallel")
        if self.shard_size is not None and ranks % self.shard_size:
            message = (
                f"shard_size {self.shard_size} does not divide data_parallel x context_parallel = "
                f"{ranks}"
            )
            raise InvalidInputError(message, field="layout.shard_size")

    @property
    def num_gpus(self) -> int:
        """GPUs of the whole job."""
        return (
            self.data_parallel
            * self.tensor_parallel
            * self.pipeline_parallel
            * self.context_parallel
        )

    @property
    def schedule(self) -> PipelineSchedule:
        """Schedule of the pipeline: that of the question, or 1F1B."""
        if self.pipeline_schedule is not None:
            return self.pipeline_schedule
        return (
            PipelineSchedule.ONE_F_ONE_B
            if self.virtual_pipeline_stages == 1
            else PipelineSchedule.INTERLEAVED
        )

    @property
    def shards(self) -> int:
        """Ranks that ZeRO spreads the states over."""
        return self.shard_size or self.data_parallel * self.context_parallel


def _list_chunks_per_stage(schedule: PipelineSchedule) -> range:
    """Return the numbers of chunks that a stage may have."""
    if schedule in ONE_CHUNK:
        return range(1, 2)
    return range(2, 3 if schedule in V_SHAPED else maxsize)
