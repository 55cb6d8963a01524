"""Losses of a training step."""

from enum import StrEnum


class Loss(StrEnum):
    """Loss kernel, by its treatment of the logits."""

    FULL_LOGITS = "full_logits"
    FUSED_CROSS_ENTROPY = "fused_cross_entropy"
    FLASH_CROSS_ENTROPY = "flash_cross_entropy"
    """flash-attn's (LLM Foundry): 16-bit logits as they are, their gradient a second tensor"""
    CHUNKED = "chunked"
    FUSED_LINEAR = "fused_linear"
    CHUNKED_NLL = "chunked_nll"
    """TRL's of SFT: log-probabilities in tiles, the logits never whole"""
    NLL = "nll"
    """the same since TRL 1.16, of which ``chunked_nll`` is an older name"""
    DFT = "dft"
    """TRL's Dynamic Fine-Tuning (arXiv:2508.05629), with the same tiles"""


LOG_PROB_LOSSES = frozenset({Loss.CHUNKED_NLL, Loss.NLL, Loss.DFT})
"""Losses of TRL's trainers, all of the same log-probabilities."""
