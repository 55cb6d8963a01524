"""Lengths of runs, in samples or in tokens."""

from dataclasses import replace

from msgspec import UnsetType

from service.contract.schemas.workload import TrainRequest
from service.estimator.values.batches import SequencePacking
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import TrainWorkload


def read_run_length(request: TrainRequest, workload: TrainWorkload) -> tuple[TrainWorkload, str]:
    """Return a workload with the tokens of its run, and a line.

    The line says how they are counted, and is empty where the request does not say samples. Raises
    InvalidInputError where it says both.
    """
    if isinstance(request.num_samples, UnsetType):
        return workload, ""
    if not isinstance(request.num_tokens, UnsetType):
        message = (
            f"num_samples {request.num_samples:,} and num_tokens {request.num_tokens:,} both say "
            "how long the run is; say one"
        )
        raise InvalidInputError(message, field="workload.num_samples")
    lengths, samples = workload.sequence_lengths, request.num_samples
    length, kind = workload.sequence_length, "as padded"
    if workload.packing is SequencePacking.PACKED and lengths:
        tokens = sum(min(size, length) * count for size, count in lengths)
        number = sum(count for _, count in lengths)
        num_tokens, kind = ceil_div(samples * tokens, number), "on average, packed"
    else:
        per_sample = workload.num_sequences // workload.micro_batch_size
        num_tokens = samples * length * per_sample
        kind = "in each of two sequences" if per_sample > 1 else kind
        number, tokens = 1, length
    line = (
        f"workload.num_tokens = {num_tokens}: {samples:,} samples of {tokens / number:,.0f} tokens "
        f"{kind}"
    )
    return replace(workload, num_tokens=num_tokens), line
