"""Pages, machines and names that a request's headers tell of."""

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from service.base.site_errors import CrossSiteError, MisdirectedError

HOOKS = "/v1/hooks/"
"""Paths that schedulers ask, under whatever name their operators wrote down."""
PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".svc")
"""Names that nobody can register: RFC 6761, RFC 6762, ICANN's resolution 2024.07.29.06, RFC 8375,
and Kubernetes' own for services.
"""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORWARDED = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip"}
)
_MOST_CHARS = 255 + len(":65535")
"""Of a name or an address with its port: no name of DNS is longer (RFC 1035, 2.3.4)."""
_FORWARDED_STARTS = (b"x-forwarded", b"x-original-", b"x-envoy-", b"cf-")
"""What proxies name their own headers by: RFC 7239's forerunners, ingress-nginx's originals,
Envoy's and Cloudflare's.
"""
_COMMON = frozenset(
    {
        *(b"host", b"content-type", b"content-length", b"user-agent", b"accept", b"connection"),
        *(b"accept-encoding", b"accept-language", b"authorization", b"x-api-key", b"x-request-id"),
        *(b"traceparent", b"if-none-match", b"if-match", b"idempotency-key", b"cookie"),
        *(b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"),
    }
)
"""Names that programs and browsers send: no proxy adds one, so that most requests have no other."""

Headers = Mapping[bytes, bytes]
"""Headers of a request by their names in small letters."""


class KnownNames:
    """Names and origins that a server is asked by."""

    def __init__(self, names: Iterable[str] = (), *, public_url: str | None = None) -> None:
        """Know these names and that of a public URL.

        ``.name`` stands for all names below it.
        """
        parsed = urlsplit(public_url or "")
        self._names = frozenset({*names, parsed.hostname or ""} - {""})
        self._origin = f"{parsed.scheme}://{parsed.netloc}" if parsed.netloc else None

    def require_name(self, path: str, headers: Headers) -> None:
        """Refuse a request for a name that strangers could register.

        A page whose own name is resolved to this server's address would otherwise speak for
        whoever looks at it, where no key is needed. A browser adds an Origin to what it posts, so
        that a scheduler's hook without one is no page's.
        """
        if path.startswith(HOOKS) and b"origin" not in headers:
            return
        host = _read(headers, b"host")
        if host is not None and not self._is_known(host):
            message = (
                f"this server is not asked by the name {host!r}; an operator allows a name with "
                "HEADROOM_ALLOWED_HOSTS or HEADROOM_PUBLIC_URL, and addresses always work"
            )
            raise MisdirectedError(message)

    def refuse_other_sites(self, method: str, headers: Headers) -> None:
        """Refuse a change that another site's page sent.

        Programs send neither ``Sec-Fetch-Site`` nor ``Origin``. A browser that says the former has
        compared the two itself, which holds behind proxies that rewrite ``Host`` as well.
        """
        if method in _SAFE_METHODS or not _tells_page(headers):
            return
        origin, site = _read(headers, b"origin"), _read(headers, b"sec-fetch-site")
        if origin is not None and origin.lower() == self._origin:
            return
        if site is None:
            is_foreign = origin is not None and not _is_same_host(origin, _read(headers, b"host"))
        else:
            is_foreign = site not in {"none", "same-origin"}
        if is_foreign:
            message = (
                f"this was sent by a page of another site, {origin or 'which does not say which'}; "
                "send it from a page of this server, or from a program, which sends no Origin"
            )
            raise CrossSiteError(message)

    def _is_known(self, host: str) -> bool:
        name = _read_name(host)
        return name is not None and (
            _is_address(name)
            or "." not in name
            or name.endswith(PRIVATE_SUFFIXES)
            or name in self._names
            or any(name.endswith(known) for known in self._names if known.startswith("."))
        )


def explain_not_local(client: str | None, headers: Headers) -> str | None:
    """Explain why a request is not from this machine.

    Returns ``None`` where nothing shows that.
    """
    if client is not None and not _is_loopback(client):
        return f"came from {client}"
    if not headers.keys() <= _COMMON and any(
        name in _FORWARDED or name.startswith(_FORWARDED_STARTS) for name in headers
    ):
        return "came through a proxy"
    # A page that has its own name resolved to 127.0.0.1 would otherwise speak for whoever looks at
    # it.
    host = _read(headers, b"host")
    if host is not None and not _is_local_host(host):
        return f"was meant for {host!r}"
    return _explain_cross_site(headers, host) if _tells_page(headers) else None


def _tells_page(headers: Headers) -> bool:
    """Return whether a browser names a page; programs do not."""
    return b"origin" in headers or b"sec-fetch-site" in headers


def _explain_cross_site(headers: Headers, host: str | None) -> str | None:
    """Explain why a browser's request is from another site.

    Programs send neither ``Sec-Fetch-Site`` nor ``Origin``; returns ``None`` for a page of this
    very server.
    """
    if headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}:
        return "was sent by another site's page"
    origin = _read(headers, b"origin")
    if origin is not None and not _is_same_host(origin, host):
        return "was sent by another site's page"
    return None


def _read(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _is_same_host(origin: str, host: str | None) -> bool:
    return origin.partition("://")[2] == host


def _read_name(host: str) -> str | None:
    """Return the name of a ``Host``, if it has one.

    What is longer than any is not kept: it may have as many bytes as all headers.
    """
    return parse_host_name(host) if len(host) <= _MOST_CHARS else None


@lru_cache(256)
def parse_host_name(host: str) -> str | None:
    """Return the name in a short ``Host``, ``None`` where it has none."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return None if name is None else name.removesuffix(".")


def _is_local_host(host: str) -> bool:
    return len(host) <= _MOST_CHARS and _is_local_name(host)


@lru_cache(256)
def _is_local_name(host: str) -> bool:
    name = parse_host_name(host) or ""
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


@lru_cache(256)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


@lru_cache(256)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
