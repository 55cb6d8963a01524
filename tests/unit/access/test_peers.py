"""Whose program is at the other end of a loopback connection."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from service.access.peers import PeerCache, UnknownPeerError, find_peer_uid, find_uid

LOOPBACK = "0100007F"
MAPPED = "0000000000000000FFFF00000100007F"
LOOPBACK_6 = "00000000000000000000000001000000"


def row(client: str, server: str, uid: int, *, inode: int = 4711) -> str:
    """Return a line of the kernel's table; an address is shown as words of its byte order."""
    return f"   1: {client} {server} 01 00000000:00000000 00:00000000 00000000 {uid:5} 0 {inode} 1"


TABLE = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
    row(f"{LOOPBACK}:C001", f"{LOOPBACK}:1F40", 1000),
    row(f"{LOOPBACK}:1F40", f"{LOOPBACK}:C001", 7),
    row(f"{LOOPBACK}:C002", f"{LOOPBACK}:1F40", 0, inode=0),
    row(f"{MAPPED}:C003", f"{MAPPED}:1F40", 1001),
    row(f"{LOOPBACK_6}:C004", f"{LOOPBACK_6}:1F40", 1002),
)
V4, V6 = ("127.0.0.1", 8000), ("::1", 8000)
NOBODY = 65534

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the lines are of such a machine")


@pytest.mark.parametrize(
    ("client", "server", "uid"),
    [
        (("127.0.0.1", 0xC001), V4, 1000),
        (("127.0.0.1", 0xC003), V4, 1001),
        (("::1", 0xC004), V6, 1002),
        (("127.0.0.1", 0xC002), V4, None),
        (("127.0.0.2", 0xC001), V4, None),
        (("127.0.0.1", 0xC001), ("127.0.0.1", 8001), None),
    ],
    ids=["ipv4", "mapped", "ipv6", "closed", "other address", "other server"],
)
def test_the_kernel_says_whose_socket_it_is(
    client: tuple[str, int], server: tuple[str, int], uid: int | None
) -> None:
    """A socket that its program has closed shows root's id whoever it was, and is nobody's."""
    assert find_uid(TABLE, client, server) == uid


@pytest.fixture(name="listener")
def listen() -> Iterator[socket.socket]:
    """Listen on a port of this machine."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener


def test_a_connection_of_our_own_is_ours(listener: socket.socket) -> None:
    """The table of this machine has it while it is open."""
    with socket.create_connection(listener.getsockname()) as connection:
        ours = find_peer_uid(connection.getsockname(), listener.getsockname())
        client = connection.getsockname()

    assert ours == os.geteuid()
    with pytest.raises(UnknownPeerError, match="no program on this machine holds"):
        find_peer_uid(client, listener.getsockname())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run a program as somebody else")
def test_a_connection_of_somebody_else_is_theirs(listener: socket.socket) -> None:
    """Whoever runs the server, the id is that of the program that connected."""
    host, port = listener.getsockname()
    program = (
        f"import socket, sys; c = socket.create_connection(({host!r}, {port})); sys.stdin.read()"
    )
    with subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", program], stdin=subprocess.PIPE, user=NOBODY
    ) as stranger:
        listener.settimeout(20)
        accepted, client = listener.accept()
        uid = find_peer_uid(client, listener.getsockname())
        accepted.close()
        stranger.communicate(b"\n")

    assert uid == NOBODY


def test_a_connection_is_looked_up_once() -> None:
    """Each of its requests has the same pair; an equal pair of another connection is another."""
    lookups: list[tuple[str, int]] = []

    def find(client: tuple[str, int], _server: tuple[str, int]) -> int:
        lookups.append(client)
        return len(lookups)

    peers = PeerCache(find)
    first, second = ("127.0.0.1", int("50001")), ("127.0.0.1", int("50001"))
    uids = [peers.get(client, V4) for client in (first, first, second)]

    assert uids == [1, 1, 2]
