"""Versions of a server and its client, where they misunderstand each other."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

HEADER = "headroom-version"
"""With which a server says its version in every answer."""
_PACKAGE = "gpu-headroom"
_NOT_UNDERSTOOD = ("unknown field", "unknown value", "required and missing", "nothing lives at")
"""How a server begins that does not know a word, or misses one."""
_NOT_ALLOWED = frozenset((405, 501))
_last_seen: list[str | None] = []


@cache
def get_own_version() -> str:
    """Return the version of this installation."""
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "unknown"


def note_version(server_version: str | None) -> None:
    """Keep what the server that was asked last said of its version."""
    _last_seen[:] = [server_version]


def explain_versions(server_version: str | None) -> str:
    """Return what an unlike version means, empty where both are alike."""
    client = get_own_version()
    if server_version == client:
        return ""
    if server_version is None:
        return (
            f"the server does not say its version, so it is older than this client ({client}), or "
            "a proxy takes that header away: upgrade the server"
        )
    both = f"the server is version {server_version} and this client {client}"
    server_number, client_number = _read_release(server_version), _read_release(client)
    if server_number == client_number or not (server_number and client_number):
        return f"{both}: what one does not know the other may"
    return f"{both}: upgrade the {'server' if server_number < client_number else 'client'}"


def _read_release(version_text: str) -> tuple[int, ...]:
    """Return a version's release numbers (PEP 440).

    Zeros at its end are left out.
    """
    release = re.match(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}", version_text)
    numbers = [int(number) for number in release[0].split(".")] if release else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def explain_last_version() -> str:
    """Return what an unlike version of the last server means."""
    return explain_versions(_last_seen[0]) if _last_seen else ""


def explain_refusal(status: int, detail: str, server_version: str | None) -> str:
    """Return a refusal, with both versions where something was not understood."""
    if status not in _NOT_ALLOWED and not any(phrase in detail for phrase in _NOT_UNDERSTOOD):
        return detail
    versions = explain_versions(server_version)
    return f"{detail}; {versions}" if versions else detail
