"""Split of a pipeline over its stages, and its schedule."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError

_FIRST, _LAST = "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"
_EMBEDDING = "account_for_embedding_in_pipeline_split"
_LOSS = "account_for_loss_in_pipeline_split"


class PipelineSchedule(StrEnum):
    """Order of a pipeline's forward and backward passes."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved_1f1b"
    LOOPED_BFS = "looped_bfs"
    INTERLEAVED_ZERO_BUBBLE = "interleaved_zero_bubble"
    ZBV = "zbv_zero_bubble"
    DUAL_PIPE_V = "dual_pipe_v"


V_SHAPED = frozenset({PipelineSchedule.ZBV, PipelineSchedule.DUAL_PIPE_V})
"""Schedules of two chunks a stage, the second of which comes back: stage i has i and 2p - 1 - i."""
ONE_CHUNK = frozenset({PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B})
"""Schedules of one chunk a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSplit:
    """Split of layers over the stages of a pipeline, by default even.

    Fields have the names of requests, which are those of Megatron-LM (``transformer_config.py``),
    DeepSpeed (``runtime/pipe/module.py``) and torchtitan (``config/job_config.py``).
    """

    pipeline_layers: tuple[int, ...] | None = None
    """Layers of each chunk in the order of the model: of each stage where none interleaves."""
    num_layers_in_first_pipeline_stage: int | None = None
    num_layers_in_last_pipeline_stage: int | None = None
    account_for_embedding_in_pipeline_split: bool = False
    account_for_loss_in_pipeline_split: bool = False
    pipeline_model_parallel_layout: str | None = None
    partition_method: str | None = None
    pipeline_parallel_layers_per_stage: int | None = None
    pipeline_parallel_first_stage_less_layers: int | None = None
    pipeline_parallel_last_stage_less_layers: int | None = None

    def __post_init__(self) -> None:
        """Refuse two ways to split at once."""
        groups = {index for index, way in enumerate(_WAYS) if set(way) & set(self.names)}
        if len(groups) > 1:
            joined = " and ".join(self.names)
            message = f"{joined} are different ways to split the layers: say one of them"
            raise InvalidInputError(message, field=f"layout.{self.names[-1]}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that say something."""
        every = (name for group in _WAYS for name in group)
        return tuple(name for name in every if not _is_unset(getattr(self, name)))

    @property
    def field(self) -> str:
        """Request field that says the split, ``layout.pipeline_parallel`` where none does."""
        return f"layout.{next(iter(self.names), 'pipeline_parallel')}"


def _is_unset(value: object) -> bool:
    return value is None or value is False


_WAYS = (
    ("pipeline_layers",),
    (_FIRST, _LAST),
    (_EMBEDDING, _LOSS),
    ("pipeline_model_parallel_layout",),
    ("partition_method",),
    (
        "pipeline_parallel_layers_per_stage",
        "pipeline_parallel_first_stage_less_layers",
        "pipeline_parallel_last_stage_less_layers",
    ),
)
EVEN = PipelineSplit()
"""As many layers on every stage."""
