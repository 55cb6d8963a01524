"""OpenID Connect key server: discovery document and current signing keys."""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import msgspec

from service.access.tokens import KeySet, read_keys
from service.base.errors import UnavailableError

DEADLINE_S = 3.0
"""Seconds that the issuer may take to connect, to send the next piece, and for both documents
together.
"""
_MAX_BYTES = 1_000_000
_PATH = "/.well-known/openid-configuration"

Fetch = Callable[[], KeySet]


def fetch_keys(issuer: str) -> KeySet:
    """Return the issuer's signing keys by its discovery document.

    OpenID Connect Discovery 1.0, sec. 4. Raises UnavailableError where the issuer does not answer
    in time, or not with what it should.
    """
    end = time.monotonic() + DEADLINE_S
    try:
        with httpx.Client(timeout=DEADLINE_S, follow_redirects=False, trust_env=True) as client:
            discovery = _read_json(client, issuer.rstrip("/") + _PATH, end)
            return read_keys(_read_json(client, _read_keys_address(discovery, issuer), end))
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError, ValueError) as error:
        message = f"the keys of {issuer} cannot be read: {str(error) or type(error).__name__}"
        raise UnavailableError(message) from error


def is_safe_address(url: str) -> bool:
    """Return whether an address is HTTPS or on this machine.

    Keys from it are nobody else's then.
    """
    try:
        parsed = urlsplit(url)
        host = parsed.hostname or ""
    except ValueError:
        return False
    return bool(host) and (
        parsed.scheme == "https"
        or (parsed.scheme == "http" and host in {"127.0.0.1", "::1", "localhost"})
    )


def _read_keys_address(document: object, issuer: str) -> str:
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        stated = document.get("issuer") if isinstance(document, dict) else None
        message = f"its discovery document is of the issuer {stated!r}"
        raise ValueError(message)
    address = document.get("jwks_uri")
    if not isinstance(address, str) or not is_safe_address(address):
        message = f"its jwks_uri is {address!r}; it must be an https:// URL"
        raise ValueError(message)
    return address


def _read_json(client: httpx.Client, url: str, end: float) -> object:
    """Return a JSON document.

    A server that sends it byte by byte, or without an end, is given up.
    """
    body = bytearray()
    with client.stream("GET", url, headers={"accept": "application/json"}) as answer:
        if answer.status_code != httpx.codes.OK:
            message = f"{url} answers with {answer.status_code}"
            raise ValueError(message)
        for part in answer.iter_bytes():
            body += part
            if len(body) > _MAX_BYTES or time.monotonic() > end:
                message = (
                    f"{url} sends more than {_MAX_BYTES:,} bytes, or takes longer than "
                    f"{DEADLINE_S:g} s"
                )
                raise ValueError(message)
    document: object = msgspec.json.decode(bytes(body))
    return document
