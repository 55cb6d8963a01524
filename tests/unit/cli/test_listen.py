"""Where the API may listen, and what is said when it may not."""

import socket
from contextlib import closing

import pytest

from service.base.startup_errors import StartupError
from service.cli.serving.listen import get_url, listen, resolve_access


def test_a_free_port_is_taken() -> None:
    """Port 0 takes a free one, and the address names it."""
    with listen("127.0.0.1", 0) as listener:
        assert get_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_in_use_is_refused() -> None:
    """A port that somebody holds is refused with a way out."""
    with (
        closing(listen("127.0.0.1", 0)) as holder,
        pytest.raises(StartupError, match=r"in use.*--port"),
    ):
        listen("127.0.0.1", holder.getsockname()[1])


def test_a_port_that_cannot_exist_is_refused() -> None:
    """A number above 16 bits is refused in words."""
    with pytest.raises(StartupError, match="ports end at 65535"):
        listen("127.0.0.1", 70_000)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - nothing listens there
def test_strangers_are_let_in_with_keys_only(host: str) -> None:
    """Every address but loopback wants keys, unless somebody says in words that it is open."""
    assert resolve_access(host, requested=None) == resolve_access(host, requested="keys") == "keys"
    assert resolve_access(host, requested="open") == "open"
    with pytest.raises(StartupError, match=r"reachable from the network.*--access keys"):
        resolve_access(host, requested="local")


def test_this_machine_needs_no_key() -> None:
    """On loopback nobody needs a key, unless it is asked for."""
    assert (
        resolve_access("127.0.0.1", requested=None)
        == resolve_access("localhost", requested=None)
        == "local"
    )
    assert resolve_access("::1", requested="keys") == "keys"


def test_an_address_that_is_none_is_refused() -> None:
    """A host name that does not resolve is refused with the usual one."""
    with pytest.raises(StartupError, match="no address of this machine"):
        resolve_access("no-such-host.invalid", requested=None)


def test_localhost_is_loopback() -> None:
    """Names are judged by what they resolve to."""
    with listen("localhost", 0) as listener:
        assert listener.family in {socket.AF_INET, socket.AF_INET6}
