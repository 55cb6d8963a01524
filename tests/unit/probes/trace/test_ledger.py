"""The list of allocations: what is alive when, and the caching allocator replayed over it."""

from service.estimator.values.workload import Allocator
from worker.probes.trace.caching import replay
from worker.probes.trace.ledger import Ledger, compute_stretches

MIB = 2**20


def filled() -> Ledger:
    """Return a ledger of three storages: two meet in ``forward``, one is left at the end."""
    ledger = Ledger()
    weights = ledger.allocate(100, "aten.empty", (25,), "float32")
    ledger.mark("forward")
    hidden = ledger.allocate(40, "aten.mm", (10,), "float32")
    ledger.allocate(7, "aten.sum", (1,), "float32")
    ledger.release(hidden)
    ledger.mark("between")
    ledger.release(weights)
    return ledger


def test_peaks_are_those_between_two_marks() -> None:
    """A stretch starts with what the one before it left, and peaks where both tensors are alive."""
    ledger = filled()

    start, forward, between = compute_stretches(ledger, ledger.live())

    assert (start.name, start.live_peak, start.end) == ("start", 100, 100)
    assert (forward.name, forward.start, forward.live_peak, forward.end) == (
        "forward",
        100,
        147,
        107,
    )
    assert (between.name, between.live_peak, between.end) == ("between", 107, 7)


def test_a_stretch_in_which_nothing_happens_holds_what_was_there() -> None:
    """Two marks at the same place make a stretch without events, whose peak is its start."""
    ledger = filled()
    ledger.mark("idle")
    ledger.mark("end")

    *_, idle, end = compute_stretches(ledger, ledger.live())

    assert (idle.name, idle.start, idle.live_peak, idle.end) == ("idle", 7, 7, 7)
    assert end.start == 7


def test_what_is_alive_is_told_in_the_order_in_which_it_was_made() -> None:
    """After the third event all three are alive; after the fourth the released one is not."""
    ledger = filled()

    assert ledger.alive_at(2) == [0, 1, 2]
    assert ledger.alive_at(3) == [0, 2]


def test_the_allocator_counts_blocks_and_segments() -> None:
    """A tensor of 100 bytes is a block of 512 in a segment of 2 MiB; 3 MiB open one of 20 MiB
    beside it (PyTorch's rules).
    """
    ledger = Ledger()
    ledger.allocate(100, "aten.empty", (100,), "uint8")
    large = ledger.allocate(3 * MIB, "aten.empty", (3 * MIB,), "uint8")
    ledger.release(large)

    replayed = replay(ledger, Allocator.DEFAULT)

    assert replayed.in_blocks == [512, 512 + 3 * MIB, 512]
    assert replayed.reserved == [2 * MIB, 22 * MIB, 22 * MIB]


def test_a_tensor_without_elements_has_no_block() -> None:
    """Its release frees nothing either."""
    ledger = Ledger()
    ledger.release(ledger.allocate(0, "aten.empty", (0,), "uint8"))

    assert replay(ledger, Allocator.EXPANDABLE_SEGMENTS).reserved == [0, 0]
