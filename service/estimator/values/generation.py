"""Words about who calls a model that transformers serves."""

from enum import StrEnum


class Client(StrEnum):
    """Caller of a model that transformers serves."""

    GENERATE = "generate"
    """``model.generate()``, with tensors of its own around each pass"""
    LOOP = "loop"
    """a loop of forward passes, of which the last position's logits are read"""


class Sampling(StrEnum):
    """Choice of the next token by ``generate``."""

    GREEDY = "greedy"
    SAMPLE = "sample"
    """``do_sample=True``: one of the 50 likeliest tokens, as its ``top_k`` is by default"""
