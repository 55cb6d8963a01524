"""The operational endpoints and the documentation over HTTP."""

import json
import re
import urllib.error
import urllib.request

import httpx
import pytest
from litestar.testing import TestClient

from service.app import create_app
from service.runtime.settings import Settings
from tests.e2e.http.conftest import Servers


def test_ready_when_the_schema_is_there(client: httpx.Client) -> None:
    """Database at head, Redis answering."""
    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ready", "database": "ok", "redis": "ok"},
    )


def test_without_redis_only_latency_suffers(servers: Servers) -> None:
    """Redis away is degraded, not dead, and a measurement is still accepted."""
    settings = Settings.from_env({**servers.environment(), "REDIS_URL": "redis://127.0.0.1:1"})
    with TestClient(create_app(settings)) as client:
        answer = client.get("/readyz")

        assert (answer.status_code, answer.json()["status"], answer.json()["redis"]) == (
            200,
            "degraded",
            "unreachable",
        )


@pytest.mark.parametrize("what", ["empty", "away"])
def test_without_the_schema_nothing_is_ready_but_fits(what: str, empty_database_url: str) -> None:
    """The analytic answer needs no database; whatever is stored says what is missing."""
    url = empty_database_url if what == "empty" else "postgresql://nobody@127.0.0.1:1/nothing"
    question = {
        "model": "llama-2-7b",
        "workload": {"task": "train", "sequence_length": 64},
        "gpu": "H200",
    }
    with TestClient(
        create_app(Settings.from_env({"DATABASE_URL": url, "HEADROOM_ACCESS": "open"}))
    ) as client:
        ready, fit, stored = (
            client.get("/readyz"),
            client.post("/v1/fit", json=question),
            client.get("/v1/clusters"),
        )

        assert (ready.status_code, ready.json()["database"]) == (
            503,
            "not_migrated" if what == "empty" else "unreachable",
        )
        assert fit.status_code == 200
        assert (stored.status_code, stored.json()["type"]) == (
            503,
            "not-migrated" if what == "empty" else "unavailable",
        )
        assert "headroom_database_up 0.0" in client.get("/metrics").text


def test_metrics_show_jobs_and_fits(client: httpx.Client) -> None:
    """What was asked and what waits can be scraped."""
    question = {
        "model": "llama-2-7b",
        "workload": {"task": "train", "sequence_length": 64},
        "gpu": "H200",
    }
    verdict = client.post("/v1/fit", json=question).json()["verdict"]
    text = client.get("/metrics").text

    assert f'headroom_fits_total{{verdict="{verdict}"}} 1.0' in text
    assert 'headroom_jobs{device="cpu",state="queued"} 0.0' in text
    assert "headroom_doorbell_failures_total 0.0" in text


def test_head_works_on_every_get(client: httpx.Client) -> None:
    """HEAD is answered wherever GET is, streams and pages included."""
    for path in (
        "/healthz",
        "/readyz",
        "/version",
        "/metrics",
        "/docs",
        "/docs/openapi.json",
        "/v1/gpus",
        "/v1/models",
    ):
        assert client.head(path).status_code == 200, path


def test_the_docs_page_asks_no_other_host(client: httpx.Client) -> None:
    """Every script and style comes from here, and the policy forbids anything else."""
    page = client.get("/docs")

    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert linked
    for target in linked:
        assert target == "/" or target.startswith(("/docs/", "data:"))
        if target.startswith("/"):
            assert client.get(target).status_code == 200
    assert client.get("/docs/static/docs.html%2f..").status_code == 404


def test_version_is_that_of_the_package(client: httpx.Client) -> None:
    """What runs can be told from outside."""
    assert client.get("/version").json()["name"] == "gpu-headroom"


def test_options_names_every_method_of_a_resource(client: httpx.Client) -> None:
    """Allow lists the methods of all handlers of a path, with OPTIONS and HEAD; what no path has is
    not found.
    """
    for path, methods in (
        ("/v1/models", "GET, HEAD, OPTIONS, POST"),
        ("/v1/clusters/a", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("/v1/measurements/import", "OPTIONS, POST"),
    ):
        answer = client.options(path)

        assert (answer.status_code, answer.headers["allow"], answer.content) == (204, methods, b"")
    assert client.options("/v1/nothing").status_code == 404


def test_a_client_that_sends_too_much_reads_why(client: httpx.Client) -> None:
    """Also one that closes its connection after the answer, which most programs do."""
    headers = {"Content-Type": "application/json"}
    address = str(client.base_url.join("/v1/fit"))
    request = urllib.request.Request(address, b" " * 20_000_000, headers)  # noqa: S310 - of this machine

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)  # noqa: S310 - of this machine

    with refused.value as answer:
        assert (answer.code, json.load(answer)["type"]) == (413, "body-too-large")
