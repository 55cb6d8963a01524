"""Answer of POST /v1/explain."""

from typing import Annotated

from msgspec import Meta

from service.contract.schemas.fields import Answer
from service.contract.schemas.fit import FitAnswer
from service.formats.failures.failure import FailedMemory, FailureQuantity, FailureSpeaker
from service.usecases.postmortem.prediction import Agreement
from service.usecases.postmortem.values import CauseCertainty, CauseName


class SpanAnswer(Answer, frozen=True, kw_only=True):
    """Bytes as printed: the true number lies between the ends, by the digits."""

    bytes: Annotated[int, Meta(description="Bytes in the middle.")]
    low_bytes: Annotated[int, Meta(description="Fewest bytes that are printed so.")]
    high_bytes: Annotated[int, Meta(description="Most bytes that are printed so.")]


class ReadNumberAnswer(Answer, frozen=True, kw_only=True):
    """One number of the log."""

    quantity: Annotated[FailureQuantity, Meta(description="What it counts; `_bytes` are bytes.")]
    value: Annotated[float, Meta(description="The number: bytes, tokens, sequences or a share.")]
    low: Annotated[float, Meta(description="The least that is printed so.")]
    high: Annotated[float, Meta(description="The most that is printed so.")]
    text: Annotated[str, Meta(description="As it was printed.")]
    line: Annotated[int | None, Meta(description="Line that it stands in; null of a snapshot.")]


class ProcessAnswer(Answer, frozen=True, kw_only=True):
    """One process on the GPU."""

    pid: Annotated[
        int | None, Meta(description="Its id; null of the one that failed and did not print it.")
    ]
    memory: Annotated[SpanAnswer, Meta(description="What it had on the GPU, in bytes.")]
    is_failing: Annotated[
        bool,
        Meta(
            description=(
                "Whether it is the one that failed. In a container PyTorch does not know its own "
                "id: it is then the least process that has what the allocator had reserved."
            )
        ),
    ]


class BalanceAnswer(Answer, frozen=True, kw_only=True):
    """Who had what of the GPU when it failed; null is what the log does not tell."""

    requested: Annotated[SpanAnswer | None, Meta(description="Bytes that were asked for; or null.")]
    total: Annotated[SpanAnswer | None, Meta(description="Bytes of the GPU; null if not printed.")]
    free: Annotated[
        SpanAnswer | None, Meta(description="Bytes that nobody had; null if not printed.")
    ]
    missing: Annotated[
        SpanAnswer | None,
        Meta(description="Requested less free bytes, negative where enough was free; or null."),
    ]
    limit: Annotated[
        SpanAnswer | None,
        Meta(description="Bytes that this process may have; null where it has no limit."),
    ]
    allocated: Annotated[
        SpanAnswer | None,
        Meta(
            description=(
                "Bytes of PyTorch's tensors, with the free blocks of private pools; or null."
            )
        ),
    ]
    unallocated: Annotated[
        SpanAnswer | None,
        Meta(description="Bytes that are reserved and not allocated; null if not printed."),
    ]
    reserved: Annotated[
        SpanAnswer | None, Meta(description="Bytes of PyTorch's allocator; null if not printed.")
    ]
    process: Annotated[
        SpanAnswer | None, Meta(description="Bytes of the failing process; null if not printed.")
    ]
    outside: Annotated[
        SpanAnswer | None,
        Meta(
            description=(
                "Bytes of the failing process outside of the allocator: context, communicators, "
                "CUDA graphs; null where it is not known."
            )
        ),
    ]
    other_processes: Annotated[
        SpanAnswer, Meta(description="Bytes of other processes that are named.")
    ]
    strangers: Annotated[
        SpanAnswer, Meta(description="Bytes that are used by nobody whom the log names.")
    ]
    available: Annotated[
        SpanAnswer | None,
        Meta(description="Bytes that this process could have, its context included; or null."),
    ]


class PlaceAnswer(Answer, frozen=True, kw_only=True):
    """Where in the run it failed, in the words of POST /v1/fit."""

    instant: Annotated[
        str | None,
        Meta(
            description=(
                "`load`, `forward`, `loss`, `backward`, `optimizer_step`, `prefill` or `decode`; "
                "null where it is none of them, as an engine's cache."
            )
        ),
    ]
    terms: Annotated[
        list[str], Meta(description="Components that grow there, by their names in `per_gpu`.")
    ]
    what: Annotated[str, Meta(description="The place in words.")]
    file: Annotated[
        str | None,
        Meta(description="File of the frame that says so; null where no traceback does."),
    ]
    function: Annotated[str | None, Meta(description="Its function; null with `file`.")]


class GrowthAnswer(Answer, frozen=True, kw_only=True):
    """Memory that grows from step to step."""

    num_readings: Annotated[int, Meta(description="Steps whose memory the log prints.")]
    first: Annotated[SpanAnswer, Meta(description="Bytes of the first of them.")]
    last: Annotated[SpanAnswer, Meta(description="Bytes of the last of them.")]
    first_line: Annotated[int, Meta(description="Line of the first.")]
    last_line: Annotated[int, Meta(description="Line of the last.")]
    bytes_per_step: Annotated[int, Meta(description="Mean growth in bytes between two of them.")]


class CauseAnswer(Answer, frozen=True, kw_only=True):
    """One cause; the first explains the failure best."""

    name: Annotated[CauseName, Meta(description="The cause, for programs.")]
    certainty: Annotated[
        CauseCertainty,
        Meta(
            description=(
                "`certain` where the numbers decide it, `likely` where they speak for it, "
                "`possible` where they do not exclude it."
            )
        ),
    ]
    why: Annotated[str, Meta(description="The reason with its numbers.")]


class FailureChangeAnswer(Answer, frozen=True, kw_only=True):
    """What helps against a cause; those against the first cause come first, the smallest first."""

    cause: Annotated[CauseName, Meta(description="The cause that it is against.")]
    action: Annotated[str, Meta(description="What to do, in words.")]
    setting: Annotated[
        str | None, Meta(description="What to write; null where that is no one word.")
    ]
    frees_bytes: Annotated[
        int | None, Meta(description="Bytes that it frees at least; null where nobody can say.")
    ]
    fits: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether what failed would then have fitted, by the log's own numbers; null where "
                "they do not decide it."
            )
        ),
    ]


class ComparisonAnswer(Answer, frozen=True, kw_only=True):
    """One quantity of the question beside what was read."""

    quantity: Annotated[
        str,
        Meta(
            description=(
                "`allocated_bytes`, `reserved_bytes`, `device_bytes` or a part of an engine."
            )
        ),
    ]
    predicted: Annotated[int, Meta(description="As predicted: bytes, or tokens of a pool.")]
    low: Annotated[int, Meta(description="Lower end of the predicted interval.")]
    high: Annotated[int, Meta(description="Upper end of the predicted interval.")]
    value: Annotated[int, Meta(description="As read: bytes, or tokens of a pool.")]
    is_lower_bound: Annotated[
        bool,
        Meta(
            description=(
                "The run needed at least `value`, which is what it had and what it asked for on "
                "top: it failed before its peak."
            )
        ),
    ]
    agreement: Annotated[
        Agreement,
        Meta(
            description=(
                "Where `value` lies: `inside` of the interval, `above` or `below` it. A lower "
                "bound that is below contradicts nothing."
            )
        ),
    ]


class TensorAnswer(Answer, frozen=True, kw_only=True):
    """A tensor of the question that has the requested size."""

    name: Annotated[str, Meta(description="The tensor, in words.", examples=["logits"])]
    formula: Annotated[str, Meta(description="Its size.", examples=["9 x 2,048 x 128,256 x 4 B"])]
    bytes: Annotated[int, Meta(description="Its bytes.")]
    term: Annotated[str, Meta(description="Component that it is of, by its name in `per_gpu`.")]


class PredictionAnswer(Answer, frozen=True, kw_only=True):
    """What the question predicts, and how far that agrees."""

    fit: Annotated[
        FitAnswer,
        Meta(description="The answer to the question on the memory that was there, with remedies."),
    ]
    available_bytes: Annotated[
        int | None,
        Meta(
            description=(
                "Bytes that the GPU had for this process, where that is not what the question's "
                "GPU has; else null."
            )
        ),
    ]
    tensors: Annotated[
        list[TensorAnswer],
        Meta(
            description=(
                "Tensors that have the requested size, by its printed digits; where all are of one "
                "instant and no traceback tells it, `place` is that."
            )
        ),
    ]
    comparisons: Annotated[list[ComparisonAnswer], Meta(description="Predicted beside read.")]
    notes: Annotated[list[str], Meta(description="What does not agree, in words.")]


class ExplainAnswer(Answer, frozen=True, kw_only=True):
    """What ran out, where, why, and the smallest change that would have fitted."""

    summary: Annotated[str, Meta(description="What happened, in one sentence.")]
    memory: Annotated[
        FailedMemory,
        Meta(description="What ran out: the memory of the `gpu`, of the `host`, or `none`."),
    ]
    speaker: Annotated[FailureSpeaker, Meta(description="Program in whose words the log tells it.")]
    release: Annotated[
        str | None, Meta(description="Releases of the speaker that word it so; null if any.")
    ]
    engine: Annotated[str | None, Meta(description="Serving engine of the log; null if none.")]
    line: Annotated[int | None, Meta(description="Line of the failure; null of a snapshot.")]
    rank: Annotated[str | None, Meta(description="Rank or process that failed; null if unknown.")]
    gpu: Annotated[int | None, Meta(description="Index of the GPU; null if unknown.")]
    num_failures: Annotated[int, Meta(description="Failures that the log tells, this one too.")]
    read: Annotated[
        list[ReadNumberAnswer], Meta(description="Every number that was read, with its line.")
    ]
    balance: Annotated[BalanceAnswer, Meta(description="Who had what of the GPU, in bytes.")]
    processes: Annotated[list[ProcessAnswer], Meta(description="Processes that the log names.")]
    place: Annotated[
        PlaceAnswer | None, Meta(description="Where in the run; null where nothing tells it.")
    ]
    growth: Annotated[
        GrowthAnswer | None, Meta(description="Memory that grows; null where none does.")
    ]
    causes: Annotated[list[CauseAnswer], Meta(description="Why, the best explanation first.")]
    changes: Annotated[list[FailureChangeAnswer], Meta(description="What would have helped.")]
    prediction: Annotated[
        PredictionAnswer | None, Meta(description="Null where no question was sent.")
    ]
    notes: Annotated[list[str], Meta(description="What the file itself leaves open.")]
