"""Speed at which this host passes operators through fake tensors.

A plan estimates from it what it has time for.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import linear, silu
from torch.utils._python_dispatch import TorchDispatchMode

from service.estimator.values.workload import Allocator
from worker.probes.trace.caching import replay
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.recorder import record_storages

_WIDTH = 64
_NUM_LINEARS = 12
_NUM_ROUNDS = 2


@cache
def measure_operators_per_second() -> float:
    """Measure the operators that one core traces per second.

    Views are among them; it is measured once in a process, in CPU time. How busy the host is
    changes from moment to moment, and a plan leaves room for it (``BUDGET_SHARE``).
    """
    counter = _OperatorCounter()
    _trace(counter)  # meets every operator for the first time, too
    return _NUM_ROUNDS * counter.num_operators / sum(_trace() for _ in range(_NUM_ROUNDS))


class _OperatorCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Dispatch mode that counts operators."""

    def __init__(self) -> None:
        """Start at 0."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.num_operators = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Count an operator and pass it on."""
        del types
        self.num_operators += 1
        return func(*args, **(kwargs or {}))


def _trace(counter: _OperatorCounter | None = None) -> float:
    """Trace a small model once and return its seconds of CPU time.

    It is a stack of normed and gated products, traced forward and backward, and its recording is
    read.
    """
    began = time.process_time()
    with FakeTensorMode(), record_storages() as recorder:
        if counter is None:
            _run()
        else:
            with counter:
                _run()
    compute_stretches(recorder.ledger, replay(recorder.ledger, Allocator.DEFAULT).reserved)
    return time.process_time() - began


def _run() -> None:
    x = torch.empty(1, 2, _WIDTH)
    for _ in range(_NUM_LINEARS):
        weight = torch.empty(_WIDTH, _WIDTH, requires_grad=True)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True))
        x = x + silu(linear(x * scale, weight))
    torch.autograd.backward(x.sum())
