"""Questions of people who try it for the first time: what they ask for next, and where they end."""

from tests.e2e.cli.questions import DOES_NOT_FIT, FITS, H100, REFUSED, SERVE, ask

_VLLM = f"{SERVE} --engine vllm"

ASKED = (
    ask(
        "The longest context?",
        f"ceilings llama-3.1-8b --gpu L4 {_VLLM} --prompt-tokens 2048 --maximize context",
        REFUSED,
        "Did you mean 'max_model_len'?",
    ),
    ask(
        "The largest batch?",
        f"ceilings llama-3.1-8b {H100} --task train --sequence-length 2048 --maximize batch_size",
        REFUSED,
        "Did you mean 'micro_batch_size'?",
    ),
    ask(
        "How much concurrency?",
        f"ceilings llama-3.1-8b --gpu L4 {_VLLM} --prompt-tokens 2048 --maximize concurrency",
        REFUSED,
        "Did you mean 'num_sequences'?",
    ),
    ask(
        "A full training of an 8B on one H100, how long a sequence?",
        f"ceilings llama-3.1-8b {H100} --task train --maximize sequence_length",
        DOES_NOT_FIT,
        "1 needs 71.52 GiB more than a process can allocate",
    ),
    ask(
        "Four pictures beside 2,048 tokens?",
        f"fit qwen2.5-vl-72b {H100} {_VLLM} --tensor-parallel 4 --num-sequences 8 "
        "--prompt-tokens 2048 --image 1024x1024x4",
        REFUSED,
        "--prompt-tokens: inputs take 5476 tokens",
        "say 5476 or more",
    ),
    ask(
        "Under a price that nobody told?",
        "plan llama-3.1-8b --gpus H100-SXM5-80GB,MI300X --max-cost-per-hour 20 "
        f"{_VLLM} --num-sequences 8 --prompt-tokens 1000 --max-model-len 8192",
        FITS,
        "MI300X-192GB: max_cost_per_hour needs a price",
    ),
    ask(
        "A 70B file of 4 bits on one 4090?",
        f"fit llama-3.1-70b --gpu RTX-4090 {SERVE} --engine llama_cpp --quantization q4_k_m "
        "--num-sequences 1 --prompt-tokens 4096 --output-tokens 512",
        DOES_NOT_FIT,
        "gpu_layers = 44",
    ),
    ask(
        "GPT-OSS 120B on one 5090?",
        f"fit gpt-oss-120b --gpu RTX-5090 {SERVE} --engine llama_cpp --num-sequences 1 "
        "--prompt-tokens 4096 --output-tokens 512",
        DOES_NOT_FIT,
        "cpu_moe_layers = 20",
    ),
    ask(
        "On the GTX 1080 Ti that I have?",
        f"fit llama-3.2-1b --gpu 'GTX 1080 Ti' {SERVE} --engine llama_cpp --num-sequences 1 "
        "--prompt-tokens 1000",
        REFUSED,
        '--gpu-memory "11Gi"',
    ),
    ask(
        "By its memory, then?",
        f"fit llama-3.2-1b --gpu-memory 11Gi {SERVE} --engine llama_cpp --num-sequences 1 "
        "--prompt-tokens 1000",
        FITS,
        "kv_cache",
    ),
)
