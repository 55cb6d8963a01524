"""How long hooks wait for the number of GPUs that a job needs."""

from time import perf_counter

import pytest

from service.api.resources.hooks.computing import Terms
from service.usecases.hooks.decision import Mode


@pytest.mark.parametrize(("waited_s", "left_s"), [(0.0, 1000.0), (600.0, 400.0), (2000.0, 0.0)])
def test_a_turn_that_was_waited_for_is_patience_spent(waited_s: float, left_s: float) -> None:
    """Of several jobs at once the last waits no longer for a number than the first."""
    terms = Terms(
        mode=Mode.WARN, fails_closed=False, search_s=1000.0, asked_at=perf_counter() - waited_s
    )

    assert terms.count_remaining_s() == pytest.approx(left_s, abs=100.0)
