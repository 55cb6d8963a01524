"""llama.cpp with all layers on one GPU.

It has a GGUF file's tensors, a cache made at the start, and one buffer for the graph: llama.cpp,
``src/llama-kv-cache.cpp``, ``llama-kv-cache-iswa.cpp``, ``llama-context.cpp`` (``graph_reserve``).
"""

from service.estimator.backends.llama_cpp.gguf import MIXTURES, GgufBytes, file_bytes
from service.estimator.backends.llama_cpp.parts import Totals, build_parts_estimate
from service.estimator.backends.paged_pool.pool import MemoryLedger, MemoryPart, make_exact_part
from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.kv_cache import count_engine_cache_elements, get_cache_window
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import count_draft_tokens, get_draft_model
from service.estimator.rules.tables.serving.own_engines import SERVE_LLAMA_CPP
from service.estimator.values.memo import Memo
from service.estimator.values.result import Basis, Estimate, Serving
from service.estimator.values.units import MIB, ceil_div
from service.estimator.values.workload import Attention, ServeWorkload

MICRO_BATCH = 512
"""``n_ubatch``'s default: tokens that one graph computes."""
_CELLS = 256
"""Cells of a cache come in multiples of so many (``GGML_PAD``)."""
_F32, _F16 = 4, 2
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
    """Return the estimate of one llama-server.

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
    kv_bytes, graph = cache_bytes(model, workload), graph_bytes(model, workload)
    weights = tensors.layers + tensors.head
    draft = get_draft_model(workload.speculative)
    if draft is not None:
        draft_tensors = file_bytes(draft, workload.quantization, workload.weight_dtype)
        weights += draft_tensors.layers + draft_tensors.head
        kv_bytes += cache_bytes(draft, workload)
        graph += graph_bytes(draft, workload)
    parts = _list_parts(workload, tensors, weights, kv_bytes, graph)
    tokens = _F16 * sum(count_engine_cache_elements(block) * count for block, count in model.blocks)
    return build_parts_estimate(
        Totals(
            num_gpus=layout.num_gpus,
            parts=parts,
            load_bytes=weights,
            steady_bytes=weights + kv_bytes + graph,
            host_bytes=tensors.table,
            serving=Serving(
                kv_bytes_per_token=tokens,
                kv_cache_bytes=kv_bytes,
                required_bytes=weights + kv_bytes + graph,
                budget_bytes=device.usable_bytes,
            ),
            approximate=model.spec.approximate,
        ),
        detail=question.detail,
        warnings=((_TOWER,) if model.images is not None else ())
        + device.list_warnings(workload.weight_dtype),
    )


def _list_parts(
    workload: ServeWorkload, tensors: GgufBytes, weights: int, kv_bytes: int, graph: int
) -> tuple[MemoryPart, ...]:
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
            f"{workload.num_sequences} sequences of {_get_max_model_len(workload)} tokens in f16",
            _KV,
        ),
        make_exact_part(
            "activations",
            graph,
            f"{MICRO_BATCH} tokens: logits of all in fp32, and what the widest layer adds",
            _GRAPH,
        ),
        _make_context_part(),
    )


def cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the cells of all sequences, in 16 bits.

    Layers with a window have fewer cells.
    """
    full_cells = (
        ceil_div(
            workload.num_sequences
            * (_get_max_model_len(workload) + count_draft_tokens(workload.speculative)),
            _CELLS,
        )
        * _CELLS
    )
    total = 0
    for block, count in model.blocks:
        window = get_cache_window(block)
        cells = full_cells
        if window is not None:
            cells = min(
                full_cells, ceil_div(window * workload.num_sequences + MICRO_BATCH, _CELLS) * _CELLS
            )
        total += count_engine_cache_elements(block) * count * cells * _F16
    return total


def graph_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the graph's buffer.

    It has fp32 logits and hidden states of a micro batch, or its scores without flash.
    """
    hidden = MICRO_BATCH * model.spec.hidden_size * _F32
    logits = MICRO_BATCH * model.vocab_size * _F32 + hidden
    widest = max(_count_widest_elements(model, index) for index in range(len(model.blocks)))
    layer = MICRO_BATCH * widest * _F32 + hidden
    scores = 0
    if workload.attention is Attention.EAGER:
        cells = ceil_div(workload.num_sequences * _get_max_model_len(workload), _CELLS) * _CELLS
        scores = MICRO_BATCH * cells * (model.spec.num_attention_heads * _F32 + _F32) + 2 * hidden
    return max(logits, layer, scores)


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
