"""The pages as they are served: the same for everybody, under a strict policy, and kept where they
may be.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from service.access.keys import Principal
from service.api.http.auth import Access, Guard
from service.usecases.access.keys import make_missing_key_error
from service.web import assets
from tests.unit.api.builders import parts, served

PAGES = ("/", "/clusters", "/measurements", "/measurements/0190", "/accuracy")


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API and the pages over fakes for the tests of this file."""
    with served() as client:
        yield client


def _files_of(html: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/static/[^"]+)"', html)


@pytest.mark.parametrize("path", [*PAGES, "/docs"])
def test_a_page_allows_itself_and_nothing_else(client: TestClient[Any], path: str) -> None:
    """Neither another host nor anything inline: not a script, not a style, not a handler."""
    answer = client.get(path)
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )

    assert answer.status_code == 200
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == (
        "'none'",
        "'self'",
        "'self'",
    )
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.search(
        r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]+src=)|//(?!www\.w3\.org)[a-z]", answer.text
    )


@pytest.mark.parametrize("path", PAGES)
def test_what_a_page_names_is_there(client: TestClient[Any], path: str) -> None:
    """Every script and style of a page is served, and for good, since its name changes with it."""
    names = _files_of(client.get(path).text)

    assert names
    for name in names:
        file = client.get(name)
        assert (file.status_code, file.headers["cache-control"]) == (
            200,
            "public, max-age=31536000, immutable",
        )


@pytest.mark.parametrize(
    "name",
    [name for name in assets.load_contents() if name.endswith(".js") and "vendor" not in name],
)
def test_what_a_script_imports_is_there(name: str) -> None:
    """Scripts name each other by relative paths, and every one of them is served."""
    folder = name.split("/")[:-1]
    for target in re.findall(r'from "(\.[^"]+)"', assets.load_contents()[name].decode()):
        place = list(folder)
        for step in target.removeprefix("./").split("/"):
            place = place[:-1] if step == ".." else [*place, step]
        assert "/".join(place) in assets.load_contents(), target


def test_a_page_is_asked_for_once(client: TestClient[Any]) -> None:
    """Who has the page gets told that it is still right."""
    first = client.get("/")
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200


def test_a_file_of_another_build_is_not_kept(client: TestClient[Any]) -> None:
    """While replicas are replaced a page may ask one that has other files: it gets them, and keeps
    none.
    """
    answer = client.get("/static/0123456789abcdef/css/base.css")

    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


def test_every_format_is_offered_below_an_answer(client: TestClient[Any]) -> None:
    """The same words as over HTTP, in the same order."""
    page = client.get("/").text
    (select,) = re.findall(r'<select id="job-format".*?</select>', page, re.DOTALL)
    listed = client.get("/v1/formats").json()["items"]

    assert re.findall(r'<option value="([^"]*)"', select) == [item["word"] for item in listed]


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/none.js",
        "/static/x/../pages.py",
        "/static/x/%2e%2e/pages.py",
        "/static/x/__init__.py",
    ],
)
def test_nothing_else_is_served(client: TestClient[Any], path: str) -> None:
    """A path is looked up among the files, and never opened."""
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip, br", "gzip"), ("gzip;q=0", None), ("identity", None), ("*;q=0.1", None)],
)
def test_a_file_is_packed_for_who_unpacks_it(
    client: TestClient[Any], accepted: str, coding: str | None
) -> None:
    """The charts are a third as large on the way."""
    path = assets.get_url("vendor/echarts.esm.min.js")
    answer = client.get(path, headers={"accept-encoding": accepted})

    assert answer.headers.get("content-encoding") == coding
    assert answer.content == assets.load_contents()["vendor/echarts.esm.min.js"]
    assert (int(answer.headers["content-length"]) < len(answer.content) / 2) is (coding is not None)
    assert gzip.decompress(assets.compress_file("vendor/echarts.esm.min.js")) == answer.content


def test_pages_are_no_operations(client: TestClient[Any]) -> None:
    """The document of the API lists the API alone."""
    paths = client.get("/docs/openapi.json").json()["paths"]

    assert not {"/", "/clusters", "/measurements", "/accuracy"} & set(paths)
    assert not [path for path in paths if path.startswith("/static")]


def test_pages_need_no_key_and_data_do() -> None:
    """A shell holds nothing that is anybody's; what its scripts ask is guarded."""
    closed = Guard(Access.KEYS, find=_nobody)
    with served(replace(parts(), guard=closed)) as client:
        assert client.get("/").status_code == 200
        assert client.get(assets.get_url("js/api.js")).status_code == 200
        assert client.get("/v1/models").status_code == 401


def _nobody(_text: str) -> Principal:
    raise make_missing_key_error()
