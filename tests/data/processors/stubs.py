"""Processors without a tokenizer: one character stands for each special token."""

from typing import Any

import transformers

Counted = tuple[int, int, int]
"""Features, tokens and pieces."""


def make_stub(name: str, **attributes: object) -> Any:
    """Return a processor without a tokenizer."""
    cls = getattr(transformers, name)
    stub = cls.__new__(cls)
    for key, value in attributes.items():
        setattr(stub, key, value)
    return stub
