"""Pages of the dashboard.

They hold no data, so that they need no key; their scripts ask the API, which does.
"""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Request, Router, get
from litestar.exceptions import NotFoundException
from litestar.types import ASGIApp

from service.api.http.responses import PAGE_HEADERS, BytesResponse, bytes_response
from service.web import assets
from service.web.fields import (
    TRAINING_LAYOUT,
    get_fields,
    list_formats,
    list_launchers,
    list_objectives,
)

AnyRequest = Request[Any, Any, Any]
_HTML = "text/html; charset=utf-8"
_IMMUTABLE = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rendered page, the same for everybody."""

    body: bytes
    packed: bytes
    tag: str


@get(["/", "/questions/{digest:str}"], sync_to_thread=False)
def explore(request: AnyRequest) -> ASGIApp:
    """Show the page that answers whether something fits.

    Its script reads off its address which question a hook was asked.
    """
    return _respond(request, "explore.html")


@get("/models", sync_to_thread=False)
def models(request: AnyRequest) -> ASGIApp:
    """Show the models, and the families that are modelled."""
    return _respond(request, "models.html")


@get(["/clusters", "/clusters/{cluster:str}"], sync_to_thread=False)
def clusters(request: AnyRequest) -> ASGIApp:
    """Show the clusters.

    The page's script reads off its address whether one of them is meant.
    """
    return _respond(request, "clusters.html")


@get("/measurements", sync_to_thread=False)
def measurements(request: AnyRequest) -> ASGIApp:
    """Show the measurements."""
    return _respond(request, "measurements.html")


@get("/measurements/{measurement:str}", sync_to_thread=False)
def measurement(request: AnyRequest) -> ASGIApp:
    """Show one measurement, whose id the page's script reads off its address."""
    return _respond(request, "measurement.html")


@get("/accuracy", sync_to_thread=False)
def accuracy(request: AnyRequest) -> ASGIApp:
    """Show how far estimates were off."""
    return _respond(request, "accuracy.html")


@get(f"{assets.PREFIX}/{{build:str}}/{{name:path}}", sync_to_thread=False)
def asset(request: AnyRequest) -> ASGIApp:
    """Send a file of the pages.

    Under another digest than ours, as while replicas are replaced, it is not to be kept.
    """
    name = str(request.path_params["name"]).removeprefix("/")
    if name not in assets.load_contents():
        raise NotFoundException
    caching = _IMMUTABLE if request.path_params["build"] == assets.compute_digest() else "no-store"
    headers = {**PAGE_HEADERS, "cache-control": caching, "vary": "Accept-Encoding"}
    if _is_gzip_accepted(request):
        return bytes_response(
            assets.compress_file(name),
            assets.get_media_type(name),
            {**headers, "content-encoding": "gzip"},
        )
    return bytes_response(assets.load_contents()[name], assets.get_media_type(name), headers)


router = Router(
    path="/",
    route_handlers=[explore, models, clusters, measurements, measurement, accuracy, asset],
)


@cache
def render(name: str) -> Page:
    """Return a page; its template is read once."""
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template(name)
    context = {
        "fields_of": get_fields,
        "formats": list_formats,
        "launchers": list_launchers,
        "objectives": list_objectives,
        "training_layout": TRAINING_LAYOUT,
    }
    body = template.render(static=assets.get_url, **context).encode()
    return Page(
        body=body, packed=gzip.compress(body, mtime=0), tag=f'"{sha256(body).hexdigest()[:16]}"'
    )


def _respond(request: AnyRequest, name: str) -> ASGIApp:
    page = render(name)
    headers = {
        **PAGE_HEADERS,
        "cache-control": "no-cache",
        "etag": page.tag,
        "vary": "Accept-Encoding",
    }
    if page.tag in request.headers.get("if-none-match", ""):
        return BytesResponse(
            b"",
            status=304,
            headers=[(key.encode(), value.encode()) for key, value in headers.items()],
        )
    if _is_gzip_accepted(request):
        return bytes_response(page.packed, _HTML, {**headers, "content-encoding": "gzip"})
    return bytes_response(page.body, _HTML, headers)


def _is_gzip_accepted(request: AnyRequest) -> bool:
    """Return whether the client accepts gzip.

    ``gzip;q=0`` says that it does not.
    """
    parts = (part.strip().lower() for part in request.headers.get("accept-encoding", "").split(","))
    return any(
        name == "gzip" and quality.replace(" ", "") not in {"q=0", "q=0.0"}
        for name, _, quality in map(_split, parts)
    )


def _split(part: str) -> tuple[str, str, str]:
    name, sign, quality = part.partition(";")
    return name.strip(), sign, quality
