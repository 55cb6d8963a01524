"""Trainings that forums and issue trackers ask about, with what people reported."""

from tests.e2e.cli.questions import (
    A100,
    DOES_NOT_FIT,
    FITS,
    H100,
    LORA,
    REFUSED,
    TRAIN,
    _4090,
    ask,
)

_3090 = "--gpu RTX-3090"
_QLORA = "--task train --method qlora --activation-checkpointing full"

FORUMS = (
    ask(
        "LoRA of a 7B by litgpt on a 3090? (litgpt#553)",
        f"fit llama-2-7b {_3090} {LORA} --framework litgpt --sequence-length 1024",
        FITS,
        "tight",
    ),
    ask(
        "QLoRA of a 7B on a 3060?",
        f"fit llama-2-7b --gpu RTX-3060-12GB {_QLORA} --sequence-length 512",
        FITS,
        "fits",
    ),
    ask(
        "In 8 bits on 12 GB, a batch of four? (alpaca-lora#424 runs out at its first evaluation)",
        f"fit llama-2-7b --gpu RTX-3060-12GB {_QLORA} --quantization-bits 8 --precision fp16 "
        "--sequence-length 256 --micro-batch-size 4",
        DOES_NOT_FIT,
        "what would help",
    ),
    ask(
        "LoRA of an 8B at 2,048 on a 4090? (torchtune#1694 runs out)",
        f"fit llama-3.1-8b {_4090} {LORA} --sequence-length 2048 --micro-batch-size 2",
        DOES_NOT_FIT,
        "activation_checkpointing = full",
    ),
    ask(
        "LoRA of a 7B over four cards of 48 GB? (open-instruct#12)",
        "fit llama-2-7b --gpu A40 --task train --method lora --data-parallel 4 --zero-stage 3 "
        "--sharding deepspeed --sequence-length 2048",
        FITS,
        "19.47 GiB left",
    ),
    ask(
        "A 70B in full on one node of H200?",
        "fit llama-3.1-70b --gpu H200-SXM5-141GB --task train --precision bf16 --data-parallel 8 "
        "--zero-stage 3 --sharding fsdp2 --sequence-length 4096 --activation-checkpointing full",
        FITS,
        "8 GPUs: fits",
    ),
    ask(
        "How many H100 for that?",
        "how-many llama-3.1-70b --gpu H100-SXM5-80GB --task train --sequence-length 4096",
        FITS,
        "24 GPUs",
    ),
    ask(
        "QLoRA of a 70B on two 3090 by FSDP? (fsdp_qlora trains it)",
        f"fit llama-2-70b {_3090} {_QLORA} --precision bf16 --data-parallel 2 --zero-stage 3 "
        "--sharding fsdp1 --sequence-length 512",
        FITS,
        "is tight",
    ),
    ask(
        "Fine-tuning Whisper large on a T4?",
        "fit openai/whisper-large-v3 --gpu T4 --task train --sequence-length 448 --precision fp32 "
        "--activation-checkpointing full",
        DOES_NOT_FIT,
        "what would help",
    ),
    ask(
        "With 4,096 tokens?",
        "fit openai/whisper-large-v3 --gpu T4 --task train --sequence-length 4096 --precision fp32",
        REFUSED,
        "learned positions for 448",
        "say 448 or fewer",
    ),
    ask(
        "LoRA of FLUX on 24 GB?",
        f"fit flux.1-dev {_4090} --task train --method lora --sequence-length 512",
        REFUSED,
        "try `headroom generate flux.1-dev`",
    ),
    ask(
        "T5 3B on 40 GB?",
        f"fit t5-3b --gpu A100-SXM4-40GB {TRAIN} --sequence-length 512",
        FITS,
        "9.76 GiB left",
    ),
    ask(
        "GRPO of a 7B on eight H100 with ZeRO-3?",
        f"fit qwen2.5-7b {H100} --task train --trainer grpo --data-parallel 8 --zero-stage 3 "
        "--sharding deepspeed --sequence-length 2048",
        REFUSED,
        "modelled: zero_stage 0, 1 or 2",
    ),
    ask(
        "DPO of an 8B by LoRA on one A100?",
        f"fit llama-3-8b {A100} {LORA} --trainer dpo --sequence-length 2048",
        FITS,
        "24.10 GiB left",
    ),
    ask(
        "Its QLoRA on a T4?",
        f"fit gpt-oss-20b --gpu T4 {_QLORA} --sequence-length 1024",
        REFUSED,
        'say "lora"',
    ),
    ask(
        "LLaVA in full on one A100, a batch of one? (LLaVA#1683)",
        f"fit llava-1.5-7b {A100} {TRAIN} --sequence-length 2048",
        FITS,
        "11.48 GiB left",
    ),
    ask(
        "The largest batch of LoRA on an H100?",
        f"ceilings llama-3-8b {H100} {LORA} --sequence-length 2048 --maximize micro_batch_size",
        FITS,
        "micro batch size up to 14",
    ),
    ask(
        "DeepSeek-V3 in full, how many H100?",
        "how-many deepseek-v3 --gpu H100-SXM5-80GB --task train --sequence-length 4096",
        REFUSED,
        "give the model in 16 bits",
    ),
)
