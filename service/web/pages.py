"""The dashboard: pages that hold no data, so that they need no key; their scripts ask the API, which does."""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Request, Router, get
from litestar.exceptions import NotFoundException
from litestar.types import ASGIApp

from service.api.http.responses import Whole, bytes_answer
from service.web import assets
from service.web.fields import TRAINING_LAYOUT, fields_of, objectives
from service.web.policy import HEADERS

AnyRequest = Request[Any, Any, Any]
_HTML = "text/html; charset=utf-8"
_FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as it is sent; it is the same for everybody."""

    body: bytes
    packed: bytes
    tag: str


@get("/", sync_to_thread=False)
def explore(request: AnyRequest) -> ASGIApp:
    """Show the page that answers whether something fits."""
    return _answer(request, "explore.html")


@get(["/clusters", "/clusters/{cluster:str}"], sync_to_thread=False)
def clusters(request: AnyRequest) -> ASGIApp:
    """Show the clusters, or the one that the page's script reads off its address."""
    return _answer(request, "clusters.html")


@get("/measurements", sync_to_thread=False)
def measurements(request: AnyRequest) -> ASGIApp:
    """Show the measurements."""
    return _answer(request, "measurements.html")


@get("/measurements/{measurement:str}", sync_to_thread=False)
def measurement(request: AnyRequest) -> ASGIApp:
    """Show one measurement, whose id the page's script reads off its address."""
    return _answer(request, "measurement.html")


@get("/accuracy", sync_to_thread=False)
def accuracy(request: AnyRequest) -> ASGIApp:
    """Show how far estimates were off."""
    return _answer(request, "accuracy.html")


@get(f"{assets.PREFIX}/{{build:str}}/{{name:path}}", sync_to_thread=False)
def asset(request: AnyRequest) -> ASGIApp:
    """Send a file of the pages; under another digest than ours, as while replicas are replaced, it is not to be kept."""
    name = str(request.path_params["name"]).removeprefix("/")
    if name not in assets.contents():
        raise NotFoundException
    caching = _FOR_GOOD if request.path_params["build"] == assets.digest() else "no-store"
    headers = {**HEADERS, "cache-control": caching, "vary": "Accept-Encoding"}
    if _takes_gzip(request):
        return bytes_answer(assets.compressed(name), assets.media_type_of(name), {**headers, "content-encoding": "gzip"})
    return bytes_answer(assets.contents()[name], assets.media_type_of(name), headers)


router = Router(path="/", route_handlers=[explore, clusters, measurements, measurement, accuracy, asset])


@cache
def render(name: str) -> Page:
    """Return a page; its template is read once."""
    environment = Environment(
        loader=PackageLoader("service.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.get_template(name)
    words = {"fields_of": fields_of, "objectives": objectives, "training_layout": TRAINING_LAYOUT}
    body = template.render(static=assets.url_of, **words).encode()
    return Page(body=body, packed=gzip.compress(body, mtime=0), tag=f'"{sha256(body).hexdigest()[:16]}"')


def _answer(request: AnyRequest, name: str) -> ASGIApp:
    page = render(name)
    headers = {**HEADERS, "cache-control": "no-cache", "etag": page.tag, "vary": "Accept-Encoding"}
    if page.tag in request.headers.get("if-none-match", ""):
        return Whole(b"", status=304, headers=[(key.encode(), value.encode()) for key, value in headers.items()])
    if _takes_gzip(request):
        return bytes_answer(page.packed, _HTML, {**headers, "content-encoding": "gzip"})
    return bytes_answer(page.body, _HTML, headers)


def _takes_gzip(request: AnyRequest) -> bool:
    """Tell whether the client unpacks gzip; ``gzip;q=0`` says that it does not."""
    parts = (part.strip().lower() for part in request.headers.get("accept-encoding", "").split(","))
    return any(name == "gzip" and quality.replace(" ", "") not in {"q=0", "q=0.0"} for name, _, quality in map(_split, parts))


def _split(part: str) -> tuple[str, str, str]:
    name, sign, quality = part.partition(";")
    return name.strip(), sign, quality
