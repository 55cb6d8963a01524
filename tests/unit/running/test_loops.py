"""Loops that a browser left marked as running."""

import asyncio

from tests.running.loops import hide_running_loop


async def _hide() -> tuple[int, bool]:
    loop = asyncio.get_running_loop()
    with hide_running_loop():
        answer = asyncio.run(asyncio.sleep(0, 7))
    return answer, asyncio.get_running_loop() is loop


def test_another_loop_runs_where_one_was_left() -> None:
    """And the one that was left is there again afterwards."""
    assert asyncio.run(_hide()) == (7, True)
