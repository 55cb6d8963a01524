"""Load at a constant rate: a server that is slow cannot hide it by being asked less."""

import asyncio
from collections import Counter
from itertools import islice, repeat

from tests.load.__main__ import Figures, compute_quantile, find_missed_bounds
from tests.load.generator import Address, LoadOutcome, offer
from tests.load.questions import build_repeated_bodies, iter_request_bodies

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def under_load(
    *, answered_after: int, rate: float, seconds: float, connections: int
) -> LoadOutcome:
    """Offer load to a server that answers nothing until so many requests have come."""
    held: list[asyncio.StreamWriter] = []
    callers: set[asyncio.Task[object] | None] = set()
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        callers.add(asyncio.current_task())
        while await reader.readline():
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(
                int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0])
            )
            seen += 1
            held.append(writer)
            if seen >= answered_after:
                while held:
                    held.pop().write(ANSWER)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        address = Address(host=host, port=port)
        outcome = await offer(
            [address], repeat(b"{}"), rate=rate, seconds=seconds, connections=connections
        )
        await asyncio.gather(*(caller for caller in callers if caller is not None))
        return outcome


def test_every_request_is_answered_and_counted() -> None:
    """So many as the rate and the time say, over few connections."""
    outcome = asyncio.run(under_load(answered_after=1, rate=1000, seconds=0.1, connections=4))

    assert outcome.statuses == Counter({200: 100})
    assert (len(outcome.latencies_s), outcome.unanswered) == (100, 0)
    assert list(outcome.latencies_s) == sorted(outcome.latencies_s)


def test_the_wait_for_a_free_connection_counts() -> None:
    """While the server holds its first two answers back, the others wait, from when they were due
    and not from when sent.
    """
    outcome = asyncio.run(under_load(answered_after=2, rate=100, seconds=0.2, connections=2))

    assert outcome.sent_late == 0
    assert outcome.latencies_s[-1] >= 1 / 100


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
