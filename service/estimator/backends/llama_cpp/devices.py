"""Layers of a GGUF file over GPUs and the host.

llama.cpp as in llama-cpp-python 0.3.36 (``src/llama-model.cpp``, ``load_tensors``): the first
layers stay with the host where fewer are asked for, the others go to the GPUs in stretches by their
shares, equal ones unless they are said, with the output as one more layer. ``--split-mode layer``
keeps each matrix on its layer's GPU, ``row`` spreads its rows over all; keys and values are with
their layer either way.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The GPU of each layer.

    None is the host; the last entry is the output's.
    """

    devices: tuple[int | None, ...]
    num_gpus: int
    rows: bool
    host_experts: int
    """Layers from the first on whose experts the host holds."""
    largest_share: float
    """Share of the rows that the GPU with most of them holds."""

    @property
    def pipelines(self) -> bool:
        """Whether micro batches follow one another over the GPUs.

        That takes all layers on GPUs, and no tensor elsewhere (``src/llama-context.cpp``).
        """
        everything = None not in self.devices and not self.host_experts
        return self.num_gpus > 1 and not self.rows and everything

    def list_layers(self, device: int | None) -> list[int]:
        """Return the layers of a GPU, or of the host."""
        return [index for index, other in enumerate(self.devices[:-1]) if other == device]


def place_layers(num_layers: int, workload: ServeWorkload, layout: Layout) -> Placement:
    """Return the GPUs of a model's layers."""
    rows = layout.tensor_parallel > 1
    num_gpus = layout.tensor_parallel * layout.pipeline_parallel
    requested = workload.gpu_layers
    on_gpus = num_layers + 1 if requested is None else min(requested, num_layers + 1)
    start = num_layers + 1 - on_gpus
    shares = workload.tensor_split or (1.0,) * num_gpus
    ends = list(accumulate(shares))
    return Placement(
        devices=tuple(
            None if index < start else _find_gpu(ends, (index - start) / on_gpus)
            for index in range(num_layers + 1)
        ),
        num_gpus=num_gpus,
        rows=rows,
        host_experts=min(workload.cpu_moe_layers or 0, num_layers),
        largest_share=max(shares) / ends[-1],
    )


def _find_gpu(ends: Sequence[float], place: float) -> int:
    """Return the first GPU whose share ends beyond a place."""
    return bisect_right([end / ends[-1] for end in ends], place)


def count_weight_bytes(tensors: GgufBytes, placement: Placement, device: int | None) -> int:
    """Return the bytes of weights of a GPU or of the host.

    The host has the token table beside them.
    """
    total = sum(
        _count_layer_bytes(tensors, placement, index, device)
        for index in placement.list_layers(device)
    )
    if device is None:
        host = placement.host_experts
        placed = [index for index in range(host) if placement.devices[index] is not None]
        total += sum(tensors.by_layer[index].experts for index in placed)
    output = tensors.head + tensors.outside
    on_gpus = [index for index, other in enumerate(placement.devices[:-1]) if other is not None]
    if placement.rows and device is not None:
        split = sum(_count_layer_bytes(tensors, placement, index, device) for index in on_gpus)
        rows = split + (output if placement.devices[-1] is not None else 0)
        if placement.largest_share * placement.num_gpus > 1.0:
            return ceil(rows * placement.largest_share)
        return ceil_div(rows, placement.num_gpus)
    return total + (output if placement.devices[-1] == device else 0)


def _count_layer_bytes(
    tensors: GgufBytes, placement: Placement, index: int, device: int | None
) -> int:
    layer = tensors.by_layer[index]
    elsewhere = device is not None and index < placement.host_experts
    return layer.rest + (0 if elsewhere else layer.experts)


def find_largest_host_tensor(tensors: GgufBytes, placement: Placement) -> int:
    """Return the largest tensor that a GPU copies from the host.

    It is 0 where none is there. Batches of 32 tokens and more are multiplied on the GPU
    (``ggml-cuda.cu``, ``offload_op``).
    """
    on_host: Sequence[int] = [
        index
        for index, device in enumerate(placement.devices[:-1])
        if device is None or index < placement.host_experts
    ]
    return max((tensors.by_layer[index].largest for index in on_host), default=0)
