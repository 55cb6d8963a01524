"""FSDP2's units on a tape: what is there beside a reduce-scatter, and beside the gradient of a
table of its own.
"""

from dataclasses import replace

import pytest

from service.estimator.tape import sizes
from service.estimator.tape.event_log import LoggingTape
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, multiply_scalar
from service.estimator.tape.units import COPY_IN_STREAM, FsdpConfig, ShardedUnits
from tests.unit.estimator.tape.builders import a_leaf, a_tape, run_backward

TABLE, HEAD, BLOCK = 10, 1000, 100
"""Elements of the units."""


def _gathering(*, separate: bool = False) -> FsdpConfig:
    return FsdpConfig(
        gather_bytes=2, adapter_bytes=2, reduce_bytes=4, reshard=True, splits_root=separate
    )


class _WatchedTape(Tape):
    """A tape that looks at the moment between the two."""

    def __init__(self, section: Section, mode: Mode) -> None:
        super().__init__(section, mode)
        self.beside: list[int] = []

    def keep_gradient_shard(self, elements: int) -> None:
        self.beside.append(self.ledger.live[Category.TEMPORARIES][0])
        super().keep_gradient_shard(elements)


def _collect(tape: Tape, elements: int) -> None:
    assert tape.collected_gradients is not None
    tape.collected_gradients.append(
        tape.allocate(Category.TEMPORARIES, sizes.constant(2 * elements))
    )


@pytest.mark.parametrize(("ends_in_head", "held"), [(True, HEAD), (False, 0)])
def test_the_last_parameters_gradient_is_there_beside_the_shard(
    ends_in_head: bool,  # noqa: FBT001 - a case
    held: int,
) -> None:
    """A loop over a unit's parameters still names it while the reduce-scatter has its input and its
    output.
    """
    tape = _WatchedTape(Section.FORWARD, Mode.RECORDING)
    units = ShardedUnits(tape, _gathering())
    units.open_root(TABLE + HEAD, BLOCK, ends_in_head=ends_in_head)
    units.end_forward()
    for elements in (HEAD, TABLE):
        _collect(tape, elements)
    units.close_root(TABLE + HEAD, TABLE + HEAD)

    assert tape.beside == [2 * held]
    assert tape.ledger.live[Category.TEMPORARIES] == sizes.ZERO


def test_a_table_of_its_own_is_copied_out_before_its_backward() -> None:
    """What it was gathered in is gone when its gradient is made: the table alone is there beside
    it.
    """
    tape = a_tape()
    units = ShardedUnits(tape, _gathering(separate=True))
    beside: list[int] = []

    def table(x: Value) -> Value:
        y = multiply_scalar(tape, x)
        tape.hook(lambda: beside.append(tape.ledger.live[Category.GATHERED_WEIGHTS][0]))
        return y

    units.open_root(TABLE + HEAD, BLOCK, head=HEAD)
    x = table(a_leaf(tape))
    units.close_embedding()
    y = units.run_block(
        lambda value: chain(tape, value, multiply_scalar), x, elements=BLOCK, trained=BLOCK
    )
    units.open_head()
    units.close_head()
    units.end_forward()
    run_backward(tape, y)

    assert beside == [2 * TABLE]


def _log(config: FsdpConfig) -> tuple[LoggingTape, ShardedUnits]:
    tape = LoggingTape(Section.FORWARD, Mode.RECORDING)
    tape.unit_tensors = {BLOCK: (60, 40)}
    return tape, ShardedUnits(tape, config)


def _list_since(tape: LoggingTape, start: int) -> list[tuple[int, int] | int]:
    """Return bytes and stream of what is allocated, and the places of what is released."""
    events = tape.events()
    streams = events.list_streams() or [0] * len(events.kinds)
    return [
        event if event < 0 else (events.sizes[events.kinds[event]][0], streams[event])
        for event in events.order[start:]
    ]


def test_what_backward_begins_with_is_gathered_as_any_unit() -> None:
    """Root and last block are cast and gathered on the stream that copies in, and copied out on the
    default one.
    """
    tape, units = _log(replace(_gathering(), cast_ranks=10))
    units.open_root(TABLE + HEAD, BLOCK)
    units.run_block(lambda x: x, a_leaf(tape), elements=BLOCK, trained=BLOCK)
    start = len(tape.events().order)
    units.end_forward()

    made = [event for event in _list_since(tape, start) if isinstance(event, tuple)]
    root, block = 2 * (TABLE + HEAD), 2 * BLOCK
    assert made == [
        (root // 10, COPY_IN_STREAM),
        (root, COPY_IN_STREAM),
        (root, 0),
        (block // 10, COPY_IN_STREAM),
        (block, COPY_IN_STREAM),
    ]


def test_a_single_rank_names_each_cast_until_the_next() -> None:
    """It gathers nothing: parameters are cast and copied one by one."""
    tape, _ = _log(replace(_gathering(), single_rank=True, cast_ranks=1))
    gathered = tape.gather(BLOCK, 2, casts=True)

    assert _list_since(tape, 0) == [(120, 0), (120, 0), (80, 0), ~0, (80, 0), ~2]
    assert [storage.event for storage in gathered] == [1, 3]
