"""Names as parts of an address."""

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
