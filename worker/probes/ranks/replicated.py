"""Distributed data parallel: a full copy on every rank.

Gradients are summed in buckets.
"""

from typing import Any

import torch
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel, distributed


def replicate(model: nn.Module) -> DistributedDataParallel:
    """Wrap a model that has its weights.

    Buckets are made and filled, and come back from the other ranks as they are.
    """
    verify = distributed._verify_param_shape_across_processes  # type: ignore[attr-defined]  # noqa: SLF001 - the only place that asks the others
    distributed._verify_param_shape_across_processes = lambda *_args, **_named: True  # type: ignore[attr-defined]  # noqa: SLF001 - put back below
    try:
        wrapped = DistributedDataParallel(model, init_sync=False)
    finally:
        distributed._verify_param_shape_across_processes = verify  # type: ignore[attr-defined]  # noqa: SLF001 - as it was
    # The fake group answers without a tensor, which the default sum of buckets takes for an error.
    wrapped.register_comm_hook(None, _return_bucket)
    wrapped.reducer = _FirstBuckets(wrapped.reducer)  # type: ignore[assignment]  # it stands in for one
    return wrapped


def _return_bucket(_state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


class _FirstBuckets:
    """A reducer that keeps the buckets it made first.

    After the first step the ranks agree on the order in which gradients came, and make the buckets
    anew in that order, as many bytes as before; fake tensors cannot be sent, so this is left out.
    """

    def __init__(self, reducer: Any) -> None:  # noqa: ANN401 - a C++ object without a public type
        self._reducer = reducer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the reducer has
        return getattr(self._reducer, name)

    def _rebuild_buckets(self) -> bool:
        return False
