"""A hub has so long, however slowly it sends."""

import ssl
import time
from pathlib import Path

import certifi
import httpcore
import httpx
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


class StrangeHost(DrippingHost):
    """A host that refuses the handshake, and tells which authorities it was to be signed by."""

    num_authorities = 0

    def start_tls(self, *args: object, **named: object) -> httpcore.NetworkStream:
        """Refuse."""
        context = next(given for given in (*args, *named.values()) if given is not None)
        assert isinstance(context, ssl.SSLContext)
        self.num_authorities = len(context.get_ca_certs())
        message = "no handshake"
        raise httpcore.ConnectError(message)


def test_a_mirror_may_be_signed_by_a_companys_own_authority(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``SSL_CERT_FILE`` says which authorities are believed, as for any client of httpx."""
    bundle, end = Path(certifi.where()).read_text(), "-----END CERTIFICATE-----\n"
    authority = tmp_path / "authority.pem"
    authority.write_text(bundle[: bundle.index(end) + len(end)])
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    host = StrangeHost()

    with pytest.raises(httpx.ConnectError), httpx.Client(transport=TimedTransport(host)) as client:
        client.get("https://mirror.example")

    assert host.num_authorities == 1
