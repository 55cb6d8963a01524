"""Externally reachable addresses and the default access policy."""

import ipaddress
import socket

from service.base.startup_errors import StartupError


def list_reachable_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of ``host`` that other machines can reach.

    Raises StartupError for what is no address of this machine.
    """
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        message = f"{host!r} is no address of this machine; the usual one is 127.0.0.1"
        raise StartupError(message) from None
    addresses = {str(entry[4][0]) for entry in entries}
    return tuple(
        sorted(
            address
            for address in addresses
            if not ipaddress.ip_address(address.partition("%")[0]).is_loopback
        ),
    )


def get_default_access(host: str) -> str:
    """Return the access policy for a host without an explicit setting.

    ``local`` admits this machine's users; ``keys``, where other machines can reach the host, admits
    holders of keys alone.
    """
    return "keys" if list_reachable_addresses(host) else "local"
