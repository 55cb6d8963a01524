"""Compares the order of a step's requests with a trace: ``python -m tests.accuracy.allocator.traced
MODEL [MODEL ...] [--precision bf16] [--attention sdpa] [--layers 3] [--length 1024]``.

One line a model and allocator: reserved bytes by our order and by that of the model's own code,
both replayed; then the first requests beyond 1 MiB that differ.
"""

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional
from transformers import logging

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import MIB
from service.estimator.values.workload import Attention, Checkpointing
from service.probing.plan import ProbeQuestion, get_target_point
from tests.accuracy.allocator.replayed import log_step, replay_steps
from tests.accuracy.search.questions import TRAIN, Question
from tests.accuracy.search.recorded import probe_recorded
from worker.probes.measure import make_probe_setup
from worker.probes.trace.cuda_kernels import SCRATCH, Scratch
from worker.probes.trace.ledger import Allocation, Ledger
from worker.probes.trace.run import run_traced

_ATTEND = functional.scaled_dot_product_attention
_LEAST_BYTES = 2**20
_SHOWN = 12
_IN_PLACE = ("aten.index_put", "aten.scatter.src")
"""Gradients that a GPU writes into their zeros; subclasses of tensors, as fakes are, get a copy."""
_DROPOUT = "aten.native_dropout.default"
Request = tuple[bool, int]


def trace_step(question: Question) -> Events:
    """Return the requests of a steady step, as CUDA's kernels make them; raises Refusal."""
    asked = ProbeQuestion(
        architecture=question.build(),
        workload=question.workload,
        layout=question.make_layout(),
        full_depth=True,
        deadline_s=600.0,
    )
    setup = make_probe_setup(asked, question.read_config(), 0)
    scratch: Mapping[object, Scratch] = {
        **SCRATCH,
        torch.ops.aten._softmax_backward_data.default: _softmax_product,  # noqa: SLF001 - an operator's name
    }
    recorded = probe_recorded(question.build_whole()) if question.is_recorded else nullcontext()
    with recorded, patch.object(functional, "scaled_dot_product_attention", _attend_cast):
        traced = run_traced(
            setup, get_target_point(asked), on_step=lambda _step: None, scratch=scratch
        )
    return _select_steady(traced.ledger)


def _attend_cast(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,  # noqa: ANN401 - SDPA's own
    **kwargs: Any,  # noqa: ANN401 - SDPA's own
) -> torch.Tensor:
    """Run SDPA on what autocast casts: on a GPU it takes the last argument first."""
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        value = value.to(dtype)
        key = key.to(dtype)
        query = query.to(dtype)
    return _ATTEND(query, key, value, *args, **kwargs)


def _softmax_product(gradient: torch.Tensor, *_: object) -> Sequence[int]:
    """Return the product with the output that CUDA makes first (ATen ``SoftMax.cu``)."""
    return [gradient.numel() * gradient.element_size()]


def _select_steady(ledger: Ledger) -> Events:
    """Return what forward and backward of the last step take and free of their storages."""
    spans = list(ledger.spans())
    steps = [span for span in spans if span[0] == "optimizer_step"]
    begin, end = steps[-2][2], steps[-1][1]
    stretches = [name for name, first, last in spans for _ in range(first, last)]
    places = _order_as_cuda(ledger, begin, end)
    number = {place: index for index, place in enumerate(p for p in places if p >= 0)}
    order = [number[p] if p >= 0 else ~number[~p] for p in places if max(p, ~p) in number]
    made_in = dict(zip(ledger.order, stretches, strict=True))
    lasting = {place for place in number if ~place not in places}
    gradients = {p for p in lasting if made_in[p].startswith(("backward", "loss/gradient"))}
    return Events(
        sizes=tuple(sizes.constant(ledger.allocations[place].num_bytes) for place in number),
        kinds=tuple(range(len(number))),
        order=tuple(order),
        gradients=frozenset(number[place] for place in gradients),
        shards=(),
    )


def _order_as_cuda(ledger: Ledger, begin: int, end: int) -> list[int]:
    """Return the events between two places, those of some operators as CUDA makes them."""
    order: list[int] = []
    for event in ledger.order[begin:end]:
        before = ledger.allocations[order[-1]] if order and order[-1] >= 0 else None
        made = ledger.allocations[event] if event >= 0 else None
        if made is not None and not made.num_bytes:
            continue
        if made is not None and before is not None and _has_mask_first(before, made):
            order.insert(-1, event)
            continue
        order.append(event)
    copies = {
        event: zeros
        for zeros, event in pairwise(order)
        if zeros >= 0
        and event >= 0
        and _is_copy(ledger.allocations[zeros], ledger.allocations[event])
    }
    dropped = {*copies, *(~zeros for zeros in copies.values())}
    renamed = {~event: ~zeros for event, zeros in copies.items()}
    return [renamed.get(event, event) for event in order if event not in dropped]


def _has_mask_first(output: Allocation, mask: Allocation) -> bool:
    """Return whether two storages are dropout's, whose mask CUDA makes first."""
    return output.operator == mask.operator == _DROPOUT and mask.num_bytes < output.num_bytes


def _is_copy(zeros: Allocation, made: Allocation) -> bool:
    return (
        "new_zeros" in zeros.operator
        and made.operator.startswith(_IN_PLACE)
        and zeros.num_bytes == made.num_bytes
    )


def _list_requests(question: Question, events: Events) -> list[Request]:
    values = sizes.evaluate_monomials(*question.workload.rows)  # type: ignore[union-attr]  # a step
    blocks = [-(-sizes.evaluate(size, values) // BLOCK_BYTES) for size in events.sizes]
    requests = [
        (event >= 0, blocks[events.kinds[max(event, ~event)]] * BLOCK_BYTES)
        for event in events.order
    ]
    return [request for request in requests if request[1] > _LEAST_BYTES]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the models that are named; 1 where one reserves other bytes."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.allocator.traced")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--precision", default="bf16", choices=sorted(POLICIES))
    parser.add_argument("--attention", default="sdpa", choices=[kind.value for kind in Attention])
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--checkpoint", action="store_true", help="compute blocks again")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    checkpointing = Checkpointing.FULL if options.checkpoint else Checkpointing.NONE
    changes = {
        "precision": POLICIES[options.precision],
        "attention": Attention(options.attention),
        "sequence_length": options.length,
        "activation_checkpointing": checkpointing,
    }
    differing = 0
    for model in options.models:
        question = Question(model=model, base=TRAIN, layers=options.layers, options=changes)
        differing += _compare(question)
    return int(bool(differing))


def _compare(question: Question) -> bool:
    sides = log_step(question), trace_step(question)
    ours, traced = (replay_steps(question, events) for events in sides)
    for kind, peaks in ours.items():
        counts = peaks.reserved_bytes, traced[kind].reserved_bytes
        sys.stdout.write(
            f"{question} {kind.value}: {counts[0] // MIB:,} MiB, traced {counts[1] // MIB:,} MiB\n"
        )
    mine, theirs = (_list_requests(question, events) for events in sides)
    steps = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    for tag, *ends in [step for step in steps if step[0] != "equal"][:_SHOWN]:
        sys.stdout.write(f"    {tag}: {mine[ends[0] : ends[1]]} {theirs[ends[2] : ends[3]]}\n")
    return any(ours[kind].reserved_bytes != traced[kind].reserved_bytes for kind in ours)


if __name__ == "__main__":
    sys.exit(main())
