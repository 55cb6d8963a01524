"""A whole service of real processes whose logs are kept and whose spans go to a collector of the
test's own.
"""

import gzip
import json
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy.engine import make_url

from service.access.keys import Scope
from service.db.session import make_engine, make_sessions
from service.runtime.variables import parse_psycopg_url
from service.usecases.access import keys
from service.usecases.access.keys import NewKey
from tests.running.forked import ForkedProgram, make_probe_command
from tests.servers import fresh_database
from tests.system import build_environment

PASSWORD = "a-password-of-the-database"  # noqa: S105 - it opens nothing; the test looks for it in the logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One span as the collector got it; ids in hexadecimal."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, object]
    began_ns: int
    ended_ns: int


@dataclass(slots=True)
class Collector:
    """An OTLP receiver that keeps what it gets."""

    url: str
    spans: list[Seen] = field(default_factory=list)

    def take(self, body: bytes) -> None:
        """Keep the spans of one request."""
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            told = {item.key: item.value.string_value for item in resource.resource.attributes}
            for one in (one for scope in resource.scope_spans for one in scope.spans):
                values = {
                    item.key: item.value.string_value or item.value.int_value
                    for item in one.attributes
                }
                self.spans.append(
                    Seen(
                        service=told["service.name"],
                        name=one.name,
                        trace_id=one.trace_id.hex(),
                        span_id=one.span_id.hex(),
                        parent_id=one.parent_span_id.hex(),
                        attributes=values,
                        began_ns=one.start_time_unix_nano,
                        ended_ns=one.end_time_unix_nano,
                    ),
                )

    def named(self, name: str) -> Seen:
        """Return the only span of a name."""
        (found,) = [one for one in self.spans if one.name == name]
        return found


@dataclass(slots=True)
class Service:
    """The address of an API with a reconcile loop and a tracing worker, a key to it, and what they
    wrote.
    """

    url: str
    key: str
    collector: Collector
    dir: Path
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return every line of one process's log."""
        return [json.loads(line) for line in (self.dir / f"{name}.log").read_text().splitlines()]

    def all_text(self) -> str:
        """Return everything that was written."""
        return "".join(path.read_text() for path in sorted(self.dir.glob("*.log")))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """Return a collector that listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.take(
                gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            )
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept = Collector(url=f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def service(
    collector: Collector,
    postgres_server: str,
    migrated_template: str,
    redis_server: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """Run an API, a reconcile loop and a worker of device trace, all of them traced."""
    path = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        database_url = stack.enter_context(fresh_database(postgres_server, migrated_template))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        environment = {
            **build_environment(
                make_url(database_url).set(password=PASSWORD).render_as_string(hide_password=False)
            ),
            "REDIS_URL": redis_server,
            "HEADROOM_ACCESS": "keys",
            "HEADROOM_ACCESS_LOG": "true",
            "HEADROOM_LOG_FORMAT": "json",
            "HEADROOM_LOG_LEVEL": "debug",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        number = listener.fileno()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        running = Service(url=url, key=_make_key(database_url), collector=collector, dir=path)
        commands = {
            "api": ("service", "serve", "--fd", str(number)),
            "reconcile": ("service", "reconcile"),
            "worker": ("worker", "--device", "trace", "--probe-command", make_probe_command()),
        }
        for name, command in commands.items():
            log = stack.enter_context((path / f"{name}.log").open("wb"))
            process = ForkedProgram(*command, env=environment, stderr=log, pass_fds=(number,))
            running.processes[name] = stack.enter_context(process)
            stack.callback(process.terminate)
        yield running


def _make_key(database_url: str) -> str:
    engine = make_engine(
        parse_psycopg_url("DATABASE_URL", database_url), application_name="headroom-test"
    )
    new = NewKey(name="tester", scopes=frozenset({Scope.MEASURE}), created_by="a test")
    key = keys.create(make_sessions(engine), new)[1]
    engine.dispose()
    return key
