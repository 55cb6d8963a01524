"""Options of serving engines by what they bound.

vLLM 0.33, SGLang 0.5.23, TensorRT-LLM 1.2 (``trtllm-serve``), LMDeploy 0.16
(``lmdeploy/cli/serve.py``), TGI 3.3.5 (``launcher/src/main.rs``) and llama.cpp
(``tools/server/README.md``).
"""

from collections.abc import Mapping

SHARE: Mapping[str, str] = {
    "vllm": "--gpu-memory-utilization",
    "sglang": "--mem-fraction-static",
    "tensorrt_llm": "--kv_cache_free_gpu_memory_fraction",
    "lmdeploy": "--cache-max-entry-count",
    "tgi": "--cuda-memory-fraction",
}
TOKENS: Mapping[str, str] = {
    "vllm": "--max-num-batched-tokens",
    "sglang": "--chunked-prefill-size",
    "tensorrt_llm": "--max_num_tokens",
    "lmdeploy": "--max-prefill-token-num",
    "tgi": "--max-batch-prefill-tokens",
    "llama_cpp": "-ub",
}
REQUESTS: Mapping[str, str] = {
    "vllm": "--max-num-seqs",
    "sglang": "--max-running-requests",
    "tensorrt_llm": "--max_batch_size",
    "lmdeploy": "--max-batch-size",
    "tgi": "--max-batch-size",
    "llama_cpp": "-np",
}
LENGTH: Mapping[str, str] = {
    "vllm": "--max-model-len",
    "sglang": "--context-length",
    "tensorrt_llm": "--max_seq_len",
    "lmdeploy": "--session-len",
    "tgi": "--max-total-tokens",
    "llama_cpp": "-c",
}
CACHE: Mapping[str, str] = {
    "vllm": "--kv-cache-dtype fp8",
    "sglang": "--kv-cache-dtype fp8_e4m3",
    "tensorrt_llm": "kv_cache_config: {dtype: fp8}",
    "lmdeploy": "--quant-policy 8",
    "tgi": "--kv-cache-dtype fp8_e4m3fn",
}
"""Of a cache of 8 bits."""
