"""A measurement's file over HTTP: packed or not as the client likes, saved and never shown, and by
the command whole.
"""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from service.__main__ import main
from service.db.session import make_engine, make_sessions
from tests.e2e.http.conftest import Servers
from tests.e2e.http.test_resources import slug
from tests.integration.usecases.learning.builders import a_request, a_result, measure
from tests.job_builders import an_artifact

CONTENT = b"history" * 300_000 + os.urandom(1_500_000)


@pytest.fixture
def measured(servers: Servers) -> Iterator[UUID]:
    """Return a measurement with a file of some pieces."""
    engine = make_engine(servers.database_url, application_name="test", pool_size=1)
    request = a_request()
    yield measure(
        make_sessions(engine), request, a_result(request), artifacts=[an_artifact(CONTENT)]
    ).id
    engine.dispose()


def test_a_file_comes_as_the_client_likes(client: httpx.Client, measured: UUID) -> None:
    """Unpacked, or as it is stored for whoever unpacks; its length is told before, also to HEAD."""
    path = f"/v1/measurements/{measured}/artifacts/memory_snapshot"
    plain = client.get(path, headers={"accept-encoding": "identity"})
    with client.stream("GET", path, headers={"accept-encoding": "br;q=1, gzip;q=0.5"}) as packed:
        stored = b"".join(packed.iter_raw())
    refused = client.get(path, headers={"accept-encoding": "gzip;q=0"})
    head = client.head(path, headers={"accept-encoding": "identity"})

    assert plain.content == refused.content == gzip.decompress(stored) == CONTENT
    assert packed.headers["content-encoding"] == "gzip"
    assert [int(answer.headers["content-length"]) for answer in (plain, packed, head)] == [
        len(CONTENT),
        len(stored),
        len(CONTENT),
    ]


def test_a_file_is_saved_and_never_shown(client: httpx.Client, measured: UUID) -> None:
    """No browser guesses what it is, and no page can be made of it."""
    headers = client.get(f"/v1/measurements/{measured}/artifacts/memory_snapshot").headers

    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == 'attachment; filename="memory_snapshot.pickle"'
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]
    assert headers["vary"] == "Accept-Encoding"


def test_what_is_not_there_is_no_file(client: httpx.Client, measured: UUID) -> None:
    """A measurement lists what it has; another name, or another measurement, is 404 in words."""
    (listed,) = client.get(f"/v1/measurements/{measured}").json()["artifacts"]
    other = client.get(f"/v1/measurements/{measured}/artifacts/core")
    nobody = client.get(
        "/v1/measurements/3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10/artifacts/memory_snapshot"
    )

    assert (listed["name"], listed["bytes"], listed["sha256"]) == (
        "memory_snapshot",
        len(CONTENT),
        an_artifact(CONTENT).sha256,
    )
    assert slug(other, 404) == "not-found"
    assert slug(nobody, 404) == "measurement-not-found"


def test_the_command_writes_it_whole_or_not_at_all(
    client: httpx.Client,
    measured: UUID,
    servers: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By its own name where none is given; what breaks off, or is not what is listed, leaves
    nothing behind.
    """
    monkeypatch.chdir(tmp_path)
    command = [
        "measurements",
        "artifact",
        str(measured),
        "memory_snapshot",
        "--server",
        str(client.base_url),
    ]
    shown = main(["measurements", "show", str(measured), "--server", str(client.base_url)])
    listed = capsys.readouterr().out
    written = main(command)
    kept = (tmp_path / "memory_snapshot.pickle").read_bytes()
    engine = make_engine(servers.database_url, application_name="test", pool_size=1)
    with make_sessions(engine).begin() as session:
        session.connection().exec_driver_sql("UPDATE measurement_artifacts SET bytes = bytes + 1")
    engine.dispose()
    torn = main([*command, "-o", "torn"])
    missing = main([*command[:3], "core", *command[4:], "-o", "missing"])

    assert (shown, written, torn, missing) == (0, 0, 2, 2)
    assert "kept memory_snapshot, 3.43 MiB: headroom measurements artifact" in " ".join(
        listed.split()
    )
    assert kept == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["memory_snapshot.pickle"]
    assert "has no artifact 'core'; it has memory_snapshot" in capsys.readouterr().err
