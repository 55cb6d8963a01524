"""Passes of a micro-batch through a chunk."""

from enum import StrEnum
from typing import NamedTuple


class PassKind(StrEnum):
    """Kind of a pass.

    A backward is that towards inputs and that towards weights.
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    INPUT = "input"
    WEIGHT = "weight"


class Pass(NamedTuple):
    """One pass: a chunk of the stage and its micro-batch."""

    kind: PassKind
    chunk: int
    micro_batch: int
