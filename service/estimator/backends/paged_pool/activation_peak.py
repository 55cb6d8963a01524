"""Activation peak of a layer on a serving engine.

It is what is alive of one token beside the weights. vLLM 0.19.0, ``models/llama.py`` and
``fused_moe/fused_moe.py``; the same layers run on SGLang and TensorRT-LLM.
"""

from dataclasses import dataclass
from typing import NamedTuple

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.quantization.weights import STACK_DIMENSIONS
from service.estimator.model.weights.tensors import Linear, Split

_EXPERTS = "mlp_experts"
_MIXERS = frozenset({"attention", "ssm"})


@dataclass(frozen=True, slots=True)
class SharedBuffers:
    """Elements of one token where experts share buffers over layers.

    ``layer`` is at the widest point without the buffers, ``buffers`` is in these.
    """

    layer: int
    buffers: int


def count_peak_elements(model: Architecture, *, flash: bool, num_token_ranks: int = 1) -> int:
    """Return the elements per token at the widest point of any layer.

    The hidden states around it are included. Experts get the tokens of ``num_token_ranks`` ranks.
    """
    return max(
        _count_layer_elements(
            model, block, flash=flash, routed=_count_expert_elements(model, block, num_token_ranks)
        )
        for block, _ in model.blocks
    )


def find_shared_buffers(model: Architecture, *, num_token_ranks: int = 1) -> SharedBuffers | None:
    """Return the elements of a model whose experts share buffers.

    None without experts. vLLM 0.19.0, ``TritonExperts.workspace_shapes``: one buffer for what
    leaves the activation and for what the second product gives, another for what goes into the
    activation and for what comes back to the tokens.
    """
    expert_widths = [_find_expert_widths(model, block) for block, _ in model.blocks]
    if not any(expert_widths):
        return None
    hidden, num_chosen = model.spec.hidden_size, model.spec.num_experts_per_token
    rows = num_token_ranks * hidden
    return SharedBuffers(
        layer=max(
            _count_layer_elements(model, block, flash=True, routed=rows if widths else 0)
            for (block, _), widths in zip(model.blocks, expert_widths, strict=True)
        ),
        buffers=max(
            num_token_ranks
            * num_chosen
            * (max(widths.inner, widths.hidden) + max(widths.entering, widths.hidden))
            for widths in expert_widths
            if widths is not None
        ),
    )


def count_attention_elements(model: Architecture) -> int:
    """Return the elements per token around the attention of any layer."""
    return max(_count_attention(model, block)[0] for block, _ in model.blocks)


def _count_layer_elements(
    model: Architecture, block: BlockModule, *, flash: bool, routed: int
) -> int:
    hidden = model.spec.hidden_size
    attention, mixed = _count_attention(model, block)
    # A piece of the model begins after attention and holds its output beside two residuals;
    # xFormers holds one output more.
    around = 2 * hidden + mixed + (0 if flash else hidden)
    return max(attention, around + max(_count_dense_elements(block.linears(), hidden), routed))


def _count_attention(model: Architecture, block: BlockModule) -> tuple[int, int]:
    """Return a token's elements around attention, and those that leave it."""
    hidden = model.spec.hidden_size
    linears = block.linears()
    attention_layers = [layer for layer in linears if layer.kind in _MIXERS]
    leading_back = [layer for layer in attention_layers if layer.out_features == hidden]
    # A recorded model has them as they are declared: a rank's queries may be as wide.
    by_rows = [layer for layer in leading_back if layer.split is Split.ROWS]
    mixed = (by_rows or leading_back)[-1].in_features if leading_back else hidden
    projected = sum(layer.out_features for layer in attention_layers if layer.in_features == hidden)
    return 3 * hidden + projected + mixed, mixed


def _count_dense_elements(linears: tuple[Linear, ...], hidden: int) -> int:
    """Return a dense feed-forward's elements of a token at its peak.

    They are what goes into the activation, and what comes out.
    """
    mlp_layers = [layer for layer in linears if layer.kind == "mlp"]
    entering = sum(layer.out_features for layer in mlp_layers if layer.in_features == hidden)
    leaving = [
        layer.in_features
        for layer in mlp_layers
        if layer.out_features == hidden and layer.in_features != hidden
    ]
    return entering + max(leaving, default=0)


def _count_expert_elements(model: Architecture, block: BlockModule, num_token_ranks: int) -> int:
    """Return the elements that chosen experts hold of a token.

    They are one buffer for both products, the activation, and the sum. vLLM 0.11.0,
    ``fused_moe/fused_moe.py``: ``intermediate_cache13`` is as wide as the wider of its two uses.
    """
    hidden, num_chosen = model.spec.hidden_size, model.spec.num_experts_per_token
    widths = _find_expert_widths(model, block)
    if widths is None:
        return 0
    gathered = num_token_ranks * hidden if num_token_ranks > 1 else 0
    chosen = max(widths.entering, widths.hidden) + widths.inner
    return num_token_ranks * (num_chosen * chosen + hidden) + gathered


class _ExpertWidths(NamedTuple):
    """Features of a rank's expert.

    They are those after its first product, before its last, and outside.
    """

    entering: int
    inner: int
    hidden: int


def _find_expert_widths(model: Architecture, block: BlockModule) -> _ExpertWidths | None:
    """Return the widths of a block's experts; None without.

    Experts without gates have one product in front (vLLM 0.33.0, ``adjust_N_for_activation``), and
    may read fewer features than the model has.
    """
    stacks = [
        weight
        for weight in block.weights()
        if weight.kind == _EXPERTS and len(weight.shape) == STACK_DIMENSIONS
    ]
    if not stacks:
        return None
    for weight in stacks:
        if weight.name.endswith(".up_proj"):
            _, inner, hidden = weight.shape
            return _ExpertWidths(inner, inner, hidden)
    hidden = model.spec.hidden_size
    inner = min(weight.numel // weight.shape[0] // hidden for weight in stacks)
    return _ExpertWidths(2 * inner, inner, hidden) if inner else None
