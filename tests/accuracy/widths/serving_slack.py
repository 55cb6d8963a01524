"""``python -m tests.accuracy.widths.serving_slack``: what the caching allocator reserves for the
serving runs that were traced.

The runs were traced without an allocator, but what they allocate in which order is what the model
records: weights, a prefill whose cache stays, and decode steps. Where the replayed blocks add up to
the traced peak, what they reserve is believed.
"""

import sys
from collections.abc import Iterator
from unittest.mock import patch

from service.estimator.backends.transformers.release import resolve_release
from service.estimator.backends.transformers.serving import build_serving_pass
from service.estimator.memory.allocator.caching_allocator import (
    BLOCK_BYTES,
    CachingAllocator,
    make_allocator,
)
from service.estimator.memory.allocator.pool import Block
from service.estimator.memory.kv_cache import count_cache_bytes
from service.estimator.model.architecture import Architecture
from service.estimator.passes import serving as passes
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Section
from service.estimator.values.errors import EstimatorError
from service.estimator.values.workload import Allocator, Cache, ServeWorkload
from tests.accuracy.cases import ServingCase, architecture_of, serving_cases
from tests.accuracy.contract import NotInContractError, question_of_serving

AGREES = (0.995, 1.06)
"""Blocks over the traced peak, rounding up included."""
DECODE_STEPS = 2


def logged(model: Architecture, workload: ServeWorkload) -> dict[Section, Events]:
    """Return the events of prefill and of a decode step."""
    tapes: dict[Section, LoggingTape] = {}

    def tape(section: Section, mode: Mode) -> LoggingTape:
        tapes[section] = LoggingTape(section, mode)
        return tapes[section]

    with patch.object(passes, "Tape", tape):
        passes.record_serving(
            model,
            build_serving_pass(model, workload, resolve_release(workload.engine_version), None),
        )
    return {section: each.events() for section, each in tapes.items()}


def replayed(kind: Allocator, model: Architecture, workload: ServeWorkload) -> tuple[int, int]:
    """Return reserved bytes and the highest sum of blocks of a load, a prefill and some decode
    steps.
    """
    allocator, events = make_allocator(kind), logged(model, workload)
    width = workload.weight_dtype.bytes_per_element
    for weight, count in model.counts.tensors:
        for _ in range(count):
            allocator.allocate(_blocks(weight.numel * width))
    if workload.cache is Cache.STATIC:
        tensors = 2 * model.num_hidden_layers
        for _ in range(tensors):
            allocator.allocate(_blocks(count_cache_bytes(model, workload).final // tensors))
    _run(allocator, events[Section.PREFILL], workload, workload.prompt_tokens)
    for step in range(1, DECODE_STEPS + 1):
        for block in _run(
            allocator, events[Section.DECODE], workload, workload.prompt_tokens + step
        ):
            allocator.free(block)
    return allocator.reserved * BLOCK_BYTES, allocator.highest * BLOCK_BYTES


def ratios(kind: Allocator) -> Iterator[float]:
    """Yield reserved over allocated bytes of every traced run that the replay agrees with."""
    for case in serving_cases():
        try:
            model, workload = architecture_of(case), question_of_serving(case).workload
            assert isinstance(workload, ServeWorkload), "a serving case asks for serving"
            reserved, allocated = replayed(kind, model, workload)
        except (EstimatorError, NotInContractError):
            continue
        peak = _peak(case)
        if AGREES[0] <= allocated / peak <= AGREES[1]:
            yield reserved / peak


def _peak(case: ServingCase) -> int:
    return max(case.prefill_bytes, case.decode_bytes)


def _run(
    allocator: CachingAllocator, events: Events, workload: ServeWorkload, tokens: int
) -> list[Block]:
    """Replay a pass, and return what it leaves behind."""
    values = sizes.evaluate_monomials(workload.num_sequences, tokens)
    blocks = [_blocks(sizes.evaluate(events.sizes[kind], values)) for kind in events.kinds]
    live: dict[int, Block] = {}
    for event in events.order:
        if event >= 0 and blocks[event] > 0:
            live[event] = allocator.allocate(blocks[event])
        elif event < 0 and ~event in live:
            allocator.free(live.pop(~event))
    return list(live.values())


def _blocks(num_bytes: int) -> int:
    return -(-num_bytes // BLOCK_BYTES)


def main() -> None:
    """Print 2.5 %, 50 % and 97.5 % of the ratios for each kind of allocator."""
    for kind in Allocator:
        found = sorted(ratios(kind))
        shown = [
            found[min(len(found) - 1, int(share * len(found)))] for share in (0.025, 0.5, 0.975)
        ]
        sys.stdout.write(
            f"{kind.value:20} {len(found):3} runs  {'  '.join(f'{ratio:.4f}' for ratio in shown)}\n"
        )


if __name__ == "__main__":
    main()
