"""The widest point of a layer on a serving engine: what is alive of one token beside the weights.

vLLM 0.19.0, ``models/llama.py`` and ``fused_moe/fused_moe.py``; the same layers run on SGLang and TensorRT-LLM.
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.quantization.weights import STACK_DIMENSIONS
from service.estimator.model.weights.tensors import Linear

_EXPERTS = "mlp_experts"


@dataclass(frozen=True, slots=True)
class Apart:
    """Elements of one token where experts work in buffers that all layers share: at the widest point without, and in these."""

    layer: int
    buffers: int


def widest_layer(model: Architecture, *, flash: bool, gathered: int = 1) -> int:
    """Return the elements per token that are alive at the widest point of any layer, with the hidden states around it.

    Experts get the tokens of so many ranks, ``gathered`` for them.
    """
    return max(_widest(model, block, flash=flash, routed=_expert_width(model, block, gathered)) for block, _ in model.blocks)


def apart(model: Architecture, *, gathered: int = 1) -> Apart | None:
    """Return the widths of a model whose experts have buffers of their own; None without experts.

    vLLM 0.19.0, ``TritonExperts.workspace_shapes``: one buffer for what leaves the activation and for what the second product
    gives, another for what goes into the activation and for what comes back to the tokens.
    """
    inners = [_expert_inner(model, block) for block, _ in model.blocks]
    if not any(inners):
        return None
    hidden, chosen = model.spec.hidden_size, model.spec.num_experts_per_token
    rows = gathered * hidden
    return Apart(
        layer=max(
            _widest(model, block, flash=True, routed=rows if inner else 0)
            for (block, _), inner in zip(model.blocks, inners, strict=True)
        ),
        buffers=max(gathered * chosen * (max(inner, hidden) + max(2 * inner, hidden)) for inner in inners if inner),
    )


def _widest(model: Architecture, block: BlockModule, *, flash: bool, routed: int) -> int:
    hidden = model.spec.hidden_size
    linears = block.linears()
    attending = [layer for layer in linears if layer.kind == "attention"]
    mixed = next((layer.in_features for layer in reversed(attending) if layer.out_features == hidden), hidden)
    projected = sum(layer.out_features for layer in attending if layer.in_features == hidden)
    attention = 3 * hidden + projected + mixed
    # A piece of the model begins after attention and holds its output beside two residuals; xFormers holds one output more.
    around = 2 * hidden + mixed + (0 if flash else hidden)
    return max(attention, around + max(_dense_width(linears, hidden), routed))


def _dense_width(linears: tuple[Linear, ...], hidden: int) -> int:
    """Return what a dense feed-forward holds of a token at its widest: what goes into the activation, and what comes out."""
    inner = [layer for layer in linears if layer.kind == "mlp"]
    entering = sum(layer.out_features for layer in inner if layer.in_features == hidden)
    leaving = [layer.in_features for layer in inner if layer.out_features == hidden and layer.in_features != hidden]
    return entering + max(leaving, default=0)


def _expert_width(model: Architecture, block: BlockModule, gathered: int) -> int:
    """Return what chosen experts hold of a token: one buffer for both products, the activation, and the sum.

    vLLM 0.11.0, ``fused_moe/fused_moe.py``: ``intermediate_cache13`` is as wide as the wider of its two uses.
    """
    hidden, chosen, inner = model.spec.hidden_size, model.spec.num_experts_per_token, _expert_inner(model, block)
    if not inner:
        return 0
    entering = gathered * hidden if gathered > 1 else 0
    return gathered * (chosen * (max(2 * inner, hidden) + inner) + hidden) + entering


def _expert_inner(model: Architecture, block: BlockModule) -> int:
    """Return the inner features of a block's experts; 0 without."""
    stacks = [weight for weight in block.weights() if weight.kind == _EXPERTS and len(weight.shape) == STACK_DIMENSIONS]
    return min((weight.numel // weight.shape[0] // model.spec.hidden_size for weight in stacks), default=0)
