"""What a probe of liveness and a scrape are told."""

import httpx
import pytest

from service.kueue.metrics import Metrics
from service.kueue.pulse import DEAD_S, Pulse


@pytest.mark.parametrize(
    ("silence_s", "status", "text"),
    [(DEAD_S - 1, 200, "ok"), (DEAD_S + 1, 503, "no beat for 31 s")],
)
def test_a_loop_that_stands_still_is_not_alive(silence_s: float, status: int, text: str) -> None:
    """Its metrics, which another thread serves, are there all the same."""
    now = 100.0
    pulse = Pulse(lambda: now)
    port = Metrics().serve("127.0.0.1", 0, pulse)
    now += silence_s

    probed = httpx.get(f"http://127.0.0.1:{port}/livez")
    scraped = httpx.get(f"http://127.0.0.1:{port}/metrics")

    assert (probed.status_code, probed.text) == (status, f"{text}\n")
    assert (scraped.status_code, "headroom_kueue_leads 0.0" in scraped.text) == (200, True)
