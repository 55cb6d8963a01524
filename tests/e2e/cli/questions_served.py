"""Questions about serving: engines, caches, quantised weights, users."""

from tests.e2e.cli.questions import A100, DOES_NOT_FIT, FITS, H100, ONE, REFUSED, SERVE, ask

_4090, _VLLM = "--gpu RTX-4090", f"{SERVE} --engine vllm"

SERVING = (
    ask(
        "64 users of Llama 3 8B on vLLM?",
        f"fit llama-3-8b {H100} {_VLLM} --num-sequences 64 --prompt-tokens 1536 "
        "--output-tokens 512 --max-model-len 8192",
        FITS,
        "engine's budget",
        "engine_version = ",
    ),
    ask(
        "gpt-oss-120b on one H100?",
        f"fit gpt-oss-120b {H100} {_VLLM} --num-sequences 8 --prompt-tokens 1024 "
        "--output-tokens 512",
        DOES_NOT_FIT,
        "max_model_len",
    ),
    ask(
        "DeepSeek-V3 on 8 H100?",
        f"fit deepseek-v3 {H100} {_VLLM} --tensor-parallel 8 --num-sequences 32 "
        "--prompt-tokens 2048 --output-tokens 512",
        DOES_NOT_FIT,
        "H200",
    ),
    ask(
        "How many users on an L40S?",
        f"ceilings llama-3.1-8b --gpu L40S {_VLLM} --prompt-tokens 1024 --output-tokens 256 "
        "--max-model-len 4096 --maximize num_sequences",
        FITS,
        "number of sequences up to",
    ),
    ask(
        "How long a context?",
        f"ceilings llama-3.1-8b --gpu L40S {_VLLM} --num-sequences 1 --prompt-tokens 1024 "
        "--output-tokens 256 --maximize max_model_len",
        FITS,
        "max_model_len up to",
    ),
    ask(
        "A context of 128k on four H100?",
        f"fit llama-3.1-70b {H100} {_VLLM} --tensor-parallel 4 --num-sequences 1 "
        "--prompt-tokens 130000 --output-tokens 1000",
        FITS,
        "kv_cache",
    ),
    ask(
        "A cache in fp8 on a 4090?",
        f"fit llama-3.1-8b {_4090} {_VLLM} --kv-cache-dtype fp8 --num-sequences 16 "
        "--prompt-tokens 2048 --output-tokens 512 --max-model-len 8192",
        FITS,
    ),
    ask(
        "AWQ of a 70B on two 4090?",
        f"fit llama-3.1-70b {_4090} {_VLLM} --quantization awq_int4 --tensor-parallel 2 "
        "--num-sequences 1 --prompt-tokens 1024 --output-tokens 256 --max-model-len 2048",
        FITS,
    ),
    ask(
        "AWQ, as I call it?",
        f"fit llama-3.1-70b {_4090} {_VLLM} --quantization awq {ONE}",
        REFUSED,
        "Did you mean 'awq_int4'?",
    ),
    ask(
        "NVFP4 on a B200?",
        f"fit llama-3.1-70b --gpu B200 {_VLLM} --quantization nvfp4 --num-sequences 16 "
        "--prompt-tokens 1024 --output-tokens 256",
        FITS,
    ),
    ask(
        "A GGUF on a 4090?",
        f"fit llama-3-8b {_4090} {SERVE} --engine llama_cpp --quantization q4_k_m "
        "--num-sequences 1 --prompt-tokens 4096 --output-tokens 512",
        FITS,
    ),
    ask(
        "Half of its layers on the host?",
        f"fit llama-3.1-70b {_4090} {SERVE} --engine llama_cpp --quantization q4_k_m "
        "--num-sequences 1 --prompt-tokens 4096 --output-tokens 512 --gpu-layers 30",
        FITS,
        "on the host",
    ),
    ask(
        "Weights of vLLM on the host?",
        f"fit llama-2-13b --gpu RTX-3090 {_VLLM} {ONE} --max-model-len 2048 --cpu-offload-gb 10",
        FITS,
    ),
    ask(
        "Whisper on vLLM?",
        f"fit whisper-large-v3 --gpu L4 {_VLLM} --num-sequences 8 --prompt-tokens 4 "
        "--output-tokens 200",
        FITS,
        "sequences of this length",
    ),
    ask(
        "SGLang?",
        f"fit llama-3.1-8b {H100} {SERVE} --engine sglang --num-sequences 64 "
        "--prompt-tokens 1024 --output-tokens 256",
        FITS,
        "engine_version = ",
    ),
    ask(
        "TensorRT-LLM?",
        f"fit llama-3.1-8b {H100} {SERVE} --engine tensorrt_llm --num-sequences 64 "
        "--prompt-tokens 1024 --output-tokens 256",
        FITS,
        "engine_version = ",
    ),
    ask(
        "The library's own generate()?",
        f"fit llama-3-8b {_4090} {SERVE} --client generate --num-sequences 4 "
        "--prompt-tokens 1024 --output-tokens 128",
        FITS,
    ),
    ask(
        "50,000 tokens a second?",
        f"plan llama-3.1-8b --gpus H100-SXM5-80GB {_VLLM} --num-sequences 64 "
        "--prompt-tokens 1024 --output-tokens 256 --min-tokens-per-second 50000",
        FITS,
        "tokens/s",
    ),
    ask(
        "An engine that nobody has?",
        f"fit llama-3-8b {A100} {SERVE} --engine nonesuch {ONE}",
        REFUSED,
        "Known: ",
    ),
    ask(
        "A user's prompt longer than the model?",
        f"fit llama-2-7b {H100} {_VLLM} --num-sequences 1 --prompt-tokens 9000 --output-tokens 10",
        REFUSED,
        "max_model_len",
    ),
)
