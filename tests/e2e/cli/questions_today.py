"""Questions of today: agents, embeddings, rerankers, images, two nodes, pairs of cards, RL."""

from tests.e2e.cli.questions import DOES_NOT_FIT, FITS, H100, REFUSED, SERVE, TRAIN, ask

_VLLM = f"{SERVE} --engine vllm"

TODAY = (
    ask(
        "Eight coding agents with 200k tokens each on one H100?",
        f"fit qwen3-coder-30b-a3b {H100} {_VLLM} --num-sequences 8 --prompt-tokens 200000 "
        "--output-tokens 8000",
        DOES_NOT_FIT,
        "what would help",
        "kv_cache",
    ),
    ask(
        "An embedding server with 8k documents?",
        f"fit qwen3-embedding-8b --gpu L40S {_VLLM} --num-sequences 16 --prompt-tokens 8192 "
        "--output-tokens 0",
        FITS,
        "whole for 0",
        "kv_cache",
    ),
    ask(
        "A reranker of one score on SGLang?",
        f"fit qwen3-0.6b --head reward --gpu L4 {SERVE} --engine sglang --num-sequences 64 "
        "--prompt-tokens 2048 --output-tokens 0",
        FITS,
        "kv_cache",
    ),
    ask(
        "BGE's reranker on vLLM?",
        f"fit bge-reranker-v2-m3 --gpu L4 {_VLLM} --num-sequences 32 --prompt-tokens 512 "
        "--output-tokens 0",
        FITS,
        "gpu_memory_fraction reserves nothing",
    ),
    ask(
        "Pictures of full HD to Qwen2.5-VL?",
        f"fit qwen2.5-vl-7b --gpu L40S {_VLLM} --num-sequences 16 --prompt-tokens 4096 "
        "--output-tokens 256 --image 1920x1080",
        FITS,
        "vision tower",
    ),
    ask(
        "DeepSeek-V3 on two nodes of H200?",
        f"fit deepseek-v3 --gpu H200 {_VLLM} --tensor-parallel 8 --pipeline-parallel 2 "
        "--num-sequences 64 --prompt-tokens 8192 --output-tokens 2048",
        FITS,
        "16 GPUs",
    ),
    ask(
        "A 32B in 4 bits on a pair of 5090?",
        f"fit qwen3-32b --gpu 5090 {_VLLM} --tensor-parallel 2 --quantization awq_int4 "
        "--num-sequences 4 --prompt-tokens 16384 --output-tokens 2048",
        FITS,
        "2 GPUs",
    ),
    ask(
        "The same, with the number in the name?",
        f"fit qwen3-32b --gpu '2x RTX 5090' {_VLLM} --num-sequences 4 --prompt-tokens 16384 "
        "--output-tokens 2048",
        REFUSED,
        "tensor_parallel 2",
    ),
    ask(
        "GRPO of a 7B on eight H100?",
        f"fit qwen2.5-7b {H100} {TRAIN} --trainer grpo --sequence-length 3072 "
        "--completion-length 2048 --micro-batch-size 1 --data-parallel 8 --sharding fsdp2 "
        "--zero-stage 3 --activation-checkpointing full",
        FITS,
        "update",
    ),
    ask(
        "Sixteen transcriptions at once by Whisper?",
        f"fit whisper-large-v3 --gpu L4 {SERVE} --num-sequences 16 --prompt-tokens 4 "
        "--output-tokens 440",
        FITS,
        "kv_cache",
    ),
)
