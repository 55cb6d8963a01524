"""Seconds that the host needs to launch what a pass counts.

A kernel costs the dispatcher, autograd's node and the launch itself; a view costs the dispatcher
and the node alone. The views of a linear layer are its transposed weight and the flattening of its
input and output, 3 in forward, and 7 in backward for its two products; those of an attention with
its rotary positions are 18 and 22, with a fused kernel or without. Both are counted by a dispatch
mode over transformers 5.23's llama, Qwen3, Gemma 3, GPT-NeoX, OPT and Phi.
"""

from service.estimator.speed.counting import Counts
from service.estimator.speed.rates import Rates

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
"""Of a product with nf4 weights: the scales' own codes, their offset, and the weights
(bitsandbytes ``dequantize_4bit`` of nested scales).
"""
UNPACKING_VIEWS = 6
"""Calls around them in Python: the autograd function, the state of the weight, three custom
operators (``MatMul4Bit``, ``QuantState``).
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


def estimate_unpacking_s(num_products: int, rates: Rates) -> float:
    """Return the host's seconds to unpack products' nf4 weights."""
    return num_products * (UNPACKING_KERNELS * rates.launch_s + UNPACKING_VIEWS * rates.view_s)
