"""Serving probes that grow a cache token by token.

A probe brings a cache to its last length in one pass, whose queries are many at once: more bytes
than a token of any loop takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from worker.probes.run import serving
from worker.probes.run.serving import KvCache, ModelInputs, Server

_NAMES = ("input_ids", "decoder_input_ids")


@contextmanager
def grow_one_by_one() -> Iterator[None]:
    """Let probes run each token of a cache's growth in a pass of its own, for a block."""
    run_together = serving._forward  # noqa: SLF001 - what a block replaces

    def run_each(server: Server, inputs: ModelInputs, cache: KvCache, phase: str) -> None:
        if phase != "growing":
            run_together(server, inputs, cache, phase)
            return
        name = next(name for name in _NAMES if name in inputs)
        num_sequences, num_tokens = inputs[name].shape
        others = {key: value for key, value in inputs.items() if key != name}
        inputs.clear()
        for _ in range(num_tokens):
            token = serving._draw_tokens(server, num_sequences, 1)  # noqa: SLF001 - the same ids
            run_together(server, others | {name: token}, cache, phase)

    with patch.object(serving, "_forward", run_each):
        yield
