"""Batches of llama.cpp's defaults (``common/common.h``)."""

MICRO_BATCH = 512
"""``n_ubatch``'s default: tokens that one graph computes."""
BATCH = 2048
"""``n_batch``'s default, beyond which no micro batch is larger."""
