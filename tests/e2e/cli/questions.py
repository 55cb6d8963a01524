"""What people ask, in their words, beside the command that asks it and what must be answered."""

from dataclasses import dataclass

FITS, DOES_NOT_FIT, REFUSED = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its command, the exit code of its answer, and words of it."""

    words: str
    command: str
    status: int
    says: tuple[str, ...]


def ask(words: str, command: str, status: int, *says: str) -> Question:
    """Return a question."""
    return Question(words=words, command=command, status=status, says=says)


A100, H100, _4090 = "--gpu A100-SXM4-80GB", "--gpu H100-SXM5-80GB", "--gpu RTX-4090"
TRAIN, SERVE = "--task train --precision bf16", "--task serve"
LORA = f"{TRAIN} --method lora"
ONE = "--num-sequences 1 --prompt-tokens 1024 --output-tokens 128"

TRAINING = (
    ask(
        "Does a full fine-tuning of Llama 2 7B fit on one A100?",
        f"fit llama-2-7b {A100} --task train --sequence-length 4096",
        DOES_NOT_FIT,
        "optimizer_step",
        "lora",
    ),
    ask(
        "And with LoRA?",
        f"fit llama-2-7b {A100} {LORA} --sequence-length 4096",
        FITS,
        "adapters",
    ),
    ask(
        "QLoRA of a 70B on a card of 48 GB?",
        "fit llama-2-70b --gpu L40S --task train --method qlora --precision bf16 "
        "--sequence-length 1024 --activation-checkpointing full",
        FITS,
        "tight",
    ),
    ask(
        "QLoRA in 8 bits?",
        f"fit llama-3-8b {_4090} --task train --method qlora --precision bf16 "
        "--quantization-bits 8 --sequence-length 512 --activation-checkpointing full",
        FITS,
        "weights",
    ),
    ask(
        "How many A100s for a 70B with ZeRO-3?",
        "how-many llama-2-70b --gpu A100-SXM4-80GB --task train --sequence-length 4096 "
        "--zero-stage 3",
        FITS,
        "24 GPUs",
    ),
    ask(
        "Are 8 of them enough?",
        "how-many llama-2-70b --gpu A100-SXM4-80GB --task train --sequence-length 4096 "
        "--zero-stage 3 --max-gpus 8",
        DOES_NOT_FIT,
        "8 GPUs are not enough, 24 are",
    ),
    ask(
        "Is there any number of T4s for 405B?",
        "how-many llama-3.1-405b --gpu T4 --task train --sequence-length 4096",
        DOES_NOT_FIT,
        "not enough",
    ),
    ask(
        "What is my largest batch with LoRA?",
        f"ceilings llama-3.1-8b {H100} {LORA} --sequence-length 4096 --maximize micro_batch_size",
        FITS,
        "micro batch size up to",
    ),
    ask(
        "How long may my sequences be?",
        f"ceilings llama-3.2-1b {H100} {LORA} --activation-checkpointing full "
        "--maximize sequence_length",
        FITS,
        "sequence length up to",
    ),
    ask(
        "What LoRA rank can I have?",
        f"ceilings llama-3.2-1b {H100} {LORA} --sequence-length 1024 --maximize lora_rank",
        FITS,
        "LoRA rank up to",
    ),
    ask(
        "Does checkpointing get a full 8B onto an H100?",
        f"fit llama-3-8b {H100} {TRAIN} --sequence-length 2048 --optimizer adamw_fused "
        "--activation-checkpointing full",
        FITS,
    ),
    ask(
        "And Adam in 8 bits?",
        f"fit llama-3-8b {H100} {TRAIN} --sequence-length 2048 --optimizer adamw_8bit "
        "--activation-checkpointing full",
        FITS,
        "embeddings have 32-bit states",
    ),
    ask(
        "And Adafactor?",
        f"fit llama-3-8b {H100} {TRAIN} --sequence-length 2048 --optimizer adafactor "
        "--activation-checkpointing full",
        FITS,
    ),
    ask(
        "Does GaLore fit on a 4090, as its paper says?",
        f"fit llama-3-8b {_4090} {TRAIN} --sequence-length 512 --optimizer galore_adamw "
        "--activation-checkpointing full",
        DOES_NOT_FIT,
        "gradients",
    ),
    ask(
        "DPO of a 7B on one H100?",
        f"fit mistral-7b-v0.1 {H100} {LORA} --trainer dpo --sequence-length 1024",
        FITS,
    ),
    ask(
        "A reward model?",
        f"fit llama-3-8b {H100} {LORA} --trainer reward --sequence-length 1024",
        FITS,
    ),
    ask(
        "GRPO?",
        f"fit llama-3-8b {H100} {TRAIN} --trainer grpo --sequence-length 1024",
        FITS,
        "log_probs",
    ),
    ask(
        "Pre-train BERT?",
        f"fit bert-base-uncased {A100} --task train --sequence-length 512 --micro-batch-size 64",
        FITS,
    ),
    ask(
        "Fine-tune RoBERTa on the T4 that I have?",
        "fit roberta-base --gpu T4 --task train --sequence-length 256 --micro-batch-size 32",
        FITS,
        "flash attention needs 8.0",
    ),
    ask(
        "Whisper large?",
        f"fit whisper-large-v3 {A100} --task train --precision bf16_mixed --sequence-length 448",
        FITS,
    ),
    ask(
        "A model that sees, with LoRA?",
        f"fit qwen2.5-vl-7b {H100} {LORA} --sequence-length 2048",
        FITS,
        "no images",
    ),
    ask(
        "How many H100s for Mixtral?",
        "plan mixtral-8x7b --gpus H100-SXM5-80GB --task train --sequence-length 4096 --max-gpus 16",
        FITS,
        "16 x H100-SXM5-80GB",
    ),
    ask(
        "61 layers in 16 stages?",
        f"fit deepseek-v3 {H100} --task train --framework megatron --precision megatron_bf16 "
        "--sequence-length 4096 --pipeline-parallel 16 --sharding megatron",
        REFUSED,
        "or say pipeline_layers [",
    ),
    ask(
        "A 70B over two nodes with FSDP2?",
        f"fit llama-3.1-70b {H100} --task train --precision bf16_mixed --sequence-length 4096 "
        "--data-parallel 32 --sharding fsdp2 --activation-checkpointing full",
        FITS,
        "32 GPUs",
    ),
    ask(
        "Megatron with tensors over 8 and 4 stages?",
        f"fit llama-2-70b {H100} --task train --framework megatron --precision megatron_bf16 "
        "--sequence-length 4096 --tensor-parallel 8 --pipeline-parallel 4 --data-parallel 2 "
        "--zero-stage 1 --sharding megatron --gradient-accumulation-steps 16",
        FITS,
        "on stage",
    ),
    ask(
        "The optimizer's states on the host?",
        f"fit llama-2-13b {A100} --task train --precision deepspeed_bf16 --sequence-length 2048 "
        "--zero-stage 2 --data-parallel 8 --sharding deepspeed --offload-optimizer cpu "
        "--activation-checkpointing full",
        FITS,
    ),
    ask(
        "torch.compile?",
        f"fit llama-3.2-1b {H100} {TRAIN} --sequence-length 2048 --compile",
        FITS,
        "what inductor's partitioner keeps for backward is counted",
    ),
    ask(
        "Sequences of varied lengths, without padding?",
        f"fit llama-3-8b {H100} {LORA} --sequence-length 4096 --packing padding_free "
        "--sequence-lengths 512,2048,512,1024 --attention flash",
        FITS,
    ),
    ask(
        "A LoRA of Gemma on a laptop's 4090?",
        f"fit gemma-2-2b --gpu 'RTX 4090 Laptop' {LORA} --sequence-length 512 "
        "--activation-checkpointing full",
        FITS,
        "Laptop",
    ),
    ask(
        "A100 or H100, which is cheaper?",
        "plan llama-3.2-1b --gpus A100-SXM4-80GB,H100-SXM5-80GB --objective cheapest --task train "
        "--sequence-length 1024",
        FITS,
        "USD",
    ),
)
