"""Words about who generates for a policy, and who values it.

Names are those of the HTTP contract.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.losses import REFERRING_TRAINERS, Reference, Trainer

MAX_SLEEP_LEVEL = 2
"""vLLM's: 1 keeps the weights on the host, 2 drops them."""


class Client(StrEnum):
    """Caller of a model that transformers serves."""

    GENERATE = "generate"
    """``model.generate()``, with tensors of its own around each pass"""
    LOOP = "loop"
    """a loop of forward passes, of which the last position's logits are read"""


class Sampling(StrEnum):
    """Choice of the next token by ``generate``."""

    GREEDY = "greedy"
    SAMPLE = "sample"
    """``do_sample=True``: one of the 50 likeliest tokens, as its ``top_k`` is by default"""


class RolloutEngine(StrEnum):
    """Engine that generates completions."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRANSFORMERS = "transformers"
    """the policy's own ``generate()``, on the weights that are trained"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Engine of a policy, with its share of each GPU.

    ``num_sequences`` is what one rank's engine is given at once.
    """

    engine: RolloutEngine = RolloutEngine.VLLM
    engine_version: str | None = None
    num_sequences: int = 1
    gpu_memory_fraction: float | None = None
    tensor_parallel: int = 1
    sleep_level: int = 0
    """What the engine gives back while the trainer works: 0 is nothing."""
    weight_dtype: DType = DType.BF16
    kv_cache_dtype: DType = DType.BF16
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_sequences: int | None = None
    enforce_eager: bool = False
    own_process: bool = False
    """Whether the engine runs beside the trainer's process, with a CUDA context of its own."""
    offload_parameters: bool = False
    """Whether the trainer's weights are on the host while the engine, or a critic, works."""
    offload_optimizer: bool = False
    """Whether the optimizer's states are on the host but for the update."""
    bucket_bytes: int = 0
    """Buffer in which weights are sent to the engine."""

    def __post_init__(self) -> None:
        """Refuse counts below one and an unknown level of sleep."""
        for name in ("num_sequences", "tensor_parallel"):
            if getattr(self, name) < 1:
                message = f"{name} is {getattr(self, name)}; it must be 1 or more"
                raise InvalidInputError(message, field=f"workload.rollout.{name}")
        is_policy = self.engine is RolloutEngine.TRANSFORMERS
        if is_policy and (self.sleep_level or self.gpu_memory_fraction is not None):
            message = (
                "rollout.engine transformers generates with the trained weights: it has neither a "
                "sleep_level nor a gpu_memory_fraction"
            )
            raise InvalidInputError(message, field="workload.rollout.engine")
        if not 0 <= self.sleep_level <= MAX_SLEEP_LEVEL:
            message = f"sleep_level is {self.sleep_level}; it is 0, 1 or {MAX_SLEEP_LEVEL}"
            raise InvalidInputError(message, field="workload.rollout.sleep_level")


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """Value model of a policy, on the same GPUs (arXiv:1707.06347).

    ``config`` is its config.json as text, ``spec`` our own specification of one that came
    otherwise; both None for the policy's own architecture. ``name`` is its name in the catalogue.
    None of the others is as the policy has it.
    """

    config: str | None = None
    spec: str | None = None
    name: str | None = None
    adapters: bool = False
    """Whether it has the policy's kind of adapters; else all of its weights are trained."""
    micro_batch_size: int | None = None
    sequence_length: int | None = None
    values_batch_size: int | None = None
    """Sequences of a forward pass alone; None is a micro batch."""
    checkpointed: bool | None = None
    """Whether its layers are computed again in backward."""
    offload_parameters: bool = False
    """Whether its weights are on the host while others work."""
    offload_optimizer: bool = False
    """Whether its optimizer's states are on the host but for its update."""
    own_process: bool = False
    """Whether it runs beside the policy's process, with a CUDA context of its own."""

    def __post_init__(self) -> None:
        """Refuse counts below one."""
        for name in ("micro_batch_size", "sequence_length", "values_batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                message = f"{name} is {value}; it must be 1 or more"
                raise InvalidInputError(message, field=f"workload.critic.{name}")


class PolicyFields(Protocol):
    """Fields of a workload that decide what a policy's training has."""

    @property
    def trainer(self) -> Trainer:
        """Kind of training."""

    @property
    def reference(self) -> Reference | None:
        """Source of the reference's log-probabilities."""

    @property
    def sequence_length(self) -> int:
        """Tokens of a sequence."""

    @property
    def completion_length(self) -> int | None:
        """Generated tokens of a sequence."""

    @property
    def log_prob_batch_size(self) -> int | None:
        """Sequences of a forward pass alone."""

    @property
    def entropy_bonus(self) -> bool:
        """Whether the loss has the entropy in it."""

    @property
    def rollout(self) -> Rollout | None:
        """Engine on the same GPUs."""

    @property
    def critic(self) -> Critic | None:
        """Value model on the same GPUs."""


def check_policy(workload: PolicyFields) -> None:
    """Refuse what only trainers of a policy, or of a preference, have.

    Raises InvalidInputError.
    """
    trainer, reference = workload.trainer, workload.reference
    is_policy, length = trainer is Trainer.GRPO, workload.completion_length
    if (reference is not None) != (trainer in REFERRING_TRAINERS) and not is_policy:
        message = (
            f"reference {reference} with trainer {trainer}: dpo and kto have one, grpo may have one"
        )
        raise InvalidInputError(message, field="workload.reference")
    if reference is Reference.OFFLOADED and not is_policy:
        message = f"reference offloaded with trainer {trainer}: it is grpo's; say model"
        raise InvalidInputError(message, field="workload.reference")
    if is_policy and reference is Reference.PRECOMPUTED:
        message = "reference precomputed with trainer grpo, whose sequences are new: say model"
        raise InvalidInputError(message, field="workload.reference")
    for name in ("completion_length", "log_prob_batch_size", "rollout", "critic", "entropy_bonus"):
        if getattr(workload, name) not in {None, False} and not is_policy:
            message = f"{name} is trainer grpo's, and trainer is {trainer}"
            raise InvalidInputError(message, field=f"workload.{name}")
    if is_policy and workload.sequence_length == 1:
        message = (
            "sequence_length is 1 with trainer grpo; a token of the prompt and one of the "
            "completion are 2"
        )
        raise InvalidInputError(message, field="workload.sequence_length")
    if length is not None and not 1 <= length < workload.sequence_length:
        message = (
            f"completion_length is {length:,} of a sequence_length of "
            f"{workload.sequence_length:,} tokens; at least one token of each is the prompt's"
        )
        raise InvalidInputError(message, field="workload.completion_length")
