"""Take the port before anything else starts, and refuse an address that strangers can reach."""

import errno
import ipaddress
import socket

from service.errors import StartupError
from service.settings import MAX_PORT

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; the caller closes it."""
    _check_loopback(host)
    if port > MAX_PORT:
        message = f"port {port} does not exist; ports end at {MAX_PORT}"
        raise StartupError(message)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            message = f"cannot listen on {host} port {port}: {error.strerror or error}"
            raise StartupError(message) from None
    message = f"port {port} of {host} is in use; stop what listens there, or choose another with --port (0 takes a free one)"
    raise StartupError(message)


def url_of(listener: socket.socket) -> str:
    """Return the address that a client uses."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def inherited(descriptor: int) -> socket.socket:
    """Return the listening socket that a supervisor hands down."""
    return socket.socket(fileno=descriptor)


def _check_loopback(host: str) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        message = f"{host!r} is no address of this machine; the usual one is 127.0.0.1"
        raise StartupError(message) from None
    addresses = {str(entry[4][0]) for entry in found}
    open_ones = sorted(address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_loopback)
    if open_ones:
        message = (
            f"{host} is reachable from the network ({', '.join(open_ones)}), and this version has no keys: anybody there could "
            "use it; listen on 127.0.0.1 and let a proxy that authenticates stand before it"
        )
        raise StartupError(message)
