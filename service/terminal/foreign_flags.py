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
    "--limit-mm-per-prompt": " On engine vllm: --max-images-per-prompt N, "
    "--max-videos-per-prompt N. What a request brings: --image WxHxN, --video FxWxHxN.",
}


def explain_foreign_flags(parser: argparse.ArgumentParser) -> None:
    """Tell whoever says one what to say instead."""
    if isinstance(parser, Parser):
        for flag, message in _WORDS_OF_OTHERS.items():
            parser.explain_absent(flag, message)
