"""Load at a constant rate: a server that is slow cannot hide it by being asked less."""

from collections import Counter
from contextlib import closing
from itertools import islice, repeat

import pytest

from tests.load.__main__ import Figures, compute_quantile, find_missed_bounds
from tests.load.generator import Address, LoadOutcome, offer
from tests.load.questions import build_repeated_bodies, iter_request_bodies
from tests.unit.deploy.load.virtual_time import FakeServer, VirtualTimeLoop


def offer_load(server: FakeServer, *, rate: float, seconds: float, connections: int) -> LoadOutcome:
    """Offer load to a server, in a time that passes only while everybody waits."""
    offered = offer(
        [Address(host="server", port=80)],
        repeat(b"{}"),
        rate=rate,
        seconds=seconds,
        connections=connections,
    )
    with closing(VirtualTimeLoop(server)) as loop:
        return loop.run_until_complete(offered)


def test_every_request_is_answered_and_counted() -> None:
    """So many as the rate and the time say, over few connections, each at once."""
    outcome = offer_load(FakeServer(), rate=1000, seconds=0.1, connections=4)

    assert outcome.statuses == Counter({200: 100})
    assert (outcome.sent_late, outcome.unanswered) == (0, 0)
    assert list(outcome.latencies_s) == [pytest.approx(0)] * 100


def test_a_latency_counts_from_when_a_request_was_due() -> None:
    """The first of two requests that are answered together was under way for longer."""
    outcome = offer_load(FakeServer(answers_after=2), rate=100, seconds=0.04, connections=2)

    assert outcome.sent_late == 0
    assert list(outcome.latencies_s) == pytest.approx([0, 0, 0, 0.01], abs=1e-6)


def test_the_wait_for_a_free_connection_counts() -> None:
    """While an answer takes 25 ms, those due at 10 and 20 ms wait, and their wait is theirs."""
    outcome = offer_load(FakeServer(seconds=0.025), rate=100, seconds=0.03, connections=1)

    assert outcome.sent_late == 2
    assert list(outcome.latencies_s) == pytest.approx([0.025, 0.040, 0.055], abs=1e-6)


def test_what_is_never_answered_is_counted() -> None:
    """A server that waits for more requests than there are connections answers none."""
    outcome = offer_load(FakeServer(answers_after=3), rate=100, seconds=0.04, connections=2)

    assert (outcome.unanswered, len(outcome.latencies_s)) == (4, 0)


def figures(*latencies_s: float, statuses: Counter[int], ended: dict[str, int]) -> Figures:
    """Return what a run might have shown."""
    outcome = LoadOutcome(
        latencies_s=latencies_s, statuses=statuses, unanswered=0, sent_late=0, elapsed_s=1.0
    )
    return Figures(outcome=outcome, ended=ended, cpu={})


def test_a_bound_that_is_missed_is_told_in_numbers() -> None:
    """A slow hundredth, an error, a measurement that failed, and none that ran."""
    good = figures(*[0.01] * 99, 0.06, statuses=Counter({200: 100}), ended={"trace succeeded": 1})
    slow = figures(
        *[0.01] * 98, 0.06, 0.06, statuses=Counter({200: 99, 503: 1}), ended={"cpu failed": 1}
    )
    idle = figures(0.01, statuses=Counter({200: 1}), ended={})

    assert find_missed_bounds(good, p99_ms=50, needs_measurements=True) == []
    assert find_missed_bounds(slow, p99_ms=50, needs_measurements=True) == [
        "p99 is 60.0 ms; it must be 50 ms or less",
        "1 requests were not answered with 200: {200: 99, 503: 1}",
        "measurements ended otherwise than succeeded: {'cpu failed': 1}",
    ]
    assert len(find_missed_bounds(idle, p99_ms=50, needs_measurements=True)) == 1


def test_a_quantile_is_a_value_that_was_measured() -> None:
    """The nearest rank: of a hundred values the ninety-ninth is p99."""
    values = [number / 100 for number in range(1, 101)]

    assert [compute_quantile(values, share) for share in (0.5, 0.99, 1.0)] == [0.5, 0.99, 1.0]
    assert compute_quantile([], 0.99) == float("inf")


def test_the_mix_is_the_same_for_the_same_seed_and_mostly_asked_before() -> None:
    """Two runs ask the same, and a new question is rare."""
    first, again = (list(islice(iter_request_bodies(1), 2000)) for _ in range(2))
    before = set(build_repeated_bodies())
    training = [body for body in first if b'"train"' in body]
    new = [body for body in training if body not in before]

    assert first == again
    assert 0 < len(new) < len(training) / 100
