"""Recording of a model: its config in, its weights and passes out."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from service.estimator.model.recorded.recorded_model import RecordedLayer, RecordedModel
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.program import CacheUpdate
from service.estimator.tape.programs.recorded_pass import RecordedPass
from worker.probes.architecture.depth import (
    Signature,
    Stack,
    count_needed,
    find_stack,
    shorten,
)
from worker.probes.architecture.listen import Phase, Variant, listen_twice, make_fake_model
from worker.probes.architecture.lowering import Passes
from worker.probes.architecture.model_class import build_any_model, build_config
from worker.probes.architecture.polynomials import EXTENTS
from worker.probes.architecture.programs import LoweredPass, lower_pass
from worker.probes.architecture.steps import make_steps

VARIANTS = {
    "fp32": Variant(dtype=torch.float32),
    "half": Variant(dtype=torch.bfloat16),
    "autocast": Variant(dtype=torch.float32, autocast=torch.bfloat16),
    "fp32/frozen": Variant(dtype=torch.float32, frozen=True),
    "half/frozen": Variant(dtype=torch.bfloat16, frozen=True),
    "autocast/frozen": Variant(dtype=torch.float32, autocast=torch.bfloat16, frozen=True),
    "fp32/prefill": Variant(dtype=torch.float32, phase=Phase.PREFILL),
    "fp32/decode": Variant(dtype=torch.float32, phase=Phase.DECODE),
    "half/prefill": Variant(dtype=torch.bfloat16, phase=Phase.PREFILL),
    "half/decode": Variant(dtype=torch.bfloat16, phase=Phase.DECODE),
    "fp32/generate/prefill": Variant(dtype=torch.float32, phase=Phase.GENERATED_PREFILL),
    "fp32/generate/decode": Variant(dtype=torch.float32, phase=Phase.GENERATED_DECODE),
    "half/generate/prefill": Variant(dtype=torch.bfloat16, phase=Phase.GENERATED_PREFILL),
    "half/generate/decode": Variant(dtype=torch.bfloat16, phase=Phase.GENERATED_DECODE),
}


def record_model(
    config: Mapping[str, Any], variants: Mapping[str, Variant] = VARIANTS
) -> RecordedModel:
    """Record a model of a config.

    Raises Refusal for what transformers does not know or what cannot be recorded.
    """
    hf_config = build_config(config)
    hf_config.use_cache = hf_config.get_text_config().use_cache = False
    with torch.device("meta"):
        model = build_any_model(config, hf_config, dtype=torch.float32, attention="sdpa")
    stack = find_stack(model)
    depth = count_needed(stack.signatures)
    lowered = _lower_variants(config, shorten(hf_config, depth), model, variants)
    order = _extend_order(stack, lowered)
    if order is None:
        lowered = _lower_variants(config, hf_config, model, variants)
        order = next(iter(lowered.values())).kinds
    return _describe(model, lowered, order)


def _lower_variants(
    config: Mapping[str, Any],
    hf_config: PreTrainedConfig,
    model: PreTrainedModel,
    variants: Mapping[str, Variant],
) -> dict[str, LoweredPass]:
    head = _find_head(model)
    lowered = {}
    for name, variant in variants.items():
        with make_fake_model(config, hf_config, variant) as fake:
            heard = [listen_twice(fake, variant, extent) for extent in EXTENTS]
        passes = Passes(
            passes=tuple(part.names for part in heard),
            steps=tuple(make_steps(part.names, part.graph) for part in heard),
            embedding=_name_module(model, model.get_input_embeddings()),
        )
        lowered[name] = lower_pass(passes, head)
    return lowered


def _extend_order(stack: Stack, lowered: Mapping[str, LoweredPass]) -> tuple[int, ...] | None:
    """Return every layer's kind.

    None where layers that look alike ran differently.
    """
    all_kinds = {part.kinds for part in lowered.values()}
    if len(all_kinds) > 1 or any(part.prefix != stack.prefix for part in lowered.values()):
        return None
    kinds: dict[Signature, int] = {}
    for signature, kind in zip(stack.signatures, all_kinds.pop(), strict=False):
        if kinds.setdefault(signature, kind) != kind:
            return None
    return tuple(kinds[signature] for signature in stack.signatures)


def _find_head(model: PreTrainedModel) -> str | None:
    output = model.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    return None if output is None else _name_module(model, output)


def _name_module(model: nn.Module, part: nn.Module) -> str:
    names: dict[int, str] = {id(module): name for name, module in model.named_modules()}
    return names[id(part)]


def _describe(
    model: PreTrainedModel, lowered: Mapping[str, LoweredPass], order: tuple[int, ...]
) -> RecordedModel:
    prefix, head = next(iter(lowered.values())).prefix, _find_head(model) or ""
    weights = {name: _make_weight(name, weight) for name, weight in model.named_parameters()}
    linears = [
        _make_linear(name, module)
        for name, module in model.named_modules()
        if type(module) is nn.Linear
    ]
    served = [part.recorded for name, part in lowered.items() if name.endswith("/prefill")]
    layers = [
        _add_cache(_select_layer(prefix, order.index(kind), weights, linears), served, kind)
        for kind in range(max(order) + 1)
    ]
    embedding = model.get_input_embeddings().weight
    table = next(name for name, weight in model.named_parameters() if weight is embedding)
    return RecordedModel(
        spec=_make_spec(model.config),
        model_type=model.config.model_type,
        model_class=type(model).__name__,
        transformers=transformers.__version__,
        torch=torch.__version__,
        layers=tuple(layers),
        order=order,
        outer_weights=tuple(
            weight for name, weight in weights.items() if not name.startswith(prefix)
        ),
        outer_linears=tuple(
            layer for layer in linears if not layer.name.startswith(prefix) and layer.name != head
        ),
        embedding=table,
        head=head,
        buffer_bytes=sum(buffer.numel() * buffer.element_size() for buffer in model.buffers()),
        digest=sha256(repr(lowered).encode()).hexdigest(),
        passes={name: part.recorded for name, part in lowered.items()},
    )


def _select_layer(
    prefix: str, index: int, weights: Mapping[str, Weight], linears: list[Linear]
) -> RecordedLayer:
    start = f"{prefix}{index}."
    return RecordedLayer(
        weights=tuple(
            Weight(name.removeprefix(start), weight.kind, weight.shape)
            for name, weight in weights.items()
            if name.startswith(start)
        ),
        linears=tuple(
            Linear(
                name=layer.name.removeprefix(start),
                kind=layer.kind,
                in_features=layer.in_features,
                out_features=layer.out_features,
                bias=layer.bias,
            )
            for layer in linears
            if layer.name.startswith(start)
        ),
    )


def _add_cache(layer: RecordedLayer, served: list[RecordedPass], kind: int) -> RecordedLayer:
    """Return a kind of layer with what its cache keeps."""
    if not served:
        return layer
    block = served[0].blocks[kind]
    updates = [part for part in block.instructions if isinstance(part, CacheUpdate)]
    elements = sum(
        sum(block.values[part].numel[1:4:2]) for update in updates for part in update.parts
    )
    window = updates[0].window if updates else None
    return replace(layer, cache_elements=elements, cache_window=window)


def _make_weight(name: str, weight: torch.Tensor) -> Weight:
    return Weight(name, guess_kind(name), tuple(weight.shape))


def _make_linear(name: str, layer: nn.Linear) -> Linear:
    return Linear(
        name=name,
        kind=guess_kind(name),
        in_features=layer.in_features,
        out_features=layer.out_features,
        bias=layer.bias is not None,
    )


_KINDS = (
    (r"norm|ln_|\bln", "norm"),
    (r"router|\bgate\.weight", "router"),
    (r"attn|attention", "attention"),
    (r"mlp|expert|feed_forward|ffn|fc\d|dense", "mlp"),
    (r"embed", "embedding"),
    (r"head", "head"),
)


def guess_kind(name: str) -> str:
    """Return the kind under which a weight is counted, by its name."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, name)), "other")


def _make_spec(hf_config: PreTrainedConfig) -> DecoderSpec:
    text = hf_config.get_text_config()

    def read(*names: str, default: int = 0) -> int:
        values = (getattr(text, name, None) for name in names)
        return next((value for value in values if isinstance(value, int)), default)

    heads = read("num_attention_heads", "n_head", default=1)
    hidden = read("hidden_size", "d_model", "n_embd", default=1)
    return DecoderSpec(
        family=hf_config.model_type,
        vocab_size=read("vocab_size"),
        hidden_size=hidden,
        num_hidden_layers=read("num_hidden_layers", "n_layer", default=1),
        num_attention_heads=heads,
        num_key_value_heads=read("num_key_value_heads", default=heads),
        head_dim=read("head_dim", default=hidden // heads),
        intermediate_size=read("intermediate_size"),
        activation=str(getattr(text, "hidden_act", "")),
        tie_word_embeddings=bool(getattr(text, "tie_word_embeddings", False)),
        max_position_embeddings=read("max_position_embeddings"),
    )
