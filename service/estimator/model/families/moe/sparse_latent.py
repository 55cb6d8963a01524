"""DeepSeek-V3.2 and GLM-5: latent attention to chosen keys, and experts.

Field names and defaults are those of transformers 5.23 (``models/deepseek_v32``,
``models/glm_moe_dsa``).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture, Embed, EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_count,
    read_flag,
    read_integer,
    read_num_shared_experts,
)
from service.estimator.model.families.moe.configs import add_experts, read_base
from service.estimator.model.families.moe.deepseek import (
    LatentSpec,
    build_latent_attention,
    read_latent,
)
from service.estimator.model.families.moe.tree import build_moe, correction_bytes
from service.estimator.model.modules.attention.indexer import Indexer, hand_on
from service.estimator.model.modules.attention.sparse_latent import SparseLatentAttention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.recording import Recording
from service.estimator.model.weights.quantized_layers import ROUTER
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.workload import Attention

_FULL, _SHARED = "F", "S"
"""Letters of a layer with an indexer, and of one that reads what the layer before chose."""
_HANDING = "glm_moe_dsa"
"""Family whose layers hand their choice to the next."""
_WORDS = {"full": _FULL, "shared": _SHARED}
_V32: Mapping[str, int] = {
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "max_position_embeddings": 163840,
    "q_lora_rank": 1536,
    "n_group": 8,
    "topk_group": 4,
    "index_n_heads": 64,
}
_GLM: Mapping[str, int] = {
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "max_position_embeddings": 202752,
    "q_lora_rank": 2048,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "n_group": 1,
    "topk_group": 1,
    "index_n_heads": 32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseLatentSpec(LatentSpec):
    """Numbers of a decoder whose attention reads chosen keys.

    ``layer_kinds`` has a letter for each layer: F has an indexer, S has none, and dense layers have
    small ones. ``predictor_kinds`` is that of a layer that predicts further tokens, where it is not
    the last one's: it has an indexer in any case (vLLM 0.33.0, ``models/deepseek_v2.py``).
    """

    index_heads: int
    index_dim: int
    num_chosen: int
    layer_kinds: str
    predictor_kinds: str
    interleaved_index: bool


SPEC = SparseLatentSpec


def deepseek_v32(config: Config) -> SparseLatentSpec:
    """Return a DeepSeek-V3.2: an indexer in each layer, rotated in halves."""
    return _read(config, _V32, interleaved=False)


def glm_moe_dsa(config: Config) -> SparseLatentSpec:
    """Return a GLM-5: rotated by pairs, layers that share a choice."""
    return _read(config, _GLM, interleaved=True)


def _read(config: Config, defaults: Mapping[str, int], *, interleaved: bool) -> SparseLatentSpec:
    config = {**defaults, **{name: part for name, part in config.items() if part is not None}}
    if read_flag(config, "mlp_bias", default=False):
        raise NotModelledError("mlp_bias", field="mlp_bias", modelled=["mlp_bias: false"])
    heads = read_integer(config, "num_attention_heads")
    if read_integer(config, "num_key_value_heads", heads) != heads:
        raise NotModelledError(
            "num_key_value_heads other than num_attention_heads",
            field="num_key_value_heads",
            modelled=[str(heads)],
        )
    experts = (
        read_integer(config, "n_routed_experts", 256),
        read_integer(config, "num_experts_per_tok", 8),
    )
    spec = add_experts(
        read_base(config, biased=False),
        experts,
        router="grouped_sigmoid",
        renormalised=read_flag(config, "norm_topk_prob", default=True),
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 2048),
        shared_intermediate_size=read_integer(config, "moe_intermediate_size", 2048)
        * read_num_shared_experts(config, 1),
        first_dense_layers=_count_dense(config),
        num_expert_groups=read_integer(config, "n_group"),
        num_chosen_groups=read_integer(config, "topk_group"),
    )
    kinds = _FULL * spec.num_hidden_layers
    if interleaved:
        kinds = _read_kinds(config, spec.num_hidden_layers)
    num_dense = spec.first_dense_layers
    kinds = kinds[:num_dense].lower() + kinds[num_dense:]
    values = asdict(read_latent(config, spec, complex_rotation=False)) | {
        "index_heads": read_integer(config, "index_n_heads"),
        "index_dim": read_integer(config, "index_head_dim", 128),
        "num_chosen": read_integer(config, "index_topk", 2048),
        "layer_kinds": kinds,
        "predictor_kinds": _FULL if _SHARED in kinds and _FULL in kinds else "",
        "interleaved_index": interleaved,
    }
    return SparseLatentSpec(**values)


def _count_dense(config: Config) -> int:
    """Return the dense layers, which come first, however the config says them."""
    listed = config.get("mlp_layer_types")
    if listed is None:
        return read_count(config, "first_k_dense_replace", 3)
    kinds = list(listed) if isinstance(listed, list) else []
    count = kinds.count("dense")
    if not kinds or kinds != ["dense"] * count + ["sparse"] * (len(kinds) - count):
        message = "mlp_layer_types: dense layers, then sparse ones"
        raise NotModelledError(message, field="mlp_layer_types", modelled=["dense layers first"])
    return count


def _read_kinds(config: Config, num_layers: int) -> str:
    """Return a letter for each layer (``GlmMoeDsaConfig.__post_init__``)."""
    field = "indexer_types" if config.get("indexer_types") is not None else "index_topk_pattern"
    listed = config.get(field)
    if isinstance(listed, list):
        kinds = "".join(_WORDS.get(str(word), "?") for word in listed)
    elif listed is not None:
        kinds = str(listed)
    else:
        period = read_integer(config, "index_topk_freq", 1)
        offset = read_count(config, "index_skip_topk_offset", 2)
        kinds = "".join(
            _SHARED if max(layer - offset + 1, 0) % period else _FULL for layer in range(num_layers)
        )
    if len(kinds) < num_layers or set(kinds) - {_FULL, _SHARED} or not kinds.startswith(_FULL):
        message = (
            f"{field} is {listed!r}; it must say of each of {num_layers} layers whether it is full "
            "or shared, and the first is full"
        )
        raise InvalidConfigError(message, field=field)
    return kinds[:num_layers]


def build(spec: SparseLatentSpec) -> Architecture:
    """Return the tree: dense layers first, with indexers or without."""
    plain = build_moe(spec, _build_attention(spec, _FULL))
    kinds = spec.layer_kinds[: spec.num_hidden_layers]
    present = sorted(set(kinds), key=kinds.index)
    blocks = []
    for kind in present:
        block = plain.blocks[-kind.isupper()][0]
        assert isinstance(block, Block)  # noqa: S101 - build_moe makes no other
        attention = _build_attention(spec, kind.upper())
        blocks.append((replace(block, attention=attention), kinds.count(kind)))
    corrections = tuple(correction_bytes(spec) * kind.isupper() for kind in present)
    order = tuple(map(present.index, kinds))
    indexer = _build_indexer(spec)
    never_trained = {weight.name for weight in indexer.weights()} | {
        f"{layer.name}.{factor}" for layer in indexer.linears() for factor in ("lora_A", "lora_B")
    }
    return replace(
        plain,
        blocks=tuple(blocks),
        order=() if list(order) == sorted(order) else order,
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        layer_buffer_bytes=corrections,
        never_trained=frozenset(never_trained),
        always_masked=True,
        embed=_build_embed(spec),
        chunked=True,
    )


def _build_embed(spec: SparseLatentSpec) -> Embed:
    """Return what stands before the layers: a mask that all read.

    Beside it is a choice of keys, which each layer of GLM-5 hands to the next; the first layer is
    counted as the others, which have that of the layer before. Checkpoints keep all of them.
    """

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        positions = allocate_integers(ctx.tape, ctx.shape.positions(1))
        masks = _make_masks(ctx)
        hands_on = spec.family == _HANDING and not ctx.settings.checkpointed
        choices = (hand_on(ctx, spec.num_chosen),) if hands_on else ()
        return EmbeddingOutput(x=tokens, names=choices, layer_args=(positions, *masks))

    return embed


def _make_masks(ctx: Recording) -> tuple[Value, ...]:
    """Return the mask of booleans, where there is no other."""
    if ctx.padded or ctx.settings.attention is Attention.EAGER:
        return ()
    return (allocate_integers(ctx.tape, ctx.shape.shared_mask(1), bytes_each=1),)


def _build_attention(spec: SparseLatentSpec, kind: str) -> SparseLatentAttention:
    plain = build_latent_attention(spec)
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return SparseLatentAttention(
        **fields,
        indexer=_build_indexer(spec) if kind == _FULL else None,
        num_chosen=spec.num_chosen,
        hands_on=spec.family == _HANDING,
    )


def _build_indexer(spec: SparseLatentSpec) -> Indexer:
    """Return the indexer.

    Engines keep its keys' and weights' layers as they are, in 16 bits: they are one product there.
    """

    def build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
        name = f"self_attn.indexer.{name}"
        return Linear(name=name, kind=kind, in_features=ins, out_features=outs)

    return Indexer(
        wide=build_linear(
            "wq_b", "attention", spec.query_latent, spec.index_heads * spec.index_dim
        ),
        key=build_linear("wk", ROUTER, spec.hidden_size, spec.index_dim),
        key_norm=Norm(
            name="self_attn.indexer.k_norm", style="layer", size=spec.index_dim, bias=True
        ),
        weighing=build_linear("weights_proj", ROUTER, spec.hidden_size, spec.index_heads),
        num_index_heads=spec.index_heads,
        index_dim=spec.index_dim,
        rope_dim=spec.rotary_dim,
        num_chosen=spec.num_chosen,
        interleaved=spec.interleaved_index,
    )
