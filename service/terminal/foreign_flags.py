"""Flags that people know from launchers, and what stands in their place."""

import argparse

from service.terminal.arguments import Parser

_WORDS_OF_OTHERS = {
    "--device-map": " A layout's weights are on its GPUs. With some on the host: --engine vllm or "
    "sglang with --cpu-offload-gb, or --engine llama_cpp with --gpu-layers.",
    **{
        f"--{axis[0]}p": f" Did you mean --{axis}-parallel?"
        for axis in ("tensor", "data", "pipeline", "context", "expert")
    },
    "--epochs": " All epochs' samples together: --num-samples N, for which the time is told.",
    "--fp16": " Say the policy of number formats: --precision fp16, or amp_fp16 for autocast.",
    "--bf16": " Say the policy of number formats: --precision bf16, or amp_bf16 for autocast.",
    "--flash-attention": " Say the kernel: --attention flash.",
    "--flash-attn": " Say the kernel: --attention flash.",
    "--load-in-4bit": " To train: --method qlora. To serve: --quantization nf4.",
    "--limit-mm-per-prompt": " On engine vllm: --max-images-per-prompt N, "
    "--max-videos-per-prompt N. What a request brings: --image WxHxN, --video FxWxHxN.",
}
OTHER_TASKS = {
    **dict.fromkeys(
        ("finetune", "fine-tune", "finetuning", "training", "sft", "pretrain"), "train"
    ),
    **dict.fromkeys(("inference", "infer", "serving", "generate", "predict", "chat"), "serve"),
}
"""Words that people say for a task, and the task."""


def explain_foreign_flags(parser: argparse.ArgumentParser) -> None:
    """Tell whoever says one what to say instead."""
    if isinstance(parser, Parser):
        for flag, message in _WORDS_OF_OTHERS.items():
            parser.explain_absent(flag, message)
