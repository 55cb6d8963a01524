"""Layers of the vision towers of CLIP, SigLIP and ViT."""

from dataclasses import dataclass

from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.weights.tensors import Linear, Norm

KIND = "vision"
"""Kind under which a tower's parameters are counted, but for its table of positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNames:
    """Names of a layer's modules: norms, attention and its output."""

    norms: tuple[str, str] = ("layer_norm1", "layer_norm2")
    attention: str = "self_attn"
    output: str = "out_proj"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropouts:
    """Dropout probabilities of attention scores and hidden states."""

    attention: float = 0.0
    hidden: float = 0.0


def build_vision_layer(  # noqa: PLR0913 - the numbers of a layer, and how its modules are named
    *,
    hidden: int,
    inner: int,
    heads: int,
    activation: str,
    names: LayerNames,
    bias: bool = True,
    dropouts: Dropouts,
) -> Block:
    """Build a pre-norm layer without a causal mask.

    (``CLIPEncoderLayer``, ``ViTLayer``.)
    """
    return Block(
        attention_norm=build_vision_norm(names.norms[0], hidden),
        attention=Attention(
            projections=tuple(
                build_vision_linear(f"{names.attention}.{name}", hidden, hidden, bias=bias)
                for name in ("q_proj", "k_proj", "v_proj")
            ),
            output=build_vision_linear(f"{names.attention}.{names.output}", hidden, hidden),
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=hidden // heads,
            rotary=False,
            causal=False,
            dropout=dropouts.attention,
            output_dropout=dropouts.hidden,
        ),
        feed_forward_norm=build_vision_norm(names.norms[1], hidden),
        feed_forward=FeedForward(
            up=build_vision_linear("mlp.fc1", hidden, inner),
            down=build_vision_linear("mlp.fc2", inner, hidden),
            activation=activation,
            dropout=dropouts.hidden,
        ),
    )


def build_vision_linear(name: str, ins: int, outs: int, *, bias: bool = True) -> Linear:
    """Return a linear layer of a tower."""
    return Linear(name=name, kind=KIND, in_features=ins, out_features=outs, bias=bias)


def build_vision_norm(name: str, size: int) -> Norm:
    """Return a layer norm of a tower."""
    return Norm(name=name, style="layer", size=size, bias=True, kind=KIND)
