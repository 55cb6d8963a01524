"""Measured shares of the peak rates of GPUs.

Each figure has its source; nothing is fitted to published runs. Products: matrix products in bf16
with PyTorch (stas00/ml-engineering, compute/accelerator). Where it is published, the rate that is
sustained once power limits the clock, which is what training meets: 702.9 of 989 TFLOP/s on an
H200, 1438.7 of 2250 on a B200 with its siblings busy; an H100 is the same chip with the same 700 W.
Else the best of a burst: on an A100, on AMD's. Attention: FlashAttention-2 with a causal mask, head
dimension 128, 2k to 4k tokens (arXiv:2307.08691, figures 4 to 7). Networks are those of the nodes
that are rented most: 400 Gbit/s for a node of eight A100 (AWS p4d and p4de), 3200 from H100 on (p5,
DGX H100); a layout that says what its network carries overrides them.

Hopper's other shares, and the host's seconds, are a fit of these few numbers to 121 times of one
H100 80GB HBM3 and one H200 (driver 580, torch 2.11.0, transformers 5.23.0;
``tests/data/truth/gpu``, ``python -m tests.accuracy.times --fit``, which also scores each model at
rates fitted to the others). Optimizer steps between two synchronisations give ``update``: 24.7e9
fp32 accesses of ``foreach`` AdamW over 1.24e9 weights in 40 ms, and 7 bf16 accesses of its fused
kernel over 8.03e9 in 57 ms, on the same H100 (0.589 of its peak). Its neighbours have the same
shares.
"""

from dataclasses import dataclass, replace

GBIT = 10**9 // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Shares of a GPU's peak rates that its kernels reach.

    With them comes the bytes per second of a node's network per GPU. ``measured`` is false for GPUs
    whose products nobody in the table measured: then the shares are those of its neighbours.
    """

    products: float
    attention_forward: float
    attention_backward: float
    network_bytes_per_second: int
    measured: bool = True
    streaming: float = 0.9
    """Of the memory's peak rate that one long read reaches: a copy on an H100 moves 3.02 of 3.35
    TB/s (CUDA events).
    """
    memory: float = 0.66
    """Of the memory's peak rate that element-wise kernels and reductions reach."""
    update: float = 0.72
    update_16_bit: float = 0.49
    """Of the memory's peak rate that an optimizer's step reaches on fp32 and on 16-bit tensors."""
    unaligned: float = 0.28
    """Of the products' rate that remains where rows of 16-bit numbers are no multiple of 16 bytes:
    with 50,304 tokens in place of 50,257 nanoGPT's compiled step on an A100 (12 x 1024 tokens,
    135 ms) is 25 % faster, which are 27 ms beyond the 10.5 of its head's three products.
    """
    launch_s: float = 19e-6
    """Host time of one kernel of a transformers model, dispatcher and autograd included:
    Qwen2.5-0.5B decodes 47.4 tokens/s with 24 layers of 42 kernels and 39 views, on an A100 that
    waits (Qwen2.5 speed benchmark, transformers 4.46).
    """
    view_s: float = 8.2e-6
    """Host time of an operation that launches nothing."""
    ungraphed: float = 0.75
    """Of both that remains without autograd, in a step that is taken alone."""
    generating: float = 0.75
    """The same in ``generate``'s loop: on an H100 0.58 in a generation of llama-3-8b (32.2 ms a
    token: 2.506 s for 16 x 1024 + 64, less 0.475 for 16,384 tokens of prompt), 0.59 of gemma-3-4b,
    0.87 of olmoe-1b-7b and 0.89 of falcon-7b: each host launched in its own way. The middle of the
    four, as logarithms, is taken.
    """


LINK_SHARE = 0.78
"""Of a link's rate in one direction that NCCL's rings reach: 233.3 of 300 GB/s for 10 GiB on 8 A100
(nccl-tests).
"""
PCIE_BYTES_PER_SECOND = 25 * 10**9
"""Pinned copies over PCIe 4.0 x16, of 31.5 GB/s."""
NVME_BYTES_PER_SECOND = 5 * 10**9
"""One PCIe 4.0 drive for each GPU; nodes with fewer are slower."""
CPU_ADAM_S_PER_PARAMETER = 0.25e-9
"""DeepSpeed's CPU Adam on one node: 0.22 s for one billion parameters, 2.6 s for ten
(arXiv:2101.06840, table 4).
"""
PRODUCT_OVERHEAD_S = 6e-6
"""Ramp and tail of one product: 1024 x 1024 x 4096 takes 18.3 us on an H100, 10.9 of them at its
full rate (openxla/xla, matmul_interpolator_data.h, sm_90).
"""
KERNEL_S = 2e-6
"""Start and end of a kernel that follows another one."""

_HOPPER = Rates(
    products=0.711,
    attention_forward=0.51,
    attention_backward=0.31,
    memory=0.68,
    update=0.72,
    update_16_bit=0.58,
    launch_s=27.5e-6,
    view_s=13.4e-6,
    # Such products take Ampere's instructions, 0.629 of Hopper's peak (arXiv:2402.13499): 0.28 of
    # the 0.869 that an A100 reaches is 0.21 of the 0.711 here.
    unaligned=0.21,
    ungraphed=0.85,
    generating=0.72,
    network_bytes_per_second=400 * GBIT,
)
_H200 = replace(_HOPPER, launch_s=23.5e-6, view_s=11.7e-6)
_BY_PREFIX: tuple[tuple[str, Rates], ...] = (
    (
        "A100-PCIE",
        Rates(
            products=0.811,
            attention_forward=0.52,
            attention_backward=0.4,
            network_bytes_per_second=50 * GBIT,
        ),
    ),
    (
        "A100",
        Rates(
            products=0.869,
            attention_forward=0.52,
            attention_backward=0.4,
            network_bytes_per_second=50 * GBIT,
        ),
    ),
    ("H100", _HOPPER),
    ("H200", _H200),
    (
        "B200",
        Rates(
            products=0.639,
            attention_forward=0.33,
            attention_backward=0.25,
            network_bytes_per_second=400 * GBIT,
        ),
    ),
    (
        "GB200",
        Rates(
            products=0.639,
            attention_forward=0.33,
            attention_backward=0.25,
            network_bytes_per_second=400 * GBIT,
        ),
    ),
    (
        "MI300X",
        Rates(
            products=0.514,
            attention_forward=0.3,
            attention_backward=0.25,
            network_bytes_per_second=400 * GBIT,
        ),
    ),
)
_UNMEASURED = Rates(
    products=0.8,
    attention_forward=0.5,
    attention_backward=0.4,
    network_bytes_per_second=100 * GBIT,
    measured=False,
)


def get_rates(name: str) -> Rates:
    """Return the rates of a GPU by its catalogue name."""
    return next((rates for prefix, rates in _BY_PREFIX if name.startswith(prefix)), _UNMEASURED)
