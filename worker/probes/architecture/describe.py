"""Weights, linear layers and numbers of a recorded model."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.integrations.heterogeneity import AmbiguousGlobalPerLayerAttributeError

from service.estimator.model.recorded.inputs import RecordedInput
from service.estimator.model.recorded.kinds import count_experts, guess_kind
from service.estimator.model.recorded.recorded_model import (
    CacheParts,
    RecordedLayer,
    RecordedModel,
    RecordedSpec,
)
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.program import CacheUpdate, flatten
from service.estimator.tape.programs.recorded_pass import RecordedPass
from service.estimator.tape.programs.stepped_sizes import count_row_elements
from service.probing.refusal import Refusal
from worker.probes.architecture.buffers import count_buffers
from worker.probes.architecture.listening.anchor import find_embedder
from worker.probes.architecture.listening.reading import find_reading
from worker.probes.architecture.plans import list_plan, select_plan
from worker.probes.architecture.programs import LoweredPass


def find_head(model: PreTrainedModel) -> str | None:
    """Return the name of the output layer, None without one."""
    output = model.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    return _name_module(model, output) if type(output) is nn.Linear else None


def find_embedding(model: PreTrainedModel) -> nn.Module | None:
    """Return the module with the table of tokens, if any."""
    module = find_embedder(model)
    weight = getattr(module, "weight", None)
    is_table = isinstance(weight, nn.Parameter) and weight.dim() == 2  # noqa: PLR2004 - rows and columns
    return module if is_table else None


def name_embeddings(model: PreTrainedModel) -> frozenset[str]:
    """Return the names of the modules that embed tokens or patches.

    They are those that have the table: an encoder and a decoder have one each.
    """
    embedder, table = find_embedder(model), find_embedding(model)
    if embedder is None:
        return frozenset()
    return frozenset(
        name
        for name, module in model.named_modules()
        if module is embedder
        or (
            table is not None and isinstance(module, nn.Embedding) and module.weight is table.weight
        )
    )


def _name_module(model: nn.Module, part: nn.Module) -> str:
    names: dict[int, str] = {id(module): name for name, module in model.named_modules()}
    return names[id(part)]


def describe_model(
    model: PreTrainedModel,
    lowered: Mapping[str, LoweredPass],
    order: tuple[int, ...],
    caches: Sequence[CacheParts | None] = (),
) -> RecordedModel:
    """Return the recording of a model whose passes are ``lowered``.

    ``caches`` are what the cache keeps of the layers, or of the first of them.
    """
    prefix, head = next(iter(lowered.values())).prefix, find_head(model) or ""
    plan = list_plan(model)
    weights = _list_weights(model, head)
    linears = [
        _make_linear(name, module)
        for name, module in model.named_modules()
        if type(module) is nn.Linear and f"{name}.weight" in weights
    ]
    served = [part.recorded for name, part in lowered.items() if name.endswith("/prefill")]
    layers = [
        replace(
            _add_cache(_select_layer(prefix, order.index(kind), weights, linears), served, kind),
            plan=select_plan(plan, f"{prefix}{order.index(kind)}."),
            cache=_select_cache(caches, order, kind),
        )
        for kind in range(max(order, default=-1) + 1)
    ]
    outer = _list_outer(prefix, [*plan, *weights, *(layer.name for layer in linears)])
    table, embedding = "", find_embedding(model)
    if embedding is not None:
        table = next(n for n, w in model.named_parameters() if w is embedding.weight)
    output = model.get_submodule(head) if head else None
    is_tied = output is not None and embedding is not None and output.weight is embedding.weight
    digest = sha256(repr((lowered, weights)).encode()).hexdigest()
    buffer_elements, buffer_bytes = count_buffers(model)
    return RecordedModel(
        spec=_make_spec(model.config, digest, layers, is_tied=is_tied),
        model_type=model.config.model_type,
        model_class=type(model).__name__,
        transformers=transformers.__version__,
        torch=torch.__version__,
        layers=tuple(layers),
        order=order,
        outer_weights=tuple(weight for name, weight in weights.items() if name in outer),
        outer_linears=tuple(layer for layer in linears if layer.name in outer - {head}),
        embedding=table,
        head=head,
        buffer_bytes=buffer_bytes,
        buffer_elements=buffer_elements,
        difference=max(part.difference for part in lowered.values()),
        rotary_elements=_count_rotary_elements(model),
        reads=_find_told_reading(model),
        outer_plan=tuple((name, style) for name, style in plan.items() if name in outer),
        passes={name: part.recorded for name, part in lowered.items()},
    )


def _find_told_reading(model: PreTrainedModel) -> RecordedInput | None:
    """Return the items that a model reads, if told.

    None where its config does not say their size: its weights are described all the same.
    """
    try:
        return find_reading(model)
    except Refusal:
        return None


def _list_weights(model: PreTrainedModel, head: str) -> dict[str, Weight]:
    """Return the weights by name.

    A bias that the head shares has the head's name.
    """
    bias = model.get_submodule(head).bias if head else None
    names = {
        name: f"{head}.bias" if weight is bias else name
        for name, weight in model.named_parameters()
    }
    return {
        names[name]: _make_weight(names[name], weight) for name, weight in model.named_parameters()
    }


def _count_rotary_elements(model: PreTrainedModel) -> int:
    """Return the elements per position of the tables of rotations.

    Each frequency turns two of them (transformers 5.23, ``modeling_rope_utils.py``). A module may
    have frequencies for each kind of layer (Gemma 3).
    """
    counts: Counter[str] = Counter()
    for name, buffer in model.named_buffers():
        module, _, word = name.rpartition(".")
        if word.endswith("inv_freq") and not word.endswith("original_inv_freq"):
            counts[module] += 2 * buffer.numel()
    return max(counts.values(), default=0)


def _select_layer(
    prefix: str | None, index: int, weights: Mapping[str, Weight], linears: list[Linear]
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
    updates = [part for part in flatten(block.instructions) if isinstance(part, CacheUpdate)]
    elements = sum(
        count_row_elements(block.values[part].numel) for update in updates for part in update.parts
    )
    window = updates[0].window if updates else None
    return replace(layer, cache_elements=elements, cache_window=window)


def _make_weight(name: str, weight: torch.Tensor) -> Weight:
    return Weight(name, guess_kind(name), tuple(weight.shape))


def _make_linear(name: str, layer: nn.Linear) -> Linear:
    return Linear(
        name=name,
        kind=guess_kind(f"{name}.weight"),
        in_features=layer.in_features,
        out_features=layer.out_features,
        bias=layer.bias is not None,
    )


def _list_outer(prefix: str | None, names: Iterable[str]) -> set[str]:
    """Return the names that stand outside of the layers."""
    return {name for name in names if prefix is None or not name.startswith(prefix)}


def _select_cache(
    caches: Sequence[CacheParts | None], order: tuple[int, ...], kind: int
) -> CacheParts | None:
    """Return what layers of a kind keep.

    None where they differ, or where nobody heard it.
    """
    parts = {part for part, other in zip(caches, order, strict=False) if other == kind}
    return parts.pop() if len(parts) == 1 else None


def _read_field(config: PreTrainedConfig, name: str) -> object:
    """Return a field of a config, where layers differ the first one's."""
    try:
        return getattr(config, name, None)
    except AmbiguousGlobalPerLayerAttributeError:
        return getattr(config.per_layer_config[0], name, None)


_CHOSEN = (
    *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k"),
    *("top_k_experts", "experts_per_token", "num_selected_experts", "top_k"),
)
"""Fields of configs that say how many experts a token is given to."""


def _make_spec(
    hf_config: PreTrainedConfig, digest: str, layers: Sequence[RecordedLayer], *, is_tied: bool
) -> RecordedSpec:
    num_experts = max((count_experts(layer.weights) for layer in layers), default=0)
    text = hf_config.get_text_config()

    def read(*names: str, default: int = 0) -> int:
        values = (_read_field(text, name) for name in names)
        return next((value for value in values if isinstance(value, int)), default)

    heads = read("num_attention_heads", "n_head", default=1)
    hidden = read("hidden_size", "d_model", "n_embd", default=1)
    return RecordedSpec(
        recording=digest,
        family=hf_config.model_type,
        vocab_size=read("vocab_size"),
        hidden_size=hidden,
        num_hidden_layers=read("num_hidden_layers", "n_layer", default=1),
        num_attention_heads=heads,
        num_key_value_heads=read("num_key_value_heads", default=heads),
        head_dim=read("head_dim", default=hidden // heads),
        intermediate_size=read("intermediate_size"),
        activation=str(getattr(text, "hidden_act", "")),
        tie_word_embeddings=is_tied,
        max_position_embeddings=read("max_position_embeddings"),
        num_experts=num_experts,
        num_experts_per_token=min(read(*_CHOSEN), num_experts) if num_experts else 0,
    )
