"""Which names a server answers to where no key is needed, and whose pages may change anything."""

import asyncio
from collections.abc import Mapping

import pytest
from litestar.types import HTTPScope

from service.access.keys import Principal, Scope
from service.access.origins import KnownNames
from service.api.http.auth import Access, Guard
from service.api.http.operation import Operation
from service.base.errors import UnauthorizedError
from service.base.site_errors import CrossSiteError, MisdirectedError

READ = Operation(id="read", tag="t", summary="Read.", replies={})
EVERYTHING = Principal(name="a", scopes=frozenset(Scope))


def scope(method: str, path: str = "/v1/fit", **headers: str) -> HTTPScope:
    """Return as much of the scope of a request as is looked at."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    ends = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)}
    return {**ends, "method": method, "path": path, "headers": named, "state": {}}  # type: ignore[typeddict-item]  # the rest is not read


def ask(access: Access, request: HTTPScope, names: KnownNames | None = None) -> None:
    """Have a guard look at a request."""
    guard = Guard(access, find=lambda _text: EVERYTHING, names=names)
    asyncio.run(guard.admit(request, READ))


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8000", "10.2.3.4", "[::1]:8000", "[fe80::1%25eth0]:80", "localhost:8000"),
        *("api:8000", "gpu-box", "headroom.ml.svc:8000", "headroom.ml.svc.cluster.local"),
        *(
            "box.local",
            "api.internal",
            "pi.home.arpa",
            "a.localhost",
            "gpu.example",
            "GPU.example.",
        ),
        *("x.lab.example", "headroom.example", "headroom.example:443"),
    ],
)
def test_an_open_server_answers_to_names_of_its_own(host: str) -> None:
    """Addresses, names that nobody can register, and those that an operator gave."""
    names = KnownNames(("gpu.example", ".lab.example"), public_url="https://headroom.example")

    ask(Access.OPEN, scope("GET", host=host), names)
    ask(Access.OPEN, scope("GET"), names)


@pytest.mark.parametrize("host", ["evil.example", "lab.example", "xgpu.example", "a.b:80", "[", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_page_has_its_own_name_led_to_an_open_server(method: str, host: str) -> None:
    """DNS rebinding: the page's name is resolved to this machine, and the browser sends it."""
    names = KnownNames(("gpu.example", ".lab.example"))

    with pytest.raises(MisdirectedError, match="HEADROOM_ALLOWED_HOSTS"):
        ask(Access.OPEN, scope(method, host=host), names)


def test_with_a_key_the_name_does_not_matter() -> None:
    """No page of a stranger has the key; a local server wants one of whoever asks by a name."""
    ask(Access.KEYS, scope("GET", host="evil.example", x_api_key="k"))

    with pytest.raises(UnauthorizedError, match=r"was meant for 'evil\.example'"):
        ask(Access.LOCAL, scope("GET", host="evil.example"))


def test_a_scheduler_asks_a_hook_by_any_name() -> None:
    """It sends no Origin, as no browser does that posts."""
    hook = "/v1/hooks/kubernetes/warn"

    ask(Access.OPEN, scope("POST", hook, host="hooks.example"))

    page = {"host": "hooks.example", "origin": "http://hooks.example"}
    with pytest.raises(MisdirectedError):
        ask(Access.OPEN, scope("POST", hook, **page))


HERE = "headroom.example:8000"
FOREIGN: tuple[Mapping[str, str], ...] = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://headroom.example"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site", "origin": f"http://{HERE}"},
)
OWN: tuple[Mapping[str, str], ...] = (
    {},
    {"origin": f"http://{HERE}"},
    {"sec_fetch_site": "same-origin", "origin": "https://before-the-proxy.example"},
    {"sec_fetch_site": "none"},
    {"origin": "https://public.example"},
)


@pytest.mark.parametrize("access", [Access.KEYS, Access.OPEN])
@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("path", ["/v1/keys", "/mcp", "/v1/hooks/skypilot/refuse"])
def test_no_page_of_another_site_changes_anything(
    access: Access, headers: Mapping[str, str], path: str
) -> None:
    """Whatever the browser adds to it: a password that it keeps, a certificate, an address."""
    names = KnownNames((".example",))

    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(CrossSiteError, match="a page of another site"):
            ask(access, scope(method, path, host=HERE, x_api_key="k", **headers), names)


@pytest.mark.parametrize("headers", OWN)
def test_programs_and_own_pages_change_things(headers: Mapping[str, str]) -> None:
    """A program sends neither header; a page behind a proxy sees another name than the server."""
    names = KnownNames((), public_url="https://public.example")

    ask(Access.KEYS, scope("POST", host=HERE, x_api_key="k", **headers), names)


def test_a_link_from_another_site_may_be_followed() -> None:
    """Reading changes nothing, and no other site's page sees the answer."""
    ask(Access.KEYS, scope("GET", host=HERE, x_api_key="k", sec_fetch_site="cross-site"))
