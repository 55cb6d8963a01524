"""Questions by what people call a GPU, a machine, a task or a switch."""

from tests.e2e.cli.questions import DOES_NOT_FIT, FITS, H100, ONE, REFUSED, SERVE, ask

_4090 = "--gpu 4090"
_VLLM = f"{SERVE} --engine vllm"
_CHAT = "--num-sequences 4 --prompt-tokens 4096"
_8B = "fit llama-3.1-8b"
_7B = "fit mistral-7b-v0.1 --gpu T4 --task train --method qlora --sequence-length 1024"
_FULL = "--task train --method full --sequence-length"

NAMED_GPUS = (
    ask("An H100?", f"{_8B} --gpu H100 {SERVE} {ONE}", REFUSED, "say H100-SXM5-80GB (79.65 GiB)"),
    ask("A100 of 80 GB?", f"{_8B} --gpu A100-80GB {SERVE} {ONE}", REFUSED, "or A100-PCIE-80GB"),
    ask("An RTX 6000?", f"{_8B} --gpu 'RTX 6000' {SERVE} {ONE}", REFUSED, "RTX-6000-Ada (47.99"),
    ask("A 4060 Ti?", f"{_8B} --gpu 'RTX 4060 Ti' {SERVE} {ONE}", REFUSED, "(8.00 GiB) or"),
    ask("How many H100?", f"how-many llama-3.1-70b --gpu H100 {_FULL} 4096", FITS, "24 GPUs"),
    ask(
        "Which of H100 and A100?",
        f"plan llama-3.1-8b --gpus H100,A100 {_FULL} 8192",
        FITS,
        "H100-NVL-94GB",
    ),
    ask("16 GB?", f"{_8B} --gpu 16GB {SERVE} {ONE}", REFUSED, '--gpu-memory "16Gi"'),
    ask("A card of 24 GB?", f"{_8B} --gpu '24 GB card' {SERVE} {ONE}", REFUSED, '"24Gi"'),
    ask("On a g5.xlarge?", f"{_8B} --gpu g5.xlarge {_VLLM} {ONE}", REFUSED, "say theirs, A10G"),
    ask("On a p4de?", f"{_8B} --gpu p4de.24xlarge {_VLLM} {ONE}", REFUSED, "A100-SXM4-80GB"),
    ask("On an a2?", f"{_8B} --gpu a2-highgpu-1g {_VLLM} {ONE}", REFUSED, "A100-SXM4-40GB"),
    ask("On Azure's NC24ads?", f"{_8B} --gpu NC24ads_A100_v4 {SERVE} {ONE}", REFUSED, "PCIE-80GB"),
    ask("2x 3090?", f"fit qwen3-8b --gpu '2x 3090' {_VLLM} {ONE}", REFUSED, "tensor_parallel 2"),
    ask("--gpus?", f"{_8B} --gpus H100 {SERVE} {ONE}", REFUSED, "headroom how-many finds"),
    ask("M3 Max?", f"{_8B} --gpu 'M3 Max' {SERVE} {ONE}", REFUSED, "is Apple silicon"),
    ask("TPU v5e?", f"{_8B} --gpu 'TPU v5e' {SERVE} {ONE}", REFUSED, "is a TPU"),
    ask("MI300X?", f"{_8B} --gpu MI300X --task train --method lora --sequence-length 4096", FITS),
    ask(
        "DGX Spark?",
        f"fit gpt-oss-120b --gpu 'DGX Spark' {SERVE} --engine llama_cpp {ONE}",
        FITS,
        "119.18 GiB usable",
    ),
)

NAMED_SWITCHES = (
    ask("Fine-tune?", f"{_8B} {H100} --task finetune", REFUSED, "Did you mean 'train'"),
    ask("Inference?", f"{_8B} {H100} --task inference", REFUSED, "Did you mean 'serve'"),
    ask("In fp16?", f"{_7B} --fp16", REFUSED, "Say the policy", "--precision fp16"),
    ask("QLoRA in fp16 on a T4?", f"{_7B} --precision fp16", DOES_NOT_FIT, "what would help"),
    ask("LoRA's r?", f"{_7B} --lora-r 16", REFUSED, "--lora-rank"),
    ask("Three epochs?", f"{_7B} --epochs 3", REFUSED, "--num-samples N"),
    ask("A batch of 32?", f"{_7B} --batch-size 32", REFUSED, "--micro-batch-size"),
    ask("Flash attention?", f"{_7B} --flash-attention", REFUSED, "--attention flash"),
    ask("load_in_4bit?", f"{_8B} {_4090} {SERVE} {ONE} --load-in-4bit", REFUSED, "nf4"),
    ask("AWQ?", f"{_8B} {_4090} {_VLLM} {ONE} --quantization awq", REFUSED, "'awq_int4'"),
    ask("llama.cpp?", f"fit phi-4 {_4090} {SERVE} --engine llama.cpp {ONE}", REFUSED, "llama_cpp"),
    ask("TensorRT-LLM?", f"{_8B} {H100} {SERVE} --engine tensorrt-llm {ONE}", REFUSED, "_llm'"),
    ask(
        "On three of them?",
        f"fit llama-3.3-70b --gpu A100-SXM4-80GB {_VLLM} {_CHAT} --tensor-parallel 3",
        REFUSED,
        "possible: 1, 2, 4",
    ),
    ask("FSDP?", f"{_8B} {H100} {_FULL} 8192 --sharding fsdp", REFUSED, "'fsdp2'"),
    ask(
        "Muon on a B200?",
        f"{_8B} --gpu B200 {_FULL} 8192 --optimizer muon",
        FITS,
        "muon states",
    ),
    ask(
        "How many chats on an L4?",
        "ceilings llama-3.1-8b --gpu L4 --task serve --engine vllm --prompt-tokens 2048 "
        "--maximize num_sequences",
        DOES_NOT_FIT,
        "the engine does not start",
        "no number of sequences fits",
        "with max_model_len 32,576 it has",
    ),
    ask(
        "And of 8,192 tokens each?",
        "ceilings llama-3.1-8b --gpu L4 --task serve --engine vllm --prompt-tokens 2048 "
        "--maximize num_sequences --max-model-len 8192",
        FITS,
        "number of sequences up to",
    ),
)

NAMED_MODELS = (
    ask(
        "DeepSeek R1 on eight H200?",
        f"fit deepseek-r1 --gpu H200-SXM5-141GB {_VLLM} {_CHAT} --tensor-parallel 8",
        FITS,
        "8 GPUs",
    ),
    ask(
        "R1 of Ollama, 14B?",
        f"fit deepseek-r1:14b {_4090} {SERVE} --engine llama_cpp {ONE}",
        DOES_NOT_FIT,
        "q4_k_m",
    ),
    ask(
        "Qwen's coder of 32B on a 4090?",
        f"fit qwen2.5-coder-32b-instruct {_4090} {SERVE} --engine llama_cpp "
        f"--quantization q4_k_m {ONE}",
        FITS,
    ),
    ask("Gemma 4 27B?", f"fit gemma-4-27b --gpu L40S {_VLLM} {_CHAT}", REFUSED, "gemma-4-26b-a4b"),
    ask(
        "Qwen3.6 in FP8?",
        f"fit Qwen/Qwen3.6-35B-A3B-FP8 --gpu L40S {_VLLM} {_CHAT}",
        DOES_NOT_FIT,
        "the engine does not start",
    ),
    ask(
        "Qwen3.5 9B in FP8, by somebody?",
        f"fit Qwen/Qwen3.5-9B-FP8 --gpu L40S {_VLLM} {_CHAT}",
        REFUSED,
        "with quantization fp8",
    ),
    ask("MiniLM, trained?", f"fit all-MiniLM-L6-v2 --gpu T4 {_FULL} 256", FITS),
    ask(
        "A reranker?",
        f"fit bge-reranker-v2-m3 --gpu T4 {_VLLM} --num-sequences 32 --prompt-tokens 512 "
        "--output-tokens 0",
        FITS,
    ),
    ask(
        "405B on eight MI300X?",
        f"fit llama-3.1-405b --gpu MI300X {_VLLM} {_CHAT} --tensor-parallel 8",
        FITS,
    ),
    ask(
        "Qwen3 235B, trained?",
        f"how-many qwen3-235b-a22b {H100} {_FULL} 4096 --max-gpus 1024",
        FITS,
        "104 GPUs",
    ),
    ask("Whisper on a T4?", f"fit openai/whisper-large-v3 --gpu T4 {SERVE} {ONE}", REFUSED, ""),
)
