"""Questions of a search: what is fixed, bounded and allowed."""

from dataclasses import dataclass

from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.planner.fit.confidence import check_confidence

DEFAULT_MAX_GPUS = 1024
MAX_MICRO_BATCH_SIZE = 64
TIME_LIMITS = (
    "max_step_time_s",
    "max_hours",
    "max_prefill_time_s",
    "max_time_per_output_token_s",
    "min_tokens_per_second",
)
_TRAINING_LIMITS = ("global_batch_size", "max_step_time_s", "max_hours")
_SERVING_LIMITS = ("max_prefill_time_s", "max_time_per_output_token_s", "min_num_sequences")
OFFLOADING, QUANTIZING = "offload", "quantization"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a search.

    With a ``confidence`` a plan must be ``fits``, with ``None`` ``tight`` counts.

    Times are those of an optimizer step and of the whole run, or of reading the prompts and of one
    decode step.
    """

    max_gpus: int = DEFAULT_MAX_GPUS
    confidence: float | None = LEVEL
    global_batch_size: int | None = None
    max_nodes: int | None = None
    max_cost_per_hour: float | None = None
    max_step_time_s: float | None = None
    max_hours: float | None = None
    max_prefill_time_s: float | None = None
    max_time_per_output_token_s: float | None = None
    min_tokens_per_second: float | None = None
    """Of the whole job: tokens that are trained, or that all replicas put out."""
    min_num_sequences: int | None = None
    """Sequences that all replicas serve at once."""

    def __post_init__(self) -> None:
        """Refuse bounds below one."""
        for name in ("max_gpus", "max_nodes", "global_batch_size", "min_num_sequences"):
            value = getattr(self, name)
            if value is not None and value < 1:
                message = f"{name} is {value}; it must be 1 or more"
                raise InvalidInputError(message, field=f"constraints.{name}")
        for name in (*TIME_LIMITS, "max_cost_per_hour"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                message = f"{name} is {value}; it must be more than 0"
                raise InvalidInputError(message, field=f"constraints.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search for the number of GPUs.

    ``workload`` and ``layout`` hold the request's values and defaults; ``fixed`` names those of the
    request.

    ``frameworks`` names the strategies to train that may be used, None all; ``allow`` what is used
    only when it is allowed.
    """

    workload: Workload
    layout: Layout
    fixed: frozenset[str] = frozenset()
    limits: Limits = Limits()
    frameworks: frozenset[str] | None = None
    allow: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse bounds and permissions without meaning for the task.

        A search would ignore them.

        So is a confidence that its intervals do not carry.
        """
        check_confidence(self.limits.confidence, self.workload)
        serves = isinstance(self.workload, ServeWorkload)
        bounds = _TRAINING_LIMITS if serves else _SERVING_LIMITS
        task = "serve" if serves else "train"
        misplaced = [name for name in bounds if getattr(self.limits, name) is not None]
        misplaced += ["frameworks"] if serves and self.frameworks is not None else []
        for name in misplaced:
            message = f"{name} means nothing for task {task!r}"
            raise InvalidInputError(message, field=f"constraints.{name}")
        if (OFFLOADING if serves else QUANTIZING) in self.allow:
            message = (
                f"{', '.join(sorted(self.allow))} cannot be allowed for task {task!r}: offload "
                "trains, quantization serves"
            )
            raise InvalidInputError(message, field="constraints.allow")
        if (
            isinstance(self.workload, TrainWorkload)
            and self.limits.max_hours is not None
            and self.workload.num_tokens is None
        ):
            message = "max_hours needs the tokens of the run: say num_tokens"
            raise InvalidInputError(message, field="constraints.max_hours")

    @property
    def level(self) -> float:
        """The level of the intervals in the answer."""
        return LEVEL if self.limits.confidence is None else self.limits.confidence

    @property
    def counts_replicas(self) -> bool:
        """Whether the search decides the number of replicas.

        It does where the request asks for as much as several may give.
        """
        limits = self.limits
        has_rate_target = (
            limits.min_tokens_per_second is not None or limits.min_num_sequences is not None
        )
        return (
            has_rate_target
            and isinstance(self.workload, ServeWorkload)
            and self.is_open("data_parallel")
        )

    def is_open(self, name: str) -> bool:
        """Return whether the search may vary a field."""
        return name not in self.fixed
