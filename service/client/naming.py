"""Addresses of servers, and names as parts of them."""

from urllib.parse import urlsplit

DEFAULT_SERVER = "http://127.0.0.1:8000"
NO_NAMES = frozenset({"", ".", ".."})
"""What stands for the list or another resource when it takes the place of a name (RFC 3986, sec.
5.2.4).
"""


def check_path(path: str) -> None:
    """Refuse a path with an empty or dotted part.

    Such a part is no name or id. Raises ValueError.
    """
    if not NO_NAMES.isdisjoint(path.removeprefix("/").split("/")):
        message = f"{path} has a part that is no name or id: an empty one, '.' or '..'"
        raise ValueError(message)


def check_address(address: str) -> None:
    """Raise ValueError for what is no address of a server."""
    try:
        parsed = urlsplit(address)
        is_valid = (
            parsed.scheme in {"http", "https"} and bool(parsed.hostname) and (parsed.port or 1) > 0
        )
    except ValueError:
        is_valid = False
    if not is_valid:
        message = f"{address!r} is no address of a server; it must be like {DEFAULT_SERVER}"
        raise ValueError(message)
