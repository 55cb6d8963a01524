"""Questions of slices, long contexts, budgets and packed repositories, in users' words."""

from tests.e2e.cli.questions import A100, DOES_NOT_FIT, FITS, H100, LORA, ONE, REFUSED, SERVE, ask

_VLLM = f"{SERVE} --engine vllm"
_CHAT = "--num-sequences 8 --prompt-tokens 2048 --output-tokens 256"
_EMBED = "--prompt-tokens 512 --output-tokens 0"
_SLICE = "H100-SXM5-80GB/1g.10gb"

ODD = (
    ask(
        "How many H100 for a LoRA on 131,072 tokens?",
        f"how-many llama-3.1-8b {H100} {LORA} --sequence-length 131072",
        FITS,
        "8 GPUs",
        "context",
    ),
    ask(
        "How many slices of an H100?",
        f"how-many llama-3.1-8b --gpu {_SLICE} {_VLLM} {_CHAT}",
        DOES_NOT_FIT,
        "gpu = H100-SXM5-80GB-MIG-3g.40gb on 1 GPU",
    ),
    ask(
        "Which GPUs for 15 dollars an hour?",
        "plan llama-3.1-70b --gpus H100-SXM5-80GB,A100-SXM4-80GB,L40S "
        f"{_VLLM} --num-sequences 32 --prompt-tokens 4096 --output-tokens 512 "
        "--max-cost-per-hour 15",
        FITS,
        "USD/h",
    ),
    ask(
        "The cheapest of three small cards?",
        f"plan llama-3.1-8b --gpus A10G,L4,L40S {_VLLM} {_CHAT} --objective cheapest",
        FITS,
        "(cheapest)",
    ),
    ask(
        "Kimi K2 on H200?",
        f"how-many kimi-k2 --gpu H200 {_VLLM} --num-sequences 32 --prompt-tokens 4096",
        FITS,
        "16 GPUs",
    ),
    ask(
        "MiniMax M2?",
        f"fit minimax-m2 {H100} {_VLLM} {ONE}",
        REFUSED,
        "minimax-m2-default",
        "--quantization",
    ),
    ask("Llama 4 Scout?", f"fit llama-4-scout {H100} {SERVE} {ONE}", DOES_NOT_FIT, "too much"),
    ask("Pixtral?", f"fit pixtral-12b {A100} {SERVE} {ONE}", REFUSED, "The nearest names: mixtral"),
    ask(
        "A repository of GPTQ files?",
        f"fit TheBloke/Llama-2-13B-GPTQ {A100} {SERVE} {ONE}",
        REFUSED,
        "llama-2-13b with quantization gptq_int4",
    ),
    ask(
        "A repository of AWQ files on 12 GB?",
        f"fit Qwen/Qwen2.5-7B-Instruct-AWQ --gpu RTX-3060-12GB {_VLLM} {ONE} --max-model-len 4096",
        FITS,
        "awq",
    ),
    ask(
        "405B in fp8, in how many stages?",
        f"how-many llama-3.1-405b {H100} {_VLLM} --quantization fp8 {_CHAT}",
        FITS,
        "pipeline",
    ),
    ask(
        "BGE-M3 on a T4?", f"fit bge-m3 --gpu T4 {_VLLM} --num-sequences 64 {_EMBED}", FITS, "fp16"
    ),
    ask(
        "E5 Mistral on an A10G?",
        f"fit intfloat/e5-mistral-7b-instruct --gpu A10G {_VLLM} --num-sequences 8 {_EMBED}",
        FITS,
    ),
    ask(
        "Full training of a 7B on a 4090 with ZeRO-3 on the host?",
        "fit llama-2-7b --gpu RTX-4090 --task train --sequence-length 512 --sharding deepspeed "
        "--zero-stage 3 --precision deepspeed_bf16 --offload-optimizer cpu "
        "--offload-parameters cpu",
        FITS,
        "the weights are on the host",
    ),
    ask(
        "DeepSeek-V3 on a 4090, its experts on the host?",
        f"fit deepseek-v3 --gpu RTX-4090 {SERVE} --engine llama_cpp --quantization q4_k_m "
        f"--cpu-moe-layers 61 {ONE}",
        FITS,
        "on the host",
    ),
    ask(
        "DPO with LoRA on one H100?",
        f"fit llama-3.1-8b {H100} {LORA} --trainer dpo --sequence-length 2048 --micro-batch-size 2",
        DOES_NOT_FIT,
        "adapters on attention alone",
    ),
    ask("Four adapters in vLLM?", f"fit llama-3.1-8b {H100} {_VLLM} {_CHAT} --max-loras 4", FITS),
    ask("A Gaudi?", f"fit llama-3.1-8b --gpu 'Gaudi 3' {_VLLM} {ONE}", FITS, "measure before you"),
    ask(
        "How many H100 for steps of 30 seconds?",
        f"how-many llama-3.1-8b {H100} {LORA} --sequence-length 4096 --max-step-time-s 30",
        REFUSED,
        "`headroom plan` takes --max-step-time-s",
    ),
    ask(
        "A P100?",
        f"fit gpt2 --gpu 'Tesla P100' {SERVE} {ONE}",
        REFUSED,
        "say P100-PCIE-16GB (16.00 GiB) or",
    ),
    ask("A GH200?", f"fit gpt2 --gpu GH200 {SERVE} {ONE}", REFUSED, "or GH200-144GB ("),
)
