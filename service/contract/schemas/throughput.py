"""What an answer says about time."""

from typing import Annotated

from msgspec import Meta

from service.contract.schemas.fields import Answer
from service.estimator.values.result import Bound


class ThroughputAnswer(Answer, frozen=True, kw_only=True):
    """How long one optimizer step takes, or one decode step with the full cache, at rates that such
    GPUs were seen to reach.
    """

    step_time_s: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    mfu: float
    hours_for_tokens: Annotated[float | None, Meta(description="Hours for the run's `num_tokens`.")]
    prefill_time_s: Annotated[
        float | None, Meta(description="Serving: seconds until the prompts are read.")
    ]
    host_time_s: Annotated[
        float, Meta(description="Seconds that the host needs to launch the kernels of a step.")
    ]
    gpu_time_s: Annotated[
        float, Meta(description="Seconds that the GPU needs to run them, without waiting.")
    ]
    bound: Annotated[Bound, Meta(description="The side that decides how long a step takes.")]
    bound_reason: Annotated[
        str,
        Meta(
            description="Why, and what would help.",
            examples=["the GPU decides: it works 330 ms a step, the host launches in 150 ms"],
        ),
    ]
    basis: str
