"""Questions in other programs' words, and of what engines hold or refuse at their start."""

from tests.e2e.cli.questions import A100, DOES_NOT_FIT, FITS, H100, ONE, REFUSED, SERVE, ask

_4090, _TRAIN = "--gpu RTX-4090", f"fit llama-3.2-1b {H100} --task train --sequence-length 1024"
_8B = f"fit llama-3.1-8b {_4090} {SERVE} {ONE}"

OTHER_WORDS = (
    ask("PPO?", f"{_TRAIN} --trainer ppo", REFUSED, "its critic", "say 'grpo'"),
    ask("IPO?", f"{_TRAIN} --trainer ipo", REFUSED, "say 'dpo'"),
    ask("SFT?", f"{_TRAIN} --trainer sft", REFUSED, "say 'supervised'"),
    ask("ZeRO-3, in a word?", f"{_TRAIN} --sharding zero3", REFUSED, "with zero_stage 3"),
    ask("On TEI?", f"{_8B} --engine tei", REFUSED, "Text Embeddings Inference has no term"),
    ask("On Ollama?", f"{_8B} --engine ollama", REFUSED, "say 'llama_cpp'"),
    ask("In 4 bits?", f"{_8B} --quantization 4bit", REFUSED, "say 'nf4'"),
    ask("In bitsandbytes?", f"{_8B} --quantization bitsandbytes", REFUSED, "'int8' for 8"),
    ask("In IQ4_XS?", f"{_8B} --quantization IQ4_XS", REFUSED, "the file itself has"),
    ask(
        "Stable Diffusion XL?",
        f"fit stabilityai/stable-diffusion-xl-base-1.0 {_4090} {SERVE} {ONE}",
        REFUSED,
        "try `headroom generate",
    ),
)

STARTS = (
    ask(
        "vLLM's own words?",
        f"{_8B} --enable-prefix-caching",
        REFUSED,
        "behind --, in its own command",
    ),
    ask(
        "A million tokens, of a model of 131,072?",
        f"fit llama-3.1-8b {H100} {SERVE} --engine vllm --num-sequences 1 --prompt-tokens 1000000 "
        "--output-tokens 1000",
        REFUSED,
        "the model was made for 131072",
        "say max_model_len 1001000",
    ),
    ask(
        "FLAN-T5 XXL with LoRA?",
        f"fit google/flan-t5-xxl {A100} --task train --method lora --precision bf16 "
        "--sequence-length 512",
        FITS,
        "1.1e10 params",
    ),
    ask(
        "A 14B on SGLang with 40 GB?",
        f"fit qwen2.5-14b --gpu A100-SXM4-40GB {SERVE} --engine sglang --num-sequences 4 "
        "--prompt-tokens 4096 --output-tokens 512",
        FITS,
        "longer requests are refused",
        "request_table",
    ),
    ask(
        "TGI on 24 GB, without a length?",
        f"fit llama-3.1-8b --gpu A10G {SERVE} --engine tgi --num-sequences 8 "
        "--prompt-tokens 2048 --output-tokens 512",
        FITS,
        "longer requests are refused",
    ),
    ask(
        "Falcon Mamba over two ranks?",
        f"fit falcon-mamba-7b {H100} {SERVE} --engine vllm --tensor-parallel 2 {ONE}",
        FITS,
        "2 GPUs",
    ),
    ask(
        "NVFP4 on a GPU without its arithmetic?",
        f"fit llama-3.1-8b {A100} {SERVE} --engine vllm --quantization nvfp4 {ONE}",
        FITS,
        "and multiplies in 16 (Marlin)",
    ),
    ask(
        "The 20B of OpenAI on a 4090, by transformers?",
        f"fit openai/gpt-oss-20b {_4090} {SERVE} {ONE}",
        DOES_NOT_FIT,
        "quantization = mxfp4",
        "the experts stay in mxfp4",
    ),
    ask(
        "DeepSeek Coder on vLLM with 40 GB, without a length?",
        f"fit deepseek-coder-6.7b --gpu A100-SXM4-40GB {SERVE} --engine vllm {ONE}",
        DOES_NOT_FIT,
        "the engine does not start",
        "max_model_len",
    ),
    ask(
        "BERT on vLLM, as it was published?",
        f"fit bert-base-uncased --gpu L4 {SERVE} --engine vllm --num-sequences 8 "
        "--prompt-tokens 512 --output-tokens 0",
        REFUSED,
        "its head of a language model",
        "head none for embeddings",
    ),
    ask(
        "An embedding model in fp8?",
        f"fit bge-large-en-v1.5 --gpu L4 {SERVE} --engine vllm --quantization fp8 "
        "--num-sequences 8 --prompt-tokens 512 --output-tokens 0",
        REFUSED,
        "weights in 16 or 32 bits, without quantization",
    ),
    ask(
        "A million tokens of an 8B on one H100?",
        f"fit llama-3.1-8b {H100} {SERVE} --engine vllm --num-sequences 1 --prompt-tokens 1000000 "
        "--output-tokens 1000 --max-model-len 1001000",
        DOES_NOT_FIT,
        "longer than max_position_embeddings",
    ),
    ask(
        "ZeRO-3 of a 70B on a host of one TiB?",
        f"fit llama-2-70b {A100} --task train --precision deepspeed_bf16 --sequence-length 2048 "
        "--zero-stage 3 --data-parallel 8 --sharding deepspeed --offload-optimizer cpu "
        "--offload-parameters cpu --activation-checkpointing full --host-memory-bytes 1Ti",
        DOES_NOT_FIT,
        "a node has too little for what is offloaded",
        "the host is too small",
    ),
)
