"""Simulation of one rank of N in a single process.

Its process group has collectives that return at once.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch.distributed
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from service.estimator.rules.obstacles import is_distributed
from service.estimator.values.layout import Layout
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_ALONE = Layout()
_LAYOUT: ContextVar[Layout] = ContextVar("layout", default=_ALONE)
"""Beside torch's own process group, which is the whole process's as well."""


@contextmanager
def fake_ranks(layout: Layout, rank: int = 0) -> Iterator[None]:
    """Make this process rank ``rank`` of the layout's GPUs for a block.

    The other ranks exist by number only, and nothing is left afterwards. A gather gives a rank its
    own share as everybody's, a sum gives it its own summand: bytes are right, values are not. Does
    nothing for a GPU that is alone. Raises Refusal for a rank that the layout does not have.
    """
    check_rank(layout, rank)
    if not is_distributed(layout):
        yield
        return
    # A process group puts the rank before every traceback of the process, and leaves it there.
    excepthook = sys.excepthook
    torch.distributed.init_process_group(
        "fake", rank=rank, world_size=layout.num_gpus, store=FakeStore()
    )
    token = _LAYOUT.set(layout)
    try:
        with _disable_shape_recording(), warnings.catch_warnings():
            # Under tensor parallelism the logits are a view, and nothing here writes into them.
            warnings.filterwarnings(
                "ignore",
                message="FSDP2-wrapped module .* returned a view tensor",
                category=UserWarning,
            )
            yield
    finally:
        _LAYOUT.reset(token)
        torch.distributed.destroy_process_group()
        sys.excepthook = excepthook


def get_current_layout() -> Layout:
    """Return the layout whose rank this process is.

    It is one GPU by itself outside of ``fake_ranks``.
    """
    return _LAYOUT.get()


def check_rank(layout: Layout, rank: int) -> None:
    """Raise Refusal for a rank that the layout does not have."""
    if not 0 <= rank < layout.num_gpus:
        message = (
            f"rank is {rank}, and the layout has {layout.num_gpus} GPUs: ranks 0 to "
            f"{layout.num_gpus - 1}"
        )
        raise Refusal(FailureKind.INVALID_REQUEST, message)


@contextmanager
def _disable_shape_recording() -> Iterator[None]:
    """Let DTensor find a result's global shape outside of all modes.

    It makes full tensors for it, which no device holds.
    """
    propagate = ShardingPropagator._propagate_tensor_meta_non_cached  # noqa: SLF001 - the only place that makes them

    def propagate_unrecorded(propagator: ShardingPropagator, *args: Any) -> object:  # noqa: ANN401 - passed on as they are
        with _disable_current_modes():
            return propagate(propagator, *args)

    ShardingPropagator._propagate_tensor_meta_non_cached = propagate_unrecorded  # type: ignore[method-assign, assignment]  # noqa: SLF001 - put back below
    try:
        yield
    finally:
        ShardingPropagator._propagate_tensor_meta_non_cached = propagate  # type: ignore[method-assign]  # noqa: SLF001 - as it was
