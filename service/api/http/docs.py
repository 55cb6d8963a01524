"""OpenAPI document and the page that shows it.

The page loads nothing from any other host.
"""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from litestar import Request, Router, get
from litestar.exceptions import NotFoundException
from litestar.types import ASGIApp

from service.api.http.operation import JSON
from service.api.http.responses import PAGE_HEADERS, BytesResponse, bytes_response

_STATIC = files("service.api.http") / "static"
_MEDIA_TYPES = {
    "docs.html": "text/html",
    "docs.js": "text/javascript",
    "docs.css": "text/css",
    "theme.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui-LICENSE.txt": "text/plain",
    "swagger-ui-NOTICE.txt": "text/plain",
    "swagger-ui-bundle.js.LICENSE.txt": "text/plain",
}
AnyRequest = Request[Any, Any, Any]


@cache
def _read(name: str) -> bytes:
    return _STATIC.joinpath(name).read_bytes()


def _send_file(name: str) -> BytesResponse:
    headers = PAGE_HEADERS | {"cache-control": "max-age=3600"}
    return bytes_response(_read(name), f"{_MEDIA_TYPES[name]}; charset=utf-8", headers)


@get("/", sync_to_thread=False)
def page() -> ASGIApp:
    """Show the documentation."""
    return _send_file("docs.html")


@get("/static/{name:str}", sync_to_thread=False)
def asset(request: AnyRequest) -> ASGIApp:
    """Send one file that the page needs."""
    name = str(request.path_params["name"])
    if name not in _MEDIA_TYPES:
        raise NotFoundException
    return _send_file(name)


@get("/openapi.json", sync_to_thread=True)
def openapi(request: AnyRequest) -> ASGIApp:
    """Send the OpenAPI document, which the first request makes."""
    read: Callable[[], bytes] = request.app.state.openapi
    return bytes_response(read(), JSON)


router = Router(path="/docs", route_handlers=[page, asset, openapi])
