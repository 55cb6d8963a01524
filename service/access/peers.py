"""User ids of programs at the other end of a loopback connection."""

import ipaddress
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

Address = tuple[str, int]
"""Address and port, as ASGI has them."""

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Sockets of this network namespace, a line each (proc_pid_net(5))."""
MAX_CONNECTIONS = 4096
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
_ORPHAN = "0"
"""Inode of a socket that its program has closed; its user id is shown as 0, whoever it was."""
_WORD_BYTES = 4
_READS = 3
"""A line can be missed while others come and go beside it."""

FindUid = Callable[[Address, Address], int | None]


class UnknownPeerError(Exception):
    """No program holds the other end of a connection any more."""


def find_peer_uid(client: Address, server: Address) -> int | None:
    """Return the user id of the program at ``client``, connected to ``server``.

    ``None`` where the system has no table of sockets to tell it. Raises UnknownPeerError where no
    open socket is at the other end.
    """
    tables = [table for table in TABLES if table.exists()]
    if not tables:
        return None
    for table in tables * _READS:
        with table.open() as lines:
            uid = find_uid(lines, client, server)
        if uid is not None:
            return uid
    message = f"no program on this machine holds {client[0]} port {client[1]}"
    raise UnknownPeerError(message)


def find_uid(lines: Iterable[str], client: Address, server: Address) -> int | None:
    """Return the user id of an open socket in a table."""
    ends = _make_end(client), _make_end(server)
    ports = f":{client[1]:04X}", f":{server[1]:04X}"
    for line in lines:
        columns = line.split()
        if len(columns) <= _INODE or columns[_INODE] == _ORPHAN:
            continue
        if not (columns[_LOCAL].endswith(ports[0]) and columns[_REMOTE].endswith(ports[1])):
            continue
        if (_read_end(columns[_LOCAL]), _read_end(columns[_REMOTE])) == ends:
            return int(columns[_UID])
    return None


class PeerCache:
    """User ids of connections, each looked up once.

    A server hands on the same pair for every request of one connection, which is kept here, so
    that no other has its identity: a port that another program takes later is looked up anew.
    """

    def __init__(self, find: FindUid = find_peer_uid) -> None:
        """Start empty; to be used by one thread."""
        self._find = find
        self._uids: OrderedDict[int, tuple[Address, int | None]] = OrderedDict()

    def get(self, client: Address, server: Address) -> int | None:
        """Return the user id of a connection's other end, as ``find_peer_uid`` does."""
        entry = self._uids.get(id(client))
        if entry is not None:
            return entry[1]
        uid = self._find(client, server)
        self._uids[id(client)] = client, uid
        while len(self._uids) > MAX_CONNECTIONS:
            self._uids.popitem(last=False)
        return uid


def _make_end(address: Address) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    ip = ipaddress.ip_address(address[0].partition("%")[0])
    return _unmap(ip), address[1]


def _read_end(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Return an end of a connection as a table shows it.

    An address has words of the byte order of the machine.
    """
    words, _, port = text.partition(":")
    data = bytes.fromhex(words)
    turned = b"".join(
        int.from_bytes(data[i : i + _WORD_BYTES], "big").to_bytes(_WORD_BYTES, sys.byteorder)
        for i in range(0, len(data), _WORD_BYTES)
    )
    return _unmap(ipaddress.ip_address(turned)), int(port, 16)


def _unmap(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address that an IPv6 socket shows as its own."""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return ip if mapped is None else mapped
