"""Comparison of a recorded loop with the replay of the same question."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from service.catalog.gpus import find_gpus
from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, make_allocator
from service.estimator.memory.allocator.kernel_buffers import find_kernel_buffers, select_kernels
from service.estimator.memory.allocator.replay import replay_job
from service.estimator.memory.allocator.tensors import list_training_tensors
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import build_static_memory
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.passes.recorder import run_training
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Section
from service.estimator.values.layout import Layout
from tests.accuracy.allocator.recorded import GPU, RecordedLoop
from tests.accuracy.allocator.requests import OriginTape, Request, RequestLog

LEAST_BYTES = 2**20 + 1
"""Requests that are compared: those of the pool of large blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first request that is not the recorded one, with what both sides say."""

    index: int
    replayed: Request | None
    recorded: Request | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Reserved bytes on both sides, and where the requests part."""

    loop: RecordedLoop
    reserved_bytes: int
    num_compared: int
    divergence: Divergence | None

    @property
    def error(self) -> float:
        """Relative error of the reserved bytes."""
        return self.reserved_bytes / self.loop.reserved_bytes - 1


def compare(loop: RecordedLoop, least_bytes: int = LEAST_BYTES) -> Comparison:
    """Replay a loop's question, and compare request by request.

    Releases in a row are one set: their order changes nothing. Of two tensors of one size it counts
    which is released.
    """
    log = _replay(loop)
    replayed, recorded = (
        _number(requests, least_bytes) for requests in (log.requests, loop.requests)
    )
    return Comparison(
        loop=loop,
        reserved_bytes=log.allocator.reserved * BLOCK_BYTES,
        num_compared=len(replayed),
        divergence=_find_divergence(replayed, recorded),
    )


def _replay(loop: RecordedLoop) -> RequestLog:
    model, workload = loop.load_question()
    kernels = find_kernel_buffers(find_gpus(GPU)[0].to_device())
    assert kernels is not None
    config = select_kernels(build_training_pass(model, workload, Layout()), kernels)
    tape = OriginTape(Section.FORWARD, Mode.RECORDING, autocast=config.autocast)
    run_training(tape, model, config)
    static = build_static_memory(resolve_setup(model, workload, Layout()))
    tensors = list_training_tensors(
        model, workload, Layout(), static.trained, static.states, static.buckets
    )
    if model.tied:  # built on the GPU: its own head is made, then tied and dropped
        tensors = replace(tensors, dropped=tensors.loaded[:1])
    log = RequestLog(make_allocator(workload.allocator), tape.origins)
    values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
    replay_job(log, tensors, [tape.events()], values, kernels=kernels)
    return log


def _number(requests: Iterable[Request], least_bytes: int) -> list[Request]:
    """Return the requests of at least so many bytes, tensors numbered as they are made.

    Releases in a row are sorted.
    """
    numbers: dict[int, int] = {}
    numbered = []
    for request in requests:
        if request.num_bytes >= least_bytes:
            number = numbers.setdefault(request.tensor, len(numbers))
            numbered.append(replace(request, tensor=number))
    while numbered and numbered[-1].is_release:
        numbered.pop()  # a replay leaves out what is released last of all
    return list(_iter_sorted(numbered))


def _iter_sorted(requests: Iterable[Request]) -> Iterator[Request]:
    for is_release, group in groupby(requests, key=lambda request: request.is_release):
        members = list(group)
        yield from sorted(members, key=lambda item: item.tensor) if is_release else members


def _find_divergence(replayed: Sequence[Request], recorded: Sequence[Request]) -> Divergence | None:
    for index, ours in enumerate(replayed):
        theirs = recorded[index] if index < len(recorded) else None
        if theirs is None or _get_sign(ours) != _get_sign(theirs):
            return Divergence(index=index, replayed=ours, recorded=theirs)
    return None


def _get_sign(request: Request) -> tuple[bool, int, int]:
    """Return what two equal requests have in common."""
    return request.is_release, request.num_bytes, request.tensor
