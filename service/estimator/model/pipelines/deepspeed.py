"""Splits of DeepSpeed's ``PipelineModule`` by its ``partition_method``.

``deepspeed/runtime/pipe/module.py``, ``deepspeed/runtime/utils.py``. The layers are those of
Megatron-DeepSpeed's ``GPTModelPipe`` (``megatron/model/gpt_model.py``).
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.chunks import Chunk
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest

_FIELD = "layout.partition_method"
_BEFORE = ("_to_float16", "EmbeddingPipe")
_LAYER = "ParallelTransformerLayerPipe"
_AFTER = ("RMSNorm", "LMHeadPipe", "float16_to_fp32")


def split_by_method(model: Architecture, layout: Layout) -> tuple[Chunk, ...]:
    """Return the chunks that a partition method gives."""
    if layout.virtual_pipeline_stages > 1:
        message = "DeepSpeed's pipeline has one chunk a stage: virtual_pipeline_stages is 1"
        raise InvalidInputError(message, field="layout.virtual_pipeline_stages")
    names = (*_BEFORE, *(_LAYER,) * model.num_hidden_layers, *_AFTER)
    bounds = _partition(model, layout, names)
    first, last = len(_BEFORE), len(_BEFORE) + model.num_hidden_layers
    return tuple(
        Chunk(
            first_layer=min(max(start, first), last) - first,
            num_layers=min(max(stop, first), last) - min(max(start, first), last),
            has_embedding=start <= 1 < stop,
            has_loss=start <= last + 1 < stop,
        )
        for start, stop in pairwise(bounds)
    )


def _partition(model: Architecture, layout: Layout, names: tuple[str, ...]) -> tuple[int, ...]:
    method, stages = (
        (layout.pipeline_split.partition_method or "").lower(),
        layout.pipeline_parallel,
    )
    if method == "uniform":
        return partition_uniform(len(names), stages)
    if method == "parameters":
        return partition_balanced(_count_parameters(model), stages)
    if not method.startswith("type:"):
        message = f"partition_method {method}: uniform, parameters, or type: and a layer's name"
        raise InvalidInputError(message, field=_FIELD)
    pattern = re.compile(method.removeprefix("type:"), re.IGNORECASE)
    weights = tuple(int(pattern.search(name) is not None) for name in names)
    if not any(weights):
        message = f"{method} names none of the layers {', '.join(dict.fromkeys(names))}"
        raise InvalidInputError(message, field=_FIELD)
    return partition_balanced(weights, stages)


def _count_parameters(model: Architecture) -> tuple[int, ...]:
    """Return the parameters of each pipeline layer."""
    order = model.order or tuple(
        kind for kind, (_, count) in enumerate(model.blocks) for _ in range(count)
    )
    sizes = [sum(weight.numel for weight in block.weights()) for block, _ in model.blocks]
    table = model.embedding.numel
    norm = 0 if model.final_norm is None else sum(w.numel for w in model.final_norm.weights())
    return (0, table, *(sizes[kind] for kind in order), norm, table, 0)


def partition_uniform(num_items: int, num_parts: int) -> tuple[int, ...]:
    """Return bounds of equal parts; the first ones have one item more."""
    if num_items <= num_parts:
        return tuple(min(part, num_items) for part in range(num_parts + 1))
    per_part, extra = divmod(num_items, num_parts)
    return tuple(part * per_part + min(part, extra) for part in range(num_parts + 1))


@keep_latest(256)
def partition_balanced(weights: Sequence[int], num_parts: int) -> tuple[int, ...]:
    """Return bounds of parts whose heaviest and lightest differ least.

    The linear partition problem by dynamic programming, with DeepSpeed's order of equal choices.
    """
    n = len(weights)
    if n <= num_parts:
        return partition_uniform(n, num_parts)
    sums = (0, *accumulate(weights))
    columns: list[list[tuple[float, float, float]]] = [[(inf, inf, inf)] * (n + 1)]
    columns[0][0] = (0.0, 0.0, inf)
    cuts: list[list[int]] = []
    for part in range(1, num_parts + 1):
        column, cut = [(inf, inf, inf)] * (n + 1), [0] * (n + 1)
        for i in range(part, n + 1):
            for k in range(i):
                _, top, bottom = columns[-1][k]
                weight = sums[i] - sums[k]
                top, bottom = max(top, weight), min(bottom, weight)
                if column[i][0] >= top - bottom:
                    column[i], cut[i] = (top - bottom, top, bottom), k
        columns.append(column)
        cuts.append(cut)
    bounds = [n]
    for cut in reversed(cuts):
        bounds.append(cut[bounds[-1]])
    return tuple(reversed(bounds))
