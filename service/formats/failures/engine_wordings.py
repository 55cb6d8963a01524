"""Wordings of serving engines that refuse to start or to go on.

vLLM: vllm/worker/worker.py (raise_if_cache_size_invalid) and vllm/worker/cache_engine.py of the
first engine; vllm/v1/core/kv_cache_utils.py, vllm/v1/worker/gpu_worker.py, utils.py and
gpu_model_runner.py (_dummy_sampler_run) of the second. SGLang: model_runner.py,
model_runner_kv_cache_mixin.py, cuda_graph_runner.py, mem_cache/common.py. Text Generation
Inference: server/text_generation_server/models/flash_causal_lm.py (warmup). llama.cpp:
ggml-cuda.cu, ggml-alloc.c, llama-model.cpp, llama-context.cpp, llama-kv-cache.cpp; Ollama:
llm/server.go. TensorRT-LLM: _torch/pyexecutor/py_executor_creator.py,
batch_manager/kvCacheManager.cpp. LMDeploy: turbomind/utils/memory_utils.cu, models/llama.
"""

import re
from dataclasses import dataclass

from service.formats.failures.failure import FailureQuantity, FailureSpeaker
from service.formats.failures.wording import COUNT, NUMBER, compile_wording

MARKS = (
    "o available memory for the cache blocks",
    "max seq len",
    "desired GPU memory utilization",
    "warming up",
    "mem-fraction-static",
    "apture cuda graph failed",
    "apture CUDA graph failed",
    "cudaMalloc failed",
    "hipMalloc failed",
    "failed to allocate",
    "unable to allocate",
    "rror in memory profiling",
    "nsufficient memory",
    "capacity is unbalanced",
    "out of memory. Try to lower",
    "Not enough memory to handle",
    "CUDA error 2 at",
    "alloc_req_slots",
    "llama runner process",
    "xecutor creation failed",
    "o free blocks left",
    "o enough blocks",
    "maxTokensInPagedKvCache",
    "[TM][ERROR]",
)
"""Words by which a line is looked at, longer than any chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWording:
    """Wording of a refusal, and the quantity of each of its groups."""

    speaker: FailureSpeaker
    kind: str
    pattern: re.Pattern[str]
    groups: tuple[tuple[FailureQuantity, str], ...] = ()
    subject: str = ""
    release: str = ""


def _word(
    speaker: FailureSpeaker,
    kind: str,
    pattern: str,
    *groups: tuple[FailureQuantity, str],
    subject: str = "",
    release: str = "",
) -> EngineWording:
    return EngineWording(
        speaker=speaker,
        kind=kind,
        pattern=compile_wording(pattern),
        groups=groups,
        subject=subject,
        release=release,
    )


WORDINGS = (
    _word(
        FailureSpeaker.VLLM,
        "no_cache_memory",
        r"No available memory for the cache blocks",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.VLLM,
        "length_exceeds_cache",
        rf"max seq len \({COUNT}\) is larger than the maximum number of tokens that can be stored "
        rf"in (?:the )?+KV cache \({COUNT}\)",
        (FailureQuantity.MAX_MODEL_LEN, ""),
        (FailureQuantity.KV_POOL_TOKENS, ""),
        subject="kv_cache",
        release="0.2.6 to 0.8, first engine",
    ),
    _word(
        FailureSpeaker.VLLM,
        "length_exceeds_cache",
        rf"max seq len \({COUNT}\), \(?+{NUMBER} ?+Gi?+B KV cache is needed, which is larger than "
        rf"the available KV cache memory \({NUMBER} ?+Gi?+B\)",
        (FailureQuantity.MAX_MODEL_LEN, ""),
        (FailureQuantity.KV_NEEDED, "GiB"),
        (FailureQuantity.KV_POOL, "GiB"),
        subject="kv_cache",
        release="0.8 or later",
    ),
    _word(
        FailureSpeaker.VLLM,
        "too_little_free_at_start",
        rf"Free memory on device (?:[a-z]{{1,8}}+:?+[0-9]{{0,4}}+ )?+\({NUMBER}/{NUMBER} GiB\) on "
        rf"startup is less than desired GPU memory utilization \({NUMBER}, {NUMBER} GiB\)",
        (FailureQuantity.FREE, "GiB"),
        (FailureQuantity.TOTAL, "GiB"),
        (FailureQuantity.GPU_MEMORY_FRACTION, ""),
        (FailureQuantity.BUDGET, "GiB"),
        release="0.9.1 or later",
    ),
    _word(
        FailureSpeaker.VLLM,
        "sampler_warm_up",
        rf"CUDA out of memory occurred when warming up sampler with {COUNT} dummy requests",
        (FailureQuantity.NUM_SEQUENCES, ""),
        subject="sampler_state",
        release="0.8 or later",
    ),
    _word(
        FailureSpeaker.VLLM,
        "sampler_warm_up",
        rf"CUDA out of memory occurred when warming up pooler[^0-9]{{0,40}}+{COUNT} dummy requests",
        (FailureQuantity.NUM_SEQUENCES, ""),
        subject="sampler_state",
    ),
    _word(
        FailureSpeaker.VLLM,
        "memory_changed_while_profiling",
        r"Error in memory profiling\. ",
    ),
    _word(
        FailureSpeaker.SGLANG,
        "no_cache_memory",
        r"Not enough(?:t)?+ memory\. Please try to increase --mem-fraction-static",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.SGLANG,
        "graph_capture",
        r"Capture (?:cuda|CUDA) graph failed: (?:CUDA|HIP) (?:error: )?+out of memory",
        subject="cuda_graphs",
    ),
    _word(
        FailureSpeaker.SGLANG,
        "unbalanced",
        r"Error: The memory capacity is unbalanced",
    ),
    _word(
        FailureSpeaker.SGLANG,
        "cache_full",
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.TGI,
        "prefill_too_large",
        rf"Not enough memory to handle {COUNT} prefill tokens",
        (FailureQuantity.NUM_TOKENS, ""),
    ),
    _word(
        FailureSpeaker.SGLANG,
        "cache_full",
        r"alloc_req_slots runs out of memory",
    ),
    _word(
        FailureSpeaker.TGI,
        "pool_too_large",
        rf"Not enough memory to handle {COUNT} total tokens with [0-9]{{1,12}}+ prefill tokens",
        (FailureQuantity.KV_POOL_TOKENS, ""),
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.TENSORRT_LLM,
        "executor_creation",
        r"Executor creation failed due to insufficient GPU memory",
    ),
    _word(
        FailureSpeaker.TENSORRT_LLM,
        "cache_full",
        r"Can't allocate new blocks\. No free blocks left",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.TENSORRT_LLM,
        "length_exceeds_cache",
        r"maxTokensInPagedKvCache (?:\([0-9]{1,12}+\) )?+must be large enough to process at least",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.LMDEPLOY,
        "buffer",
        r"\[TM\]\[ERROR\] {1,4}+CUDA runtime error: out of memory",
    ),
    _word(
        FailureSpeaker.LMDEPLOY,
        "cache_full",
        r"\[TM\]\[ERROR\] {1,4}+No enough blocks",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"llama runner process has terminated: (?:error: ?+)?+"
        r"(?:(?:CUDA|ROCm|HIP) error|(?:cuda|hip|musa)Malloc failed): out of memory",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        rf"allocating {NUMBER} MiB on device [0-9]{{1,3}}+: (?:cuda|hip|musa)Malloc failed: out of",
        (FailureQuantity.REQUESTED, "MiB"),
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"CUDA error 2 at [^ ]{1,300}+ out of memory",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        rf"failed to allocate (?:CUDA|ROCm|Vulkan|SYCL|Metal|MUSA)[0-9]{{0,3}}+ buffer of size "
        rf"{COUNT}",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"unable to allocate (?:CUDA|ROCm|Vulkan|SYCL|Metal|MUSA|backend)[0-9]{0,3}+ buffer",
        subject="weights",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"failed to allocate (?:buffer for kv cache|buffer for self-attention|kv cache)",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"failed to allocate compute buffers",
        subject="activations",
    ),
)
