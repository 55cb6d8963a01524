"""Flat parameters on a tape: what is gathered while blocks run, and what waits for the GPU."""

import pytest

from service.estimator.tape.flat_units import FlatUnits
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, multiply_scalar
from service.estimator.tape.units import FsdpConfig
from tests.unit.estimator.tape.builders import a_leaf, a_tape, live_bytes

ROOT, BLOCK, DEPTH = 10, 100, 3
"""Elements of the units, and how many blocks there are."""


def _forward(
    *, lagging: bool = False, reshard: bool = True, ahead: bool = True
) -> tuple[Tape, FlatUnits]:
    """Return a tape and its units after all blocks have run, and before backward begins."""
    tape = a_tape()
    how = FsdpConfig(
        gather_bytes=2,
        adapter_bytes=2,
        reduce_bytes=2,
        reshard=reshard,
        flat_parameters=True,
        backward_prefetch=ahead,
    )
    units = FlatUnits(tape, how, lagging=lagging)
    units.open_root(ROOT, BLOCK)

    def block(value: Value) -> Value:
        return chain(tape, value, multiply_scalar)

    x = a_leaf(tape)
    for _ in range(DEPTH):
        x = units.run_block(block, x, elements=BLOCK, trained=BLOCK)
    return tape, units


@pytest.mark.parametrize(("lagging", "waiting"), [(False, 0), (True, BLOCK)])
def test_a_dropped_block_waits_for_the_gpu_where_order_is_kept(lagging: bool, waiting: int) -> None:  # noqa: FBT001 - a case
    """What is allocated counts it out at once; an allocator cannot hand it out until the next one
    is dropped.
    """
    tape, _ = _forward(lagging=lagging)

    assert live_bytes(tape)[0] == 2 * (ROOT + waiting)


def test_blocks_that_are_kept_are_all_there() -> None:
    """Without resharding after forward every block stays gathered."""
    tape, units = _forward(reshard=False)
    units.end_forward()

    assert live_bytes(tape)[0] == 2 * (ROOT + DEPTH * BLOCK)


@pytest.mark.parametrize(("ahead", "gathered"), [(True, BLOCK), (False, 0)])
def test_backward_begins_with_the_last_block(ahead: bool, gathered: int) -> None:  # noqa: FBT001 - a case
    """It is gathered before the loss has its gradient, unless no unit expects a backward."""
    tape, units = _forward(ahead=ahead)
    units.end_forward()

    assert live_bytes(tape)[0] == 2 * (ROOT + gathered)
