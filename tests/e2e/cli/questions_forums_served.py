"""Servers that forums and issue trackers ask about, with what people reported."""

from tests.e2e.cli.questions import (
    A100,
    DOES_NOT_FIT,
    FITS,
    H100,
    REFUSED,
    SERVE,
    _4090,
    ask,
)

_VLLM, _FILE = f"{SERVE} --engine vllm", f"{SERVE} --engine llama_cpp --quantization q4_k_m"
_3090, _TEXT = "--gpu RTX-3090", "--num-sequences 1 --prompt-tokens 2048 --output-tokens 512"

FORUMS_SERVED = (
    ask(
        "A 70B at 20,000 tokens on two H100, why is there no cache? (vllm#10517)",
        f"fit llama-3.1-70b {H100} {_VLLM} --tensor-parallel 2 --num-sequences 4 "
        "--prompt-tokens 15904 --output-tokens 4096 --max-model-len 20000",
        DOES_NOT_FIT,
        "no room for one sequence of max_model_len 20,000 tokens",
        "kv_cache_dtype = fp8",
    ),
    ask(
        "An 8B at its 131,072 tokens on a 3090, whose cache holds some 39,000? (SubgraphRAG#19)",
        f"fit llama-3.1-8b {_3090} {_VLLM} {_TEXT}",
        DOES_NOT_FIT,
        "the engine does not start",
        "max_model_len = ",
        "44,112 tokens",
    ),
    ask(
        "Which max-model-len does it take then?",
        f"ceilings llama-3.1-8b {_3090} {_VLLM} --num-sequences 1 --prompt-tokens 2048 "
        "--maximize max_model_len",
        FITS,
        "max_model_len up to 44,112",
    ),
    ask(
        "A Qwen1.5 7B at its 32,768 on 24 GB? (Qwen3#295)",
        f"fit Qwen/Qwen1.5-7B-Chat {_3090} {_VLLM} {_TEXT}",
        DOES_NOT_FIT,
        "524,288 bytes per token",
        "12,032 tokens",
    ),
    ask(
        "Gemma 2 27B in 4 bits on 24 GB, 8k of context?",
        f"fit gemma-2-27b {_3090} {_FILE} --num-sequences 1 --prompt-tokens 8000 "
        "--output-tokens 192",
        FITS,
        "fits",
    ),
    ask(
        "An 8B in 4 bits on 6 GB? (articles say 5 to 6.5)",
        f"fit llama-3.1-8b --gpu-memory 6Gi {_FILE} --num-sequences 1 --prompt-tokens 4096 "
        "--output-tokens 512",
        FITS,
        "fits",
    ),
    ask(
        "A 14B in 4 bits on a 4060 Ti at 32k?",
        f"fit qwen2.5-14b --gpu RTX-4060-Ti-16GB {_FILE} --num-sequences 1 --prompt-tokens 32000 "
        "--output-tokens 512",
        FITS,
        "fits",
    ),
    ask(
        "A 70B in 4 bits on two 3090?",
        f"fit llama-3.1-70b {_3090} {_FILE} --pipeline-parallel 2 --num-sequences 1 "
        "--prompt-tokens 4096 --output-tokens 512",
        FITS,
        "2 GPUs: fits",
    ),
    ask(
        "405B in fp8 on one node?",
        f"fit llama-3.1-405b {H100} {_VLLM} --quantization fp8 --tensor-parallel 8 "
        "--num-sequences 8 --prompt-tokens 4096 --output-tokens 512 --max-model-len 16384",
        FITS,
        "8 GPUs: fits",
    ),
    ask(
        "DeepSeek-R1 on eight H200?",
        f"fit deepseek-ai/DeepSeek-R1 --gpu H200-SXM5-141GB {_VLLM} --tensor-parallel 8 "
        "--num-sequences 16 --prompt-tokens 4096 --output-tokens 2048 --max-model-len 32768",
        FITS,
        "8 GPUs: fits",
    ),
    ask(
        "Mixtral in 16 bits on two A100 of 40 GB?",
        f"fit mixtral-8x7b --gpu A100-SXM4-40GB {_VLLM} --tensor-parallel 2 --num-sequences 8 "
        "--prompt-tokens 1024 --output-tokens 256",
        DOES_NOT_FIT,
        "the engine does not start",
        "what would help",
    ),
    ask(
        "Qwen3-30B-A3B in AWQ on a 4090?",
        f"fit qwen3-30b-a3b {_4090} {_VLLM} --quantization awq_int4 --num-sequences 4 "
        "--prompt-tokens 2048 --output-tokens 512 --max-model-len 8192",
        FITS,
        "fits",
    ),
    ask(
        "A 32B on one 4090, the rest in RAM?",
        f"fit qwen2.5-32b {_4090} {_VLLM} --num-sequences 1 --prompt-tokens 1024 "
        "--output-tokens 128",
        DOES_NOT_FIT,
        "cpu_offload_gb = ",
    ),
    ask(
        "A vision model that only reads text, on a 3090?",
        f"fit qwen2.5-vl-7b {_3090} {_VLLM} --num-sequences 4 --prompt-tokens 1024 "
        "--output-tokens 128",
        DOES_NOT_FIT,
        "max_videos_per_prompt = 0",
        "prompts have no videos",
    ),
    ask(
        "FLUX on 16 GB?",
        "generate flux --gpu RTX-4080",
        DOES_NOT_FIT,
        "offloading = ",
    ),
    ask(
        "SDXL on 8 GB?",
        "generate sdxl --gpu RTX-3070",
        DOES_NOT_FIT,
        "offloading = model",
    ),
    ask(
        "SDXL, asked as a model?",
        f"fit sdxl --gpu RTX-3070 {_TEXT.replace('--num', '--task serve --num', 1)}",
        REFUSED,
        "try `headroom generate sdxl`",
    ),
    ask(
        "Wan 14B on a 4090?",
        f"generate wan2.1-t2v-14b {_4090}",
        DOES_NOT_FIT,
        "offloading = ",
    ),
    ask(
        "Jamba on four A100?",
        f"fit jamba-v0.1 {A100} {_VLLM} --tensor-parallel 4 --num-sequences 8 "
        "--prompt-tokens 4096 --output-tokens 256 --max-model-len 65536",
        FITS,
        "4 GPUs: fits",
    ),
    ask(
        "gpt-oss-20b on a 4080?",
        f"fit gpt-oss-20b --gpu RTX-4080 {SERVE} --engine llama_cpp --num-sequences 1 "
        "--prompt-tokens 4096 --output-tokens 512",
        FITS,
        "fits",
    ),
    ask(
        "A hybrid of 8B on an L40S?",
        f"fit nemotron-h-8b --gpu L40S {_VLLM} --num-sequences 16 --prompt-tokens 4096 "
        "--output-tokens 512",
        FITS,
        "66 sequences of this length",
    ),
    ask(
        "A laptop's 4050?",
        f"fit phi-3-mini-4k --gpu RTX-4050 {_FILE} {_TEXT}",
        REFUSED,
        "ask by its memory",
    ),
    ask(
        "A 70B by TGI on four L40S?",
        f"fit llama-3.1-70b --gpu L40S {SERVE} --engine tgi --tensor-parallel 4 "
        "--num-sequences 8 --prompt-tokens 2048 --output-tokens 512",
        FITS,
        "the pool holds 61,936 tokens",
    ),
    ask(
        "InternLM 2.5 20B by LMDeploy?",
        "fit internlm/internlm2_5-20b-chat --gpu A100-SXM4-40GB --task serve --engine lmdeploy "
        f"{_TEXT}",
        REFUSED,
        "hub:internlm/internlm2_5-20b-chat",
    ),
)
