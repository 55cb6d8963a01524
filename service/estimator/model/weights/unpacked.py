"""Weights of a checkpoint that a library unpacks while it loads them."""

from dataclasses import dataclass, replace
from typing import Self

from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.estimator.model.weights.scheme import Scheme


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedWeights:
    """Storage of the checkpoint, and why it is left.

    Another workload may load the same weights packed. ``reason`` is shown as a warning.
    """

    reason: str
    quantization: Scheme | None = None
    gguf: GgufBytes | None = None

    def with_layers(self, num_layers: int) -> Self:
        """Return the storage of a model cut to its first layers."""
        return replace(self, gguf=self.gguf and self.gguf.with_layers(num_layers))
