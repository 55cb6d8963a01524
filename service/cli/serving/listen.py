"""Listening socket and access policy of the API.

The port is taken before anything else starts.
"""

import argparse
import errno
import socket

from service.access.hosts import list_reachable_addresses
from service.base.startup_errors import StartupError
from service.runtime.variables import ACCESS_WORDS, MAX_PORT
from service.terminal.arguments import format_choices, make_choice_reader

BACKLOG = 2048


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the access policy."""
    parser.add_argument(
        "--access",
        type=make_choice_reader(ACCESS_WORDS),
        metavar=format_choices(ACCESS_WORDS),
        help="who is let in: who runs it without a key, holders of keys, everybody (default "
        "HEADROOM_ACCESS, or local on a "
        "loopback address and keys on every other)",
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    The caller closes it.
    """
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
    message = (
        f"port {port} of {host} is in use; stop what listens there, or choose another with --port "
        "(0 takes a free one)"
    )
    raise StartupError(message)


def get_url(listener: socket.socket) -> str:
    """Return the URL that a client uses."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def inherit_socket(descriptor: int) -> socket.socket:
    """Return the listening socket that a supervisor hands down."""
    return socket.socket(fileno=descriptor)


def resolve_access(host: str, *, requested: str | None) -> str:
    """Return the access policy for an address.

    ``local`` is refused where other machines can reach the address.
    """
    reachable = list_reachable_addresses(host)
    if requested == "local" and reachable:
        message = (
            f"{host} is reachable from the network ({', '.join(reachable)}), so nobody is let in "
            "there without a key: say --access keys, or --access open if anybody there may do "
            "anything"
        )
        raise StartupError(message)
    return requested or ("keys" if reachable else "local")
