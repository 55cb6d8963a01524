"""A hub has so long, however slowly it sends."""

import time

import httpcore
import pytest

from service.base.hub_errors import HubUnavailableError
from service.usecases.hub import hub as hub_module
from service.usecases.hub.addresses import GuardedTransport, HubPolicy
from service.usecases.hub.deadlines import TimedTransport
from service.usecases.hub.hub import Hub
from service.usecases.hub.reading import DEADLINE_S
from tests.unit.usecases.hub.fake_hub import MODEL, FakeHub


class DrippingHost(httpcore.NetworkStream, httpcore.NetworkBackend):
    """A host that sends a byte of a header just before each time-out, and never the last.

    Its clock is the reader's.
    """

    now = 0.0

    def connect_tcp(self, *_args: object, **_named: object) -> httpcore.NetworkStream:
        """Return the connection, at once."""
        return self

    def start_tls(self, *_args: object, **_named: object) -> httpcore.NetworkStream:
        """Return the same connection."""
        return self

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Take a request."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - httpcore's words
        """Return the next byte when the client would almost not wait any more."""
        assert timeout is not None
        if self.now > 60:
            pytest.fail("nobody ended the request")
        self.now += timeout * 0.9
        return b"x"

    def close(self) -> None:
        """Close nothing."""

    def get_extra_info(self, info: str) -> None:
        """Return nothing."""


def test_a_hub_that_drips_headers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte starts a client's time-out anew; one deadline stands over all of them, and the
    place is free again for whoever asks next.
    """
    host = DrippingHost()
    monkeypatch.setattr(hub_module, "MAX_FETCHES", 1)
    monkeypatch.setattr(time, "monotonic", lambda: host.now)
    policy = HubPolicy()
    inner = TimedTransport(backend=host)
    guarded = GuardedTransport(policy, resolve=FakeHub().resolve, inner=inner)
    hub = Hub(policy, transport=guarded)

    for _ in range(2):
        end = host.now + DEADLINE_S
        with pytest.raises(HubUnavailableError, match="does not answer: ReadTimeout"):
            hub.fetch(MODEL)
        assert host.now <= end
