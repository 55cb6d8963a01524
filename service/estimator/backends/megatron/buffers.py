"""Buffers of a stage that stay, some until a step's end.

``get_global_memory_buffer`` (core/utils.py) keeps one tensor by name and format, as large as the
largest that was asked for. What is gathered over tensor ranks, what experts gather, and what the
scores of local layers are added to have one name.
"""

from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import TrainWorkload

BYTES = 2
"""Bytes per element: buffers are of the weights' format, which has 16 bits here."""


def gather_buffer_bytes(
    shape: RankShape, switches: Switches, layers: StageLayers, values: Size
) -> int:
    """Return the bytes of the global buffer of a stage."""
    return BYTES * max(
        sizes.evaluate(size, values) for size in _list_requests(shape, switches, layers)
    )


def _list_requests(shape: RankShape, switches: Switches, layers: StageLayers) -> list[Size]:
    """Return the elements that are asked for.

    Under sequence parallelism the head gathers its input, and so does each product of local layers
    (core/tensor_parallel/layers.py). Each rank of experts that see every token has all of them
    (core/transformer/moe/token_dispatcher.py).
    """
    requests = [sizes.ZERO]
    experts, shards = shape.experts, shape.sequence_shards
    if shards > 1 and (layers.last or switches.local):
        requests.append(sizes.per_token(shape.hidden))
    if experts is not None and layers.sparse and switches.gathers_tokens:
        ranks = experts.gathering_ranks
        requests.append(sizes.per_token(shape.hidden * ranks // shards if ranks > 1 else 0))
    if switches.local:
        requests.append(sizes.per_score(shape.heads))
    return requests


def received_bytes(shape: RankShape, layers: StageLayers, chunks: int, values: Size) -> int:
    """Return the bytes of the last inputs of a stage's chunks.

    ``set_input_tensor`` holds what was sent last, and ``retain_grad`` its gradient (schedules.py).
    """
    received = chunks - layers.first
    return sizes.evaluate(
        sizes.per_token(2 * received * BYTES * shape.hidden // shape.sequence_shards), values
    )


def count_waiting(workload: TrainWorkload, *, in_backward: bool) -> int:
    """Count the micro-batches whose gradient of the head waits.

    It is while the last one runs, which is one of them in backward
    (``embedding_activation_buffer``, core/tensor_parallel/layers.py).
    """
    options, steps = workload.megatron, workload.gradient_accumulation_steps
    if not options.defer_embedding_wgrad_compute:
        return 0
    waiting = steps if in_backward else steps - 1
    return min(waiting, options.wgrad_deferral_limit or waiting)


def deferred_bytes(shape: RankShape, layers: StageLayers, waiting: int, values: Size) -> int:
    """Return the head's inputs and the gradients of its logits that wait."""
    if not layers.last or not waiting:
        return 0
    width = shape.vocabulary + shape.hidden // shape.sequence_shards
    return waiting * sizes.evaluate(sizes.per_token(BYTES * width), values)
