"""Copies of stored values are fresh before anybody is answered from them."""

import threading

from service.usecases.operations.refresh import Refresher


def test_the_first_round_can_be_waited_for() -> None:
    """Not before every task was called; one that fails was called too."""
    gate, called = threading.Event(), list[str]()

    def wait() -> None:
        gate.wait()

    def fail() -> None:
        called.append("fails")
        raise OSError

    refresher = Refresher((wait, fail), interval_s=60)
    refresher.start()
    before = refresher.wait_for_first(0.01)
    gate.set()
    after = refresher.wait_for_first(10)
    refresher.stop()

    assert (before, after) == (False, True)
    assert called == ["fails"]
