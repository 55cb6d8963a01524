"""Kinds of work of recorded operations, by what decides their time."""

from enum import Enum, auto


class Work(Enum):
    """Kernels behind one operation.

    A recording of bytes does not look at them; a count of launches does.
    """

    MOVE = auto()
    """one kernel for each tensor that is made, as long as what it reads and writes"""
    FUSED = auto()
    """one kernel with all its outputs; so is its backward, whatever is held inside"""
    PRODUCT = auto()
    """a matrix product"""
    BATCHED = auto()
    """matrix products of a batch, as those of attention without a fused kernel"""
    ATTENTION = auto()
    """a fused attention kernel"""
