"""Addresses that may be asked for models, by name and by number.

A name is allowed by the operator's list; then it is looked up once, every address that it has must
be public, and the connection is made to the address that was checked. So no name, redirect or
second look-up leads into the network of the server (server-side request forgery, OWASP).
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from service.base.hub_errors import HubContentError, HubUnavailableError
from service.usecases.hub.deadlines import TimedTransport

HUB_ENDPOINT = "https://huggingface.co"
HUB_HOSTS = ("huggingface.co", ".huggingface.co", ".hf.co")
"""The hub, and where it redirects to for files (``cdn-lfs.hf.co``, ``cas-bridge.xethub.hf.co``)."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PORTS = {"https": 443, "http": 80}

Resolve = Callable[[str, int], Sequence[str]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a host by the system's resolver."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPolicy:
    """Where a process may look for models.

    ``hosts`` are names; one that begins with a dot stands for all below it. ``private`` allows
    addresses that are not public, and plain HTTP, for a mirror inside.
    """

    endpoint: str = HUB_ENDPOINT
    hosts: tuple[str, ...] = HUB_HOSTS
    private: bool = False

    def check_url(self, url: httpx.URL) -> None:
        """Refuse an address that is not allowed by its scheme or name.

        Raises HubContentError; only a redirect leads to one.
        """
        host = url.host.lower().rstrip(".")
        hub_host = (urlsplit(self.endpoint).hostname or "").lower()
        if url.scheme != "https" and not (self.private and url.scheme == "http"):
            message = f"the hub leads to {host} by {url.scheme}; only https is followed"
        elif url.userinfo:
            message = f"the hub leads to {host} with a user in the address"
        elif host == hub_host or any(_matches(host, pattern) for pattern in self.hosts):
            return
        else:
            message = (
                f"the hub leads to {host}, which is not allowed: the operator lists hosts in "
                "HEADROOM_HUB_HOSTS"
            )
        raise HubContentError(message)

    def choose_address(self, url: httpx.URL, resolve: Resolve) -> str:
        """Return a host's address after all of them were checked.

        Raises HubContentError for an address that is not public, HubUnavailableError for a name
        that has none.
        """
        host = url.host
        try:
            addresses = resolve(host, url.port or _PORTS[url.scheme])
        except (OSError, UnicodeError):
            # UnicodeError: a name with an empty label, or one of more than 63 letters.
            addresses = ()
        if not addresses:
            message = f"the name {host} has no address"
            raise HubUnavailableError(message)
        if not self.private and not all(map(is_public, addresses)):
            message = (
                f"{host} has an address that is not public, which is refused; for a mirror inside "
                "the operator sets HEADROOM_HUB_PRIVATE"
            )
            raise HubContentError(message)
        return addresses[0]


def is_public(text: str) -> bool:
    """Return whether an address is one of the public internet."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(
        part.is_global and not part.is_multicast and not part.is_reserved
        for part in _list_embedded(address)
    )


def _list_embedded(address: Address) -> list[Address]:
    """Return an address, and those of version 4 that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    inner = [address.sixtofour, *(address.teredo or ())]
    return [address, *(part for part in inner if part is not None)]


def _matches(host: str, pattern: str) -> bool:
    return host.endswith(pattern) if pattern.startswith(".") else host == pattern


class GuardedTransport(httpx.BaseTransport):
    """Sends requests to addresses that were checked, and to no others."""

    def __init__(
        self,
        policy: HubPolicy,
        *,
        resolve: Resolve = resolve_host,
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        """Wrap ``inner``, by default plain connections without a proxy."""
        self._policy, self._resolve = policy, resolve
        self._inner = inner or TimedTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request whose host stays in its header and its certificate."""
        self._policy.check_url(request.url)
        address = self._policy.choose_address(request.url, self._resolve)
        return self._inner.handle_request(
            httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                extensions={**request.extensions, "sni_hostname": request.url.host},
            )
        )

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()
