"""Which addresses strangers can reach, and who is let in by default because of it."""

import ipaddress
import socket

from service.base.errors import StartupError


def reachable_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of ``host`` that other machines can reach; raises StartupError for what is no address here."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        message = f"{host!r} is no address of this machine; the usual one is 127.0.0.1"
        raise StartupError(message) from None
    addresses = {str(entry[4][0]) for entry in found}
    return tuple(sorted(address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_loopback))


def access_for(host: str) -> str:
    """Return who is let in where nobody said it: this machine's users, or holders of keys where others can reach it."""
    return "keys" if reachable_addresses(host) else "local"
