"""llama.cpp: a GGUF file over GPUs and the host.

It has the file's tensors, a cache made at the start, and one buffer for the graph: llama.cpp,
``src/llama-kv-cache.cpp``, ``llama-kv-cache-iswa.cpp``, ``llama-context.cpp`` (``graph_reserve``).
"""

from dataclasses import dataclass, replace

from service.estimator.backends.llama_cpp.batches import MICRO_BATCH
from service.estimator.backends.llama_cpp.devices import (
    Placement,
    count_weight_bytes,
    find_largest_host_tensor,
    place_layers,
)
from service.estimator.backends.llama_cpp.gguf import MIXTURES, file_bytes, list_kinds
from service.estimator.backends.llama_cpp.parts import Totals, build_parts_estimate
from service.estimator.backends.paged_pool.memory_parts import (
    MemoryLedger,
    MemoryPart,
    make_exact_part,
)
from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.kv_cache import count_engine_cache_elements
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.families.speculative import count_draft_tokens, get_draft_model
from service.estimator.model.layer_tables import get_cache_window
from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.estimator.rules.tables.serving.own_engines import SERVE_LLAMA_CPP
from service.estimator.values.dtypes import BLOCK_ELEMENTS
from service.estimator.values.memo import Memo
from service.estimator.values.result import Basis, Estimate, Serving, Stage
from service.estimator.values.units import MIB, ceil_div
from service.estimator.values.workload import Attention, ServeWorkload

_CELLS = 256
"""Cells of a cache come in multiples of so many (``GGML_PAD``)."""
_F32, _F16 = 4, 2
_COPIES = 4
"""Copies of what one GPU hands to the next (``GGML_SCHED_MAX_COPIES``)."""
_HOST = (
    "layers or experts on the host are read from its memory at every token: no time is estimated "
    "for them"
)
_TOWER = (
    "the vision tower and its projector are a file of their own, which --mmproj loads: neither is "
    "counted"
)
_KV = (
    "llama.cpp, src/llama-kv-cache-iswa.cpp: pad(window x sequences + micro batch) cells in layers "
    "with a window"
)
_GRAPH = "llama.cpp, src/llama-context.cpp: one graph of a micro batch, reserved at the start"


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one llama-server, by its fullest GPU.

    Everything is allocated when it starts.
    """
    model, workload = question.model, question.workload
    layout, device = question.layout, question.device
    cache.get_checks(SERVE_LLAMA_CPP, model).check(workload, layout)
    files: Memo[GgufBytes] = cache.get_memo("gguf files")
    key = (cache.get_model_key(model), workload.quantization, workload.weight_dtype)
    tensors = files.get_or_make(
        key, lambda: file_bytes(model, workload.quantization, workload.weight_dtype)
    )
    placement = place_layers(model.num_hidden_layers, workload, layout)
    gpus = [
        _fill_gpu(model, workload, tensors, placement, index) for index in range(placement.num_gpus)
    ]
    worst = max(range(len(gpus)), key=lambda index: gpus[index].total)
    gpu = gpus[worst]
    tokens = sum(_count_cell_bytes(block, workload) * count for block, count in model.blocks)
    host_kv = sum(list_cache_bytes(model, workload)[i] for i in placement.list_layers(None))
    return build_parts_estimate(
        Totals(
            num_gpus=layout.num_gpus,
            parts=_list_parts(workload, tensors, gpu),
            load_bytes=gpu.weights,
            steady_bytes=gpu.total,
            stages=tuple(
                Stage(index, filled.total, filled.total) for index, filled in enumerate(gpus)
            ),
            worst_stage=worst,
            host_bytes=tensors.table + count_weight_bytes(tensors, placement, None) + host_kv,
            serving=Serving(
                kv_bytes_per_token=tokens,
                kv_cache_bytes=gpu.cache,
                required_bytes=gpu.total,
                budget_bytes=device.usable_bytes,
            ),
            approximate=model.spec.approximate,
        ),
        detail=question.detail,
        warnings=(
            *((_TOWER,) if model.images is not None else ()),
            *((_HOST,) if None in placement.devices or placement.host_experts else ()),
            *question.list_warnings(workload.weight_dtype),
        ),
    )


@dataclass(frozen=True, slots=True)
class _FilledGpu:
    """Bytes of one GPU: weights, cache and graph."""

    weights: int
    cache: int
    graph: int
    copied: int
    """Bytes of the graph that a tensor of the host is copied into."""

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.graph


def _fill_gpu(
    model: Architecture,
    workload: ServeWorkload,
    tensors: GgufBytes,
    placement: Placement,
    index: int,
) -> _FilledGpu:
    """Return what one GPU holds.

    A draft model stands on the only one.
    """
    weights = count_weight_bytes(tensors, placement, index)
    caches = list_cache_bytes(model, workload)
    kv_bytes = sum(caches[layer] for layer in placement.list_layers(index))
    graph = graph_bytes(model, workload, ends=placement.devices[-1] == index)
    if placement.pipelines:
        graph += _COPIES * _count_input_bytes(model, workload)
    copied = find_largest_host_tensor(tensors, placement)
    draft = get_draft_model(workload.speculative)
    if draft is not None:
        draft_tensors = file_bytes(draft, workload.quantization, workload.weight_dtype)
        weights += draft_tensors.layers + draft_tensors.head
        # Its cache has a type of its own (``--cache-type-k-draft``), f16 by default.
        kv_bytes += cache_bytes(draft, replace(workload, cache_type=None))
        graph += graph_bytes(draft, workload)
    return _FilledGpu(weights, kv_bytes, graph + copied, copied)


def _list_parts(
    workload: ServeWorkload, tensors: GgufBytes, gpu: _FilledGpu
) -> tuple[MemoryPart, ...]:
    weights, kv_bytes, graph = gpu.weights, gpu.cache, gpu.graph
    return (
        make_exact_part(
            "weights",
            weights,
            _format_weights(workload, tensors),
            "llama.cpp, src/llama-quant.cpp; the token table stays on the host",
        ),
        make_exact_part(
            "kv_cache",
            kv_bytes,
            f"{workload.num_sequences} sequences of {_get_max_model_len(workload)} tokens in "
            f"{workload.cache_type or 'f16'}",
            _KV,
        ),
        make_exact_part(
            "activations",
            graph,
            f"{_get_micro_batch(workload)} tokens: logits of all in fp32, and the widest layer's"
            + (f"; {gpu.copied} B for a tensor of the host" if gpu.copied else ""),
            _GRAPH,
        ),
        _make_context_part(),
    )


def list_cache_bytes(model: Architecture, workload: ServeWorkload) -> tuple[int, ...]:
    """Return the bytes of each layer's cells.

    They are of all sequences. Layers with a window have fewer cells.
    """
    full_cells = _count_cells(workload)
    by_kind = []
    for block, _ in model.blocks:
        window = get_cache_window(block)
        cells = full_cells
        if window is not None:
            cells = min(
                full_cells,
                ceil_div(window * workload.num_sequences + _get_micro_batch(workload), _CELLS)
                * _CELLS,
            )
        by_kind.append(_count_cell_bytes(block, workload) * cells)
    return tuple(by_kind[kind] for kind in list_kinds(model))


def _count_cell_bytes(block: BlockModule, workload: ServeWorkload) -> int:
    """Return the bytes of a token's keys and values."""
    elements = count_engine_cache_elements(block)
    if workload.cache_type is None:
        return elements * _F16
    return ceil_div(elements, BLOCK_ELEMENTS) * workload.cache_type.block_bytes


def _get_micro_batch(workload: ServeWorkload) -> int:
    return workload.max_num_batched_tokens or MICRO_BATCH


def cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the cells of all layers."""
    return sum(list_cache_bytes(model, workload))


def _count_cells(workload: ServeWorkload) -> int:
    length = _get_max_model_len(workload) + count_draft_tokens(workload.speculative)
    return ceil_div(workload.num_sequences * length, _CELLS) * _CELLS


def graph_bytes(model: Architecture, workload: ServeWorkload, *, ends: bool = True) -> int:
    """Return the bytes of the graph's buffer on a GPU.

    It has fp32 logits, where the output is, and hidden states of a micro batch, or its scores
    without flash.
    """
    micro = _get_micro_batch(workload)
    hidden = micro * model.spec.hidden_size * _F32
    logits = micro * model.vocab_size * _F32 + hidden if ends else 0
    widest = max(_count_widest_elements(model, index) for index in range(len(model.blocks)))
    layer = micro * widest * _F32 + hidden
    scores = 0
    if workload.attention is Attention.EAGER:
        cells = ceil_div(workload.num_sequences * _get_max_model_len(workload), _CELLS) * _CELLS
        scores = micro * cells * (model.spec.num_attention_heads * _F32 + _F32) + 2 * hidden
    return max(logits, layer, scores)


def _count_input_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes that one GPU hands to the next.

    They are hidden states, and the mask.
    """
    micro = _get_micro_batch(workload)
    return micro * _F32 * (model.spec.hidden_size + _count_cells(workload))


def _count_widest_elements(model: Architecture, index: int) -> int:
    block, _ = model.blocks[index]
    hidden = model.spec.hidden_size
    inner = [
        layer.out_features
        for layer in block.linears()
        if layer.kind == "mlp" and layer.in_features == hidden
    ]
    return sum(inner) + hidden


def _get_max_model_len(workload: ServeWorkload) -> int:
    return workload.max_model_len or workload.prompt_tokens + workload.output_tokens


def _format_weights(workload: ServeWorkload, tensors: GgufBytes) -> str:
    if tensors.types:
        kinds = " + ".join(f"{name} {size} B" for name, size in tensors.types)
        return f"tensors of the file: {kinds}, of which layers {tensors.layers} B"
    types = MIXTURES[workload.quantization]
    mixture = (
        f"{types.base.value} with {types.wide.value}"
        if types.wide is not None
        else types.base.value
    )
    return f"layers in {mixture} {tensors.layers} B + head {tensors.head} B; norms in F32"


def _make_context_part() -> MemoryPart:
    size = 400 * MIB
    return MemoryPart(
        name="device_context",
        bytes=size,
        low=200 * MIB,
        high=800 * MIB,
        ledger=MemoryLedger.DEVICE,
        basis=Basis.MEASURED,
        formula="one context, cuBLAS and its pool",
        source="0.35 GiB without tensors on RTX 3090, 0.51 GiB on H100 (vLLM logs)",
    )
