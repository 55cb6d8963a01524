"""Zamba2 (arXiv:2411.15242): Mamba-2 layers with shared transformers.

Some of the layers stand behind a transformer that they share with others. Field names and defaults
are those of transformers 5.23 (``models/zamba2``).
"""

from dataclasses import replace

from service.estimator.model.adapters.parameters import ADAPTER_PARTS
from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.block_module import BlockModule
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_string,
)
from service.estimator.model.families.ssm.zamba2_spec import Zamba2Spec, check_heads
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.modules.ssm.mamba_block import MambaBlock
from service.estimator.model.modules.ssm.shared_block import (
    AdaptedAttention,
    AdaptedFeedForward,
    AdapterLayers,
    HybridLayer,
    SharedTransformer,
)
from service.estimator.model.recording import Recording
from service.estimator.model.trees.decoder import rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.products import allocate_integers, copy_contiguous
from service.estimator.tape.shared_weights import SharedLayerState
from service.estimator.values.errors import InvalidConfigError, NotModelledError

_HYBRID, _MIXERS = "hybrid", ("linear_attention", "mamba")
_PUBLISHED = ["m"] + (["m"] * 5 + ["h"]) * 7 + ["m"] * 4 + ["h"] + ["m"] * 3 + ["h"] + ["m"] * 2
"""``layers_block_type`` where a config has none (configuration_zamba2.py): m a mixer, h a hybrid.
"""


SPEC = Zamba2Spec


class Zamba2(Architecture):
    """Zamba2 model, which is rebuilt when it is cut.

    Each shared transformer has adapters for all layers that use it.
    """

    __slots__ = ()

    def with_layers(self, num_layers: int) -> Architecture:
        """Return the model cut to its first layers."""
        cut = super().with_layers(num_layers).spec
        assert isinstance(cut, Zamba2Spec)  # noqa: S101 - the family's own
        return build(replace(cut, layer_kinds=cut.layer_kinds[:num_layers]))


def zamba2(config: Config) -> Zamba2Spec:
    """Return a Zamba2."""
    hidden, heads = (
        read_integer(config, "hidden_size", 2560),
        read_integer(config, "num_attention_heads", 32),
    )
    if not read_flag(config, "tie_word_embeddings", default=True):
        what = "tie_word_embeddings false, which unties the shared transformers as well"
        raise NotModelledError(what, field="tie_word_embeddings", modelled=["true"])
    mixer_heads = read_integer(config, "n_mamba_heads", 8)
    kinds, bias = _read_kinds(config), read_flag(config, "add_bias_linear", default=False)
    return Zamba2Spec(
        family=read_string(config, "model_type", "zamba2"),
        vocab_size=read_integer(config, "vocab_size", 32000),
        hidden_size=hidden,
        num_hidden_layers=len(kinds),
        num_attention_heads=heads,
        num_key_value_heads=read_integer(config, "num_key_value_heads", heads),
        head_dim=_divide(2 * hidden, heads, "num_attention_heads"),
        intermediate_size=read_integer(config, "intermediate_size", 4 * hidden),
        activation=read_string(config, "hidden_act", "gelu"),
        tie_word_embeddings=True,
        mlp_bias=bias,
        rotary=read_flag(config, "use_mem_rope", default=False),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        layer_kinds=kinds,
        num_transformers=read_integer(config, "num_mem_blocks", 1),
        adapter_rank=read_integer(config, "adapter_rank", 128),
        adapts_attention=read_flag(config, "use_shared_attention_adapter", default=False),
        mixer_heads=mixer_heads,
        mixer_head_dim=_divide(
            read_integer(config, "mamba_expand", 2) * hidden, mixer_heads, "n_mamba_heads"
        ),
        state_size=read_integer(config, "mamba_d_state", 64),
        num_groups=read_integer(config, "mamba_ngroups", 1),
        kernel_size=read_integer(config, "mamba_d_conv", 4),
        chunk_size=read_integer(config, "chunk_size", 256),
    )


def _divide(total: int, parts: int, field: str) -> int:
    if total % parts:
        message = f"{field} {parts} does not divide {total}"
        raise InvalidConfigError(message, field=field)
    return total // parts


def _read_kinds(config: Config) -> str:
    """Return a letter for each layer."""
    field = "layers_block_type" if "layers_block_type" in config else "layer_types"
    listed = config.get(field) or [_HYBRID if kind == "h" else _MIXERS[0] for kind in _PUBLISHED]
    if not isinstance(listed, list) or any(kind not in {_HYBRID, *_MIXERS} for kind in listed):
        message = (
            f"{field} is {listed!r}; it must be a list of {_HYBRID} and {' or '.join(_MIXERS)}"
        )
        raise InvalidConfigError(message, field=field)
    if len(listed) != (count := read_integer(config, "num_hidden_layers", 54)):
        message = f"{field} has {len(listed)} layers, but num_hidden_layers is {count}"
        raise InvalidConfigError(message, field=field)
    return "".join("h" if kind == _HYBRID else "m" for kind in listed)


def build(spec: Zamba2Spec) -> Architecture:
    """Return the tree of mixers and hybrid layers.

    Every hybrid layer is a kind of its own, since no two have the same place in backward.
    """
    check_heads(spec)
    hybrids = _build_hybrid_layers(spec)
    mixers = spec.layer_kinds.count("m")
    plain: list[tuple[BlockModule, int]] = [(_build_mixer_layer(spec), mixers)] if mixers else []
    places = iter(range(len(plain), len(plain) + len(hybrids)))
    names = frozenset(
        weight.name for layer in hybrids for weight in layer.transformer.shared_weights()
    )
    rotary = spec.head_dim if spec.rotary else 0
    return Zamba2(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=(*plain, *((layer, 1) for layer in hybrids)),
        order=tuple(next(places) if kind == "h" else 0 for kind in spec.layer_kinds),
        final_norm=_build_norm("final_layernorm", spec.hidden_size),
        head=_build_linear("lm_head", "lm_head", spec.hidden_size, spec.vocab_size),
        rotary_tables=(rotary, rotary) if rotary else (),
        buffer_bytes=rotary_buffer_bytes(rotary),
        recurrent=True,
        chunked=True,
        embed=lambda ctx, tokens: _record_embedding(ctx, tokens, names),
        never_trained=frozenset(
            f"{layer.name}.{part}"
            for hybrid in hybrids
            for layer in hybrid.unread
            for part in ADAPTER_PARTS
        ),
        shares_weights=bool(names),
    )


def _record_embedding(ctx: Recording, tokens: Value, names: frozenset[str]) -> EmbeddingOutput:
    """Return the embeddings, and a copy that every layer takes.

    The copy is an argument of every layer. The hidden state is a value of its own: a checkpoint has
    its gradient first, while the copy's goes to the embedding.
    """
    original, x = copy_contiguous(ctx.tape, tokens), ctx.tape.alias(tokens)
    ctx.tape.free(tokens)
    ctx.common = SharedLayerState(names, original)
    return EmbeddingOutput(
        x=x, layer_args=(allocate_integers(ctx.tape, ctx.shape.positions(1)), original)
    )


def _build_hybrid_layers(spec: Zamba2Spec) -> list[HybridLayer]:
    """Return the hybrid layers in order.

    Each shared transformer comes round again, with adapters for all layers that use it.
    """
    count, period = spec.layer_kinds.count("h"), spec.num_transformers
    return [
        HybridLayer(
            transformer=_build_transformer(spec, index % period, adapter_index=index),
            linear=_build_linear("linear", "other", spec.hidden_size, spec.hidden_size),
            decoder=_build_mixer_layer(spec, "mamba_decoder."),
            owns=index < period,
            unread=tuple(
                layer
                for other in range(index % period, count, period)
                if other != index
                for layer in _build_transformer(
                    spec, index % period, adapter_index=other, prefix="unread."
                ).adapter_linears()
            ),
        )
        for index in range(count)
    ]


def _build_transformer(
    spec: Zamba2Spec, index: int, *, adapter_index: int, prefix: str = ""
) -> SharedTransformer:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    name = f"shared_transformer.{index}"
    adapter_name = (
        f"{prefix}shared_transformer.feed_forward.gate_up_proj_adapter_list.{adapter_index}"
    )
    return SharedTransformer(
        attention_norm=_build_norm(f"{name}.input_layernorm", 2 * hidden),
        attention=_build_attention(spec, name, adapter_index=adapter_index, prefix=prefix),
        feed_forward_norm=_build_norm(f"{name}.pre_ff_layernorm", hidden),
        feed_forward=AdaptedFeedForward(
            gate_up=_build_linear(
                f"{name}.feed_forward.gate_up_proj", "mlp", hidden, 2 * inner, bias=spec.mlp_bias
            ),
            down=_build_linear(
                f"{name}.feed_forward.down_proj", "mlp", inner, hidden, bias=spec.mlp_bias
            ),
            adapter=_build_adapter(spec, adapter_name, "mlp", hidden, 2 * inner),
            activation=spec.activation,
        ),
    )


def _build_attention(
    spec: Zamba2Spec, name: str, *, adapter_index: int, prefix: str
) -> AdaptedAttention:
    hidden, wide = spec.hidden_size, 2 * spec.hidden_size
    key = spec.num_key_value_heads * spec.head_dim
    adapted = ("q", "k", "v") if spec.adapts_attention else ()
    return AdaptedAttention(
        projections=tuple(
            _build_linear(f"{name}.self_attn.{part}_proj", "attention", wide, out)
            for part, out in (("q", wide), ("k", key), ("v", key))
        ),
        output=_build_linear(f"{name}.self_attn.o_proj", "attention", wide, hidden),
        adapters=tuple(
            _build_adapter(
                spec,
                f"{prefix}shared_transformer.self_attn.linear_{part}_adapter_list.{adapter_index}",
                "attention",
                wide,
                wide,
            )
            for part in adapted
        ),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=spec.rotary,
        dropout=spec.attention_dropout,
    )


def _build_adapter(spec: Zamba2Spec, name: str, kind: str, ins: int, outs: int) -> AdapterLayers:
    rank = spec.adapter_rank
    return _build_linear(f"{name}.0", kind, ins, rank), _build_linear(f"{name}.1", kind, rank, outs)


def _build_mixer_layer(spec: Zamba2Spec, prefix: str = "") -> MambaBlock:
    hidden, inner, name = spec.hidden_size, spec.mixer_heads * spec.mixer_head_dim, f"{prefix}mamba"
    convolved = inner + 2 * spec.num_groups * spec.state_size
    mixer = Mamba2Mixer(
        in_proj=_build_linear(
            f"{name}.in_proj",
            "ssm",
            hidden,
            inner + convolved + spec.mixer_heads,
            bias=spec.mlp_bias,
        ),
        out_proj=_build_linear(f"{name}.out_proj", "ssm", inner, hidden, bias=spec.mlp_bias),
        name=name,
        num_heads=spec.mixer_heads,
        head_dim=spec.mixer_head_dim,
        state_size=spec.state_size,
        num_groups=spec.num_groups,
        kernel_size=spec.kernel_size,
        chunk_size=spec.chunk_size,
        convolution_bias=True,
        activation="silu",
        norm_groups=spec.num_groups,
    )
    return MambaBlock(
        norm=_build_norm(f"{prefix}input_layernorm", hidden), mixer=mixer, fp32_residual=False
    )


def _build_norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="rms", size=size)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
