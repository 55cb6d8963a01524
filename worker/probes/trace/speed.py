"""How fast this host passes operators through fake tensors, so that a plan knows what time it has."""

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
from worker.probes.trace.ledger import stretches
from worker.probes.trace.recorder import recording_storages

_WIDTH = 64
_NUM_LINEARS = 12
_NUM_ROUNDS = 2


@cache
def operators_per_second() -> float:
    """Return the operators that one core traces per second, views among them; measured once in a process, in CPU time.

    How busy the host is changes from moment to moment, and a plan leaves room for it (``BUDGET_SHARE``).
    """
    counting = _Counting()
    _trace(counting)  # meets every operator for the first time, too
    return _NUM_ROUNDS * counting.num_operators / sum(_trace() for _ in range(_NUM_ROUNDS))


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Counts what comes by."""

    def __init__(self) -> None:
        """Begin at none."""
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


def _trace(counting: _Counting | None = None) -> float:
    """Trace a stack of normed and gated products forward and backward, read it, and return its seconds of CPU time."""
    began = time.process_time()
    with FakeTensorMode(), recording_storages() as recorder:
        if counting is None:
            _run()
        else:
            with counting:
                _run()
    stretches(recorder.ledger, replay(recorder.ledger, Allocator.DEFAULT).reserved)
    return time.process_time() - began


def _run() -> None:
    x = torch.empty(1, 2, _WIDTH)
    for _ in range(_NUM_LINEARS):
        weight = torch.empty(_WIDTH, _WIDTH, requires_grad=True)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True))
        x = x + silu(linear(x * scale, weight))
    torch.autograd.backward(x.sum())
