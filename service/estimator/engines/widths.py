"""The widest point of a layer on a serving engine: what is alive of one token beside the weights.

vLLM 0.19.0, ``models/llama.py`` and ``fused_moe/fused_moe.py``; the same layers run on SGLang and TensorRT-LLM.
"""

from service.estimator.architecture import Architecture
from service.estimator.block_module import BlockModule
from service.estimator.modules.weights import Linear
from service.estimator.quantization.weights import STACK_DIMENSIONS

_EXPERTS = "mlp_experts"


def widest_layer(model: Architecture, *, flash: bool, gathered: int = 1) -> int:
    """Return the elements per token that are alive at the widest point of any layer, with the hidden states around it.

    Experts get the tokens of so many ranks, ``gathered`` for them.
    """
    return max(_widest(model, block, flash=flash, gathered=gathered) for block, _ in model.blocks)


def _widest(model: Architecture, block: BlockModule, *, flash: bool, gathered: int) -> int:
    hidden = model.spec.hidden_size
    linears = block.linears()
    attending = [layer for layer in linears if layer.kind == "attention"]
    mixed = next((layer.in_features for layer in reversed(attending) if layer.out_features == hidden), hidden)
    projected = sum(layer.out_features for layer in attending if layer.in_features == hidden)
    attention = 3 * hidden + projected + mixed
    # A piece of the model begins after attention and holds its output beside two residuals; xFormers holds one output more.
    around = 2 * hidden + mixed + (0 if flash else hidden)
    return max(attention, around + max(_dense_width(linears, hidden), _expert_width(model, block, gathered)))


def _dense_width(linears: tuple[Linear, ...], hidden: int) -> int:
    """Return what a dense feed-forward holds of a token at its widest: what goes into the activation, and what comes out."""
    inner = [layer for layer in linears if layer.kind == "mlp"]
    entering = sum(layer.out_features for layer in inner if layer.in_features == hidden)
    leaving = [layer.in_features for layer in inner if layer.out_features == hidden and layer.in_features != hidden]
    return entering + max(leaving, default=0)


def _expert_width(model: Architecture, block: BlockModule, gathered: int) -> int:
    """Return what chosen experts hold of a token: one buffer for both products, the activation, and the sum.

    vLLM 0.19.0, ``fused_moe/fused_moe.py``: ``intermediate_cache13`` is as wide as the wider of its two uses.
    """
    stacks = [weight for weight in block.weights() if weight.kind == _EXPERTS and len(weight.shape) == STACK_DIMENSIONS]
    if not stacks:
        return 0
    hidden, chosen = model.spec.hidden_size, model.spec.num_experts_per_token
    inner = min(weight.numel // weight.shape[0] // hidden for weight in stacks)
    entering = gathered * hidden if gathered > 1 else 0
    return gathered * (chosen * (max(2 * inner, hidden) + inner) + hidden) + entering
