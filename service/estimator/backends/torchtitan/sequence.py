"""Sequences split over tensor-parallel ranks.

What gathering a sequence and reducing its parts allocate (torch 2.13
``distributed/_functional_collectives.py``: a gather along the sequence stacks the ranks' parts
along the first dimension and concatenates them; a reduce-scatter along it first makes a copy whose
parts lie one after another).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.sizes import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class FullSequenceShape(PassShape):
    """Pass shape of all ranks' tokens.

    A recording's own token is one rank's.
    """

    ranks: int

    def tokens(self, count: int) -> Size:
        """Return ``count`` elements per token of any rank."""
        return sizes.per_token(count * self.ranks)

    def positions(self, count: int) -> Size:
        """Return ``count`` elements per position of any rank."""
        return sizes.per_position(count * self.ranks)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per pair of positions of any ranks."""
        return sizes.per_score(count * self.ranks**2)


@contextmanager
def use_full_sequence(ctx: Recording, ranks: int) -> Iterator[None]:
    """Record with all ranks' tokens meanwhile."""
    shape = ctx.shape
    ctx.shape = FullSequenceShape(ranks=ranks) if ranks > 1 else shape
    yield
    ctx.shape = shape


def gather_sequence(tape: Tape, x: Value, ranks: int) -> Value:
    """Return all ranks' tokens.

    Each rank gets the sum of all gradients of its own tokens. ``x`` stays with the caller; of one
    rank it is the same.
    """
    if ranks == 1:
        return tape.alias(x)
    numel = sizes.scale(x.numel, ranks)
    stacked = tape.scratch(numel, x.dtype)

    def backward(_: Storage) -> None:
        parts = tape.scratch(numel, x.dtype)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(parts)
        tape.send(x, grad)

    y = tape.emit(numel, x.dtype, inputs=(x,), backward=backward)
    tape.release(stacked)
    return y


def split_by_rank(tape: Tape, x: Value) -> Value:
    """Return a copy of ``x`` with the ranks' parts in order.

    The parts lie one after another; ``x`` stays with the caller.
    """
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        backward=lambda grad: tape.send(x, tape.hold(grad), is_view=True),
    )
