"""Allocations of a run on fake tensors, with its calls."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from service.estimator.values.workload import Attention
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.trace.cuda_kernels import SCRATCH, Scratch
from worker.probes.trace.ledger import Allocation, Ledger
from worker.probes.trace.recorder import record_storages

_CONVOLUTION = torch.ops.aten.convolution.default
Call = tuple[int, str, bool]
"""Events before it, the module's name, and whether it was entered or left."""


def _bound_workspace(x: torch.Tensor, weight: torch.Tensor, *args: Any) -> list[int]:  # noqa: ANN401 - the signature is ATen's
    """Return the most bytes of a convolution's workspace.

    cuDNN chooses a kernel by the card; one for another layout converts its input, its weight and
    its output in a workspace (torch 2.13 ATen/native/cudnn/Conv_v8.cpp asks for what a plan says).
    """
    strides, paddings, dilations, _, extra, groups = args[1:7]
    del groups
    spatial = [
        (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
        if args[4]
        else (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation, more in zip(
            x.shape[2:],
            weight.shape[2:],
            _spread(strides, x),
            _spread(paddings, x),
            _spread(dilations, x),
            _spread(extra, x),
            strict=True,
        )
    ]
    output = x.shape[0] * weight.shape[0] * prod(spatial)
    return [(x.numel() + weight.numel() + output) * x.element_size()]


def _spread(value: Sequence[int], x: torch.Tensor) -> Sequence[int]:
    dims = x.dim() - 2
    return list(value) * dims if len(value) == 1 else value


SCRATCH_AND_WORKSPACES: Mapping[object, Scratch] = {**SCRATCH, _CONVOLUTION: _bound_workspace}


def is_workspace(allocation: Allocation) -> bool:
    """Return whether an allocation stands for a convolution's workspace."""
    return allocation.operator == str(_CONVOLUTION) and allocation.dtype == "uint8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Allocations of a run, in order, with calls of modules between them.

    ``stays`` are the bytes that its caller still held at the end.
    """

    ledger: Ledger
    calls: list[Call] = field(default_factory=list)
    stays: list[int] = field(default_factory=list)

    def compute_peaks(self) -> tuple[int, int]:
        """Return the highest live bytes without workspaces, and with them."""
        live = peak = bound = 0
        allocations = self.ledger.allocations
        for event in self.ledger.order:
            allocation = allocations[event if event >= 0 else ~event]
            if is_workspace(allocation):
                bound = max(bound, live + allocation.num_bytes)
            else:
                live += allocation.num_bytes if event >= 0 else -allocation.num_bytes
                peak = max(peak, live)
        return peak, max(bound, peak)


@contextmanager
def use_fake_tensors() -> Iterator[FakeTensorMode]:
    """Run a block on fake tensors, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            yield mode
    finally:
        gc.enable()


def trace(
    modules: Mapping[str, nn.Module], run: Callable[[Callable[[], None]], Any], watched: set[str]
) -> Trace:
    """Trace a run of modules by their names.

    Calls of the modules in ``watched`` are noted. ``run`` calls what it is given where the caller
    still holds what stays.
    """
    traced = Trace(ledger=Ledger())
    hooks = [hook for name in modules for hook in _watch(traced, name, modules[name], watched)]

    def end() -> None:
        traced.stays.append(len(traced.ledger.order))

    try:
        with (
            make_trace_context(Attention.SDPA)(Kernel.FLASH),
            record_storages(SCRATCH_AND_WORKSPACES, ledger=traced.ledger),
        ):
            result = run(end)
            del result
    finally:
        for hook in hooks:
            hook.remove()
    return traced


def _watch(traced: Trace, root: str, module: nn.Module, watched: set[str]) -> list[Any]:
    """Note when the watched parts of a component are entered and left."""
    hooks: list[Any] = []
    for path, part in module.named_modules():
        name = f"{root}.{path}" if path else root
        if name not in watched:
            continue

        def enter(_part: nn.Module, _args: object, name: str = name) -> None:
            traced.calls.append((len(traced.ledger.order), name, True))

        def leave(_part: nn.Module, _args: object, _output: object, name: str = name) -> None:
            traced.calls.append((len(traced.ledger.order), name, False))

        hooks += [part.register_forward_pre_hook(enter), part.register_forward_hook(leave)]
    return hooks
