"""Heads that SDPA pads to a width of flash attention's kernel."""

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.sizes import count_rows, scale


def pad_heads(tape: Tape, part: Value, heads: Heads, query: Value, padding: int) -> Value:
    """Return query, key or value with ``padding`` more elements a head.

    It is a copy, and its gradient another (ATen ``pad_last_dim``, ``constant_pad_nd``).
    """
    width = heads.count_width(query)
    numel = scale(count_rows(part.numel, width), width + padding)

    def backward(_: Storage) -> None:
        tape.send(part, tape.scratch(part.numel, part.dtype))

    return tape.emit(numel, part.dtype, inputs=(part,), backward=backward)


def narrow_heads(tape: Tape, padded: Value, query: Value) -> Value:
    """Return a view of padded heads without the padding, and drop them."""
    view = narrow(tape, padded, query.numel)
    tape.free(padded)
    return view
