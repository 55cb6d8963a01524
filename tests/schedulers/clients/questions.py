"""Questions of jobs on one A100 of 80 GB, and what a bench says of them."""

import sys

FITS = "llama-3.2-1b --task train --sequence-length 1024"
TOO_LARGE = (
    "llama-2-7b --task train --sequence-length 4096 --zero-stage 3 --activation-checkpointing full"
)
SENTENCE = "headroom: does not fit"


def report(name: str, text: object) -> None:
    """Print what became of something, on one line."""
    sys.stdout.write(f"{name}: {' '.join(str(text).split())[:200]}\n")
