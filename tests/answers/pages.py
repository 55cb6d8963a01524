"""What stands beside the answers: documents, pages and their files, catalogues, methods."""

import re
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from urllib.parse import quote

import httpx

from tests.answers.questions import IN_ORDER, Known, Question, get

BUILD = r"/static/([0-9a-f]+)/"
_LINKS = re.compile(r"""(?:src|href)="(/[^"#?]+\.\w+)\"""")
_IMPORTS = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
_PAGES = ("/", "/clusters", "/clusters/prod-a", "/measurements", "/measurements/none", "/accuracy")
_PLAIN = (
    "/healthz",
    "/readyz",
    "/version",
    "/docs",
    "/docs/openapi.json",
    "/nothing",
    "/v1",
    "/v1/x",
)


def first() -> Iterator[Question]:
    """Yield the page that says under which build its files are served."""
    yield get("/", "/", when=IN_ORDER, captures={"build": BUILD})


def files_of(client: httpx.Client) -> list[str]:
    """Return the paths of every file that pages and their scripts name, with <<build>> in them."""
    waiting = [
        path for page in (*_PAGES, "/docs") for path in _LINKS.findall(client.get(page).text)
    ]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.endswith(".js") and "vendor" not in path and not path.startswith("/docs"):
            found = _IMPORTS.findall(client.get(path).text)
            waiting += [normpath(join(dirname(path), name)) for name in found]
    return sorted({re.sub(BUILD, "/static/<<build>>/", path) for path in seen})


def pages(files: list[str]) -> Iterator[Question]:
    """Yield the documents, the pages and their files."""
    yield from (get(path, path) for path in _PLAIN)
    yield from (get("/ pages", path) for path in _PAGES)
    yield from (get("/ files", path) for path in files)
    yield from (get("/ files", path, headers={"accept-encoding": "gzip"}) for path in files[:5])
    for path in ("/static/x/js/shell.js", "/static/<<build>>/none.js", "/docs/static/none.js"):
        yield get("/ files", path)
    yield get("/ files", "/static/<<build>>/../pages.py")


def methods(known: Known) -> Iterator[Question]:
    """Yield each path of the document with methods that it has and that it has not."""
    for path in known.document["paths"]:
        for method in ("OPTIONS", "HEAD", "PATCH", "TRACE"):
            # A stream of events and what needs a body to be understood are asked elsewhere.
            asked = re.sub(r"\{\w+\}", "none", path)
            yield Question(group="methods", method=method, path=asked)


def catalogues(known: Known) -> Iterator[Question]:
    """Yield every model and GPU of the catalogue, page by page and one by one."""
    for name in (*known.models, *known.aliases):
        yield get("/v1/models", f"/v1/models/{quote(name)}")
    for query in ("", "?limit=200", "?limit=1", "?limit=0", "?limit=201", "?cursor=x", "?x=1"):
        yield get("/v1/models", f"/v1/models{query}")
        yield get("/v1/gpus", f"/v1/gpus{query}")
    for path in (
        "/v1/models/none",
        "/v1/models/a/b",
        "/v1/models/gpt2?revision=2",
        "/v1/models/%00",
    ):
        yield get("/v1/models", path)
    for tag in ('"catalogue-0.1.0"', '"x"', "*"):
        yield get("/v1/models", "/v1/models/gpt2", headers={"if-none-match": tag})


def last() -> Iterator[Question]:
    """Yield what counts all that went before."""
    yield get("/metrics", "/metrics", when=IN_ORDER)
