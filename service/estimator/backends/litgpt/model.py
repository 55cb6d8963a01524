"""A model as LitGPT builds it from its ``Config`` (``litgpt/config.py``, ``litgpt/model.py``).

The weights are those of the model; query, key and value are one layer, gate and up projection two,
and the head is a table of its own.
"""

from dataclasses import dataclass, fields, replace

from service.estimator.backends.litgpt.attention import LitGptAttention
from service.estimator.backends.litgpt.blocks import LitGptBlock, LitGptFeedForward
from service.estimator.backends.litgpt.linears import FusedProjection
from service.estimator.backends.litgpt.norms import PLUS_ONE
from service.estimator.backends.litgpt.prompts import (
    FIRST_LAYER,
    Prompt,
    list_second_weights,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import NF4, NF4_SINGLE
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.releases.litgpt import TARGETS, Adapter, LitGptCode, find_code
from service.estimator.values.workload import Lora, Method, TrainWorkload

PARALLEL = frozenset({"falcon", "gpt_neox", "phi"})
"""Families whose layers add attention and feed-forward to the same input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGptSpec(DecoderSpec):
    """Numbers and switches of a model, and its code's state."""

    code: LitGptCode
    final_norm: Norm
    rope_dim: int
    is_parallel: bool
    shares_norm: bool
    projection_bias: bool
    """Whether query, key and value have biases."""
    bias: bool
    """Whether all other layers have."""
    head_bias: bool
    scales_embedding: bool
    scheme: Scheme | None
    follows_equal: bool
    """Whether the batch before is as long: its logits are there until the next ones are."""
    kept_input_width: int
    """Elements per token that products with packed weights keep as long as their graph."""


def build_litgpt_model(model: Architecture, workload: TrainWorkload) -> Architecture:
    """Return a model of a family that the rules name, as LitGPT's."""
    spec = _read_spec(model, workload)
    hidden, vocab = spec.hidden_size, spec.vocab_size
    return Architecture(
        spec=spec,
        embedding=Weight("wte.weight", "embedding", (vocab, hidden)),
        position_embedding=None,
        blocks=_build_blocks(spec),
        final_norm=None if spec.code.adapter is Adapter.V2 else spec.final_norm,
        head=(head := _build_linear("head", "lm_head", hidden, vocab, bias=spec.head_bias)),
        outer_linears=(head,),
        masks=(),
        walker=("backends.litgpt.step", "LitGptStep"),
        quantization=spec.scheme,
    )


def list_adapters(model: Architecture) -> tuple[tuple[Weight, int], ...]:
    """Return the tensors of LitGPT's own adapters with their counts."""
    spec = model.spec
    assert isinstance(spec, LitGptSpec)  # noqa: S101 - whoever made the model
    pairs = [
        (weight, count)
        for block, count in model.blocks
        if isinstance(block, LitGptBlock)
        for weight in block.adapter_weights()
    ]
    if spec.code.adapter is Adapter.V2:
        outer = list_second_weights((model.head,), (spec.final_norm,))
        pairs += [(weight, 1) for weight in outer]
    return tuple(pairs)


def name_targets(lora: Lora, dtype: DType) -> Lora:
    """Return adapters in the format of the weights.

    Their targets are names of layers. Where none are said they are on all layers but the head.
    """
    targets = TARGETS[:-1] if lora.targets is None else lora.targets
    names = tuple(name for word in targets for name in (_MLP if word == "mlp" else (word,)))
    return replace(lora, targets=names, dtype=dtype)


_MLP = ("fc", "fc_1", "fc_2", "down")


def _read_spec(model: Architecture, workload: TrainWorkload) -> LitGptSpec:
    spec, family = model.spec, model.family
    code, scheme = _read_code(workload), _select_scheme(model, workload)
    common = {field.name: getattr(spec, field.name) for field in fields(DecoderSpec)}
    is_biased = family in {"gpt_neox", "phi"}
    num_norms = getattr(spec, "num_norms", 1)
    built = LitGptSpec(
        final_norm=_build_norm(spec, "ln_f"),
        **(common | {"tie_word_embeddings": False, "sliding_window": None}),
        code=code,
        rope_dim=getattr(spec, "rotary_dim", 0) or spec.head_dim,
        is_parallel=family in PARALLEL and getattr(spec, "parallel_residual", True),
        shares_norm=family == "phi" or (family == "falcon" and num_norms == 1),
        projection_bias=is_biased or spec.attention_bias,
        bias=is_biased,
        head_bias=model.head.bias,
        scales_embedding=family == "gemma",
        scheme=scheme,
        follows_equal=not workload.sequence_lengths,
        kept_input_width=0,
    )
    if scheme is None or code.frees_packed_inputs:
        return built
    return replace(built, kept_input_width=_count_kept_inputs(built, workload.lora))


def _read_code(workload: TrainWorkload) -> LitGptCode:
    code = find_code(workload.framework_version)
    return code if workload.peft is None else replace(code, adapter=Adapter(workload.peft))


def _count_kept_inputs(spec: LitGptSpec, lora: Lora | None) -> int:
    """Return the elements per token of inputs that are kept.

    The head's are among them. What has no gradient is not kept: of the first layer its norm, and
    side by side with attention its feed-forward where no adapter is in that. Layers before the
    first prompt have none, and a trained norm gives all of them one.
    """
    hidden, inner, adapter = spec.hidden_size, spec.intermediate_size, spec.code.adapter
    norms = hidden if spec.shares_norm else 2 * hidden
    layer = norms + spec.num_attention_heads * spec.head_dim + inner
    if adapter is Adapter.V2:
        return spec.num_hidden_layers * layer + hidden
    width = (spec.num_hidden_layers - (FIRST_LAYER if adapter else 0)) * layer
    adapts_inner = lora is not None and (lora.targets is None or "mlp" in lora.targets)
    if spec.is_parallel and not adapts_inner:
        width -= norms - hidden + inner
    return width


def _select_scheme(model: Architecture, workload: TrainWorkload) -> Scheme | None:
    """Return the storage of all linear layers, the head among them."""
    scheme = model.quantization
    if scheme is None and workload.method is Method.QLORA:
        scheme = NF4 if workload.double_quantization else NF4_SINGLE
    return None if scheme is None else replace(scheme, head=True)


def _build_blocks(spec: LitGptSpec) -> tuple[tuple[LitGptBlock, int], ...]:
    block, count = _build_block(spec), spec.num_hidden_layers
    if spec.code.adapter is None:
        return ((block, count),)
    attention = block.attention
    prompt = Prompt(projection=attention.projection, num_heads=attention.num_heads, code=spec.code)
    prompted = replace(block, attention=replace(attention, prompt=prompt))
    return (block, FIRST_LAYER), (prompted, count - FIRST_LAYER)


def _build_block(spec: LitGptSpec) -> LitGptBlock:
    return LitGptBlock(
        attention_norm=_build_norm(spec, "norm_1"),
        attention=_build_attention(spec),
        feed_forward_norm=None if spec.shares_norm else _build_norm(spec, "norm_2"),
        feed_forward=_build_feed_forward(spec),
        is_parallel=spec.is_parallel,
        code=spec.code,
    )


def _build_norm(spec: DecoderSpec, name: str) -> Norm:
    has_bias = spec.norm == "layer"
    style = PLUS_ONE if spec.norm == PLUS_ONE else "layer" if has_bias else "rms"
    return Norm(name=name, style=style, size=spec.hidden_size, bias=has_bias)


def _build_attention(spec: LitGptSpec) -> LitGptAttention:
    hidden, query = spec.hidden_size, spec.num_attention_heads * spec.head_dim
    key = spec.num_key_value_heads * spec.head_dim
    query_part, key_part, value_part = (
        _build_linear(f"attn.{name}", "attention", hidden, width, bias=False)
        for name, width in (("query", query), ("key", key), ("value", key))
    )
    fused = _build_linear(
        "attn.qkv", "attention", hidden, query + 2 * key, bias=spec.projection_bias
    )
    return LitGptAttention(
        projection=FusedProjection(fused=fused, parts=(query_part, key_part, value_part)),
        output=_build_linear("attn.projection", "attention", query, hidden, bias=spec.bias),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rope_dim=spec.rope_dim,
        code=spec.code,
    )


def _build_feed_forward(spec: LitGptSpec) -> LitGptFeedForward:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    names = ("fc_1", "fc_2") if spec.gated else ("fc",)
    layers = [_build_linear(f"mlp.{name}", "mlp", hidden, inner, bias=spec.bias) for name in names]
    output = _build_linear("mlp.down", "mlp", inner, hidden, bias=spec.bias)
    is_silu = spec.gated and spec.activation in {"silu", "swish"}
    return LitGptFeedForward(layers=(*layers, output), is_silu=is_silu, code=spec.code)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
