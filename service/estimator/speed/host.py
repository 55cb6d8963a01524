"""Seconds that the host needs to launch what a pass counts.

A kernel costs the dispatcher, autograd's node and the launch itself; a view costs the dispatcher
and the node alone. The views of a linear layer are its transposed weight and the flattening of its
input and output, 3 in forward, and 7 in backward for its two products; those of an attention with
its rotary positions are 18 and 22, with a fused kernel or without. Both are counted by a dispatch
mode over transformers 5.23's llama, Qwen3, Gemma 3, GPT-NeoX, OPT and Phi.
"""

from service.estimator.memory.kv_cache import compiles_decode
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.speed.counting import Counts
from service.estimator.speed.rates import Rates
from service.estimator.speed.work import EXLLAMA_BITS, UNPACKED_ROWS, ForwardWork
from service.estimator.values.generation import Client
from service.estimator.values.workload import Engine, ServeWorkload

LINEAR_VIEWS = 3
PRODUCT_BACKWARD_VIEWS = 3.5
ATTENTION_VIEWS = 18
ATTENTION_BACKWARD_VIEWS = 22


FORWARD_KERNELS = 30
"""Beyond embedding, layers and head: the mask, positions and their tables, and the Python around
them, as long as a layer of a llama without gradients (the same models at 2 and 8 layers).
"""
HOOKS_PER_SAVED = 3
"""A checkpoint's hooks take each saved tensor in forward, take it again when it is computed again,
and hand it out (torch ``utils/checkpoint.py``, ``_checkpoint_hook``, ``_recomputation_hook``).
"""

UNPACKING_KERNELS = 3
"""Of a served product with nf4 weights: the scales' own codes, their offset, and the weights
(bitsandbytes 0.50 ``backends/cuda/ops.py``, ``_dequant_linear_fallback``).
"""
UNPACKING_VIEWS = 13
UNPACKING_BACKWARD_VIEWS = 8
"""Calls in Python around them, in forward and in backward: the layer, its autograd function and
custom operators. In llama's layers of bitsandbytes 0.50.2 on a CPU, with kernels that do nothing,
a product takes so many views longer than PyTorch's, with a graph and without.
"""


def estimate_launch_s(counts: Counts, rates: Rates, *, backward: bool = False) -> float:
    """Return the host's seconds to launch a section's kernels."""
    views = (
        PRODUCT_BACKWARD_VIEWS * counts.products + ATTENTION_BACKWARD_VIEWS * counts.attentions
        if backward
        else LINEAR_VIEWS * counts.products + ATTENTION_VIEWS * counts.attentions
    )
    return counts.kernels * rates.launch_s + views * rates.view_s


def estimate_hooks_s(counts: Counts, rates: Rates) -> float:
    """Return the host's seconds in the hooks of checkpointed blocks."""
    return HOOKS_PER_SAVED * counts.saved * rates.view_s


def estimate_unpacking_calls_s(num_products: int, rates: Rates, *, backward: bool = False) -> float:
    """Return the host's seconds around the kernels that unpack weights."""
    views = UNPACKING_BACKWARD_VIEWS if backward else UNPACKING_VIEWS
    return num_products * views * rates.view_s


QUANTIZED_LAUNCHES = 2
"""More operations than a plain product: zeros that it adds to and fp32 scales (AutoGPTQ 0.7.1,
``qlinear_cuda_old.py``), weights that are unpacked first (AutoAWQ 0.2.6, ``gemm.py``), or an input
of fp8 that is quantised (transformers 5.23, ``integrations/deepgemm.py``).
"""
CACHED_KERNELS = 2
"""Keys and values that each attention adds to the cache."""


def estimate_serving_host_s(
    model: Architecture,
    workload: ServeWorkload,
    scheme: Scheme | None,
    work: ForwardWork,
    rates: Rates,
) -> tuple[float, float]:
    """Return the host's seconds of a prefill and of a decode step.

    Engines that replay a captured step launch nothing one by one. ``generate`` replays steps over
    a static cache, with what it does around them.
    """
    is_engine = workload.engine is not Engine.TRANSFORMERS
    if is_engine and model.generates and replays_decode(model, workload):
        return 0.0, 0.0
    kernels = CACHED_KERNELS * work.num_attentions + FORWARD_KERNELS
    launch_s = estimate_launch_s(work.forward, rates) + kernels * rates.launch_s
    share = rates.generating if workload.client is Client.GENERATE else rates.ungraphed

    def launch(rows: int) -> float:
        return share * (launch_s + _estimate_serving_unpacking_s(scheme, work, rates, rows))

    prefill_s = launch(workload.num_sequences * workload.prompt_tokens)
    if replays_decode(model, workload):
        return prefill_s, FORWARD_KERNELS * rates.launch_s * share
    return prefill_s, launch(workload.num_sequences)


def replays_decode(model: Architecture, workload: ServeWorkload) -> bool:
    """Return whether a captured step of decoding is replayed.

    Engines capture it unless they are told not to.
    """
    if workload.engine is not Engine.TRANSFORMERS:
        return not workload.enforce_eager
    return compiles_decode(model, workload)


def _estimate_serving_unpacking_s(
    scheme: Scheme | None, work: ForwardWork, rates: Rates, rows: int
) -> float:
    """Return the host's extra seconds for products with packed weights."""
    if scheme is None:
        return 0.0
    if scheme.packing is Packing.BLOCKS_4BIT:
        calls_s = estimate_unpacking_calls_s(work.num_products, rates)
        if rows < UNPACKED_ROWS[scheme.packing]:
            return calls_s
        return calls_s + work.num_products * UNPACKING_KERNELS * rates.launch_s
    if scheme.packing is Packing.GPTQ and scheme.bits == EXLLAMA_BITS:
        return 0.0
    return QUANTIZED_LAUNCHES * work.num_products * rates.launch_s
