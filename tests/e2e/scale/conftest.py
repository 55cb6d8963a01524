"""Two replicas of the API, a reconcile loop and two workers over one Postgres and one Redis that
somebody else runs.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.db.session import make_engine, make_sessions
from service.runtime.variables import parse_psycopg_url
from service.usecases.access import keys
from service.usecases.access.keys import NewKey
from tests.servers import fresh_database
from tests.system import System, build_environment
from tests.waiting import eventually

NUM_REPLICAS = 2
NUM_WORKERS = 2
START_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The whole: what runs, and one client of each replica that holds the key of an
    administrator.
    """

    system: System
    replicas: tuple[httpx.Client, ...]

    @property
    def sessions(self) -> sessionmaker[Session]:
        """Return sessions on the fleet's database."""
        return self.system.sessions

    def make_key(self, *scopes: Scope, rate: str | None = None) -> str:
        """Make a key and return its text once every replica lets it in."""
        text = keys.create(
            self.sessions,
            NewKey(name="one", scopes=frozenset(scopes), created_by="a test", rate=rate),
        )[1]
        # What it may do with a model that is not there is nobody's limit.
        eventually(
            lambda: all(
                client.get("/v1/keys", headers=bearer(text)).status_code == 403
                for client in self.replicas
            ),
        )
        return text


StartReplica = Callable[[], "tuple[int, httpx.Client]"]


@pytest.fixture(scope="module")
def fleet(
    postgres_server: str,
    redis_server: str,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    """Return a fleet that is ready: both replicas answer, and both workers are known."""
    with ExitStack() as stack:
        database_url = stack.enter_context(fresh_database(postgres_server, migrated_template))
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", database_url), application_name="headroom-test"
        )
        stack.callback(engine.dispose)
        sessions = make_sessions(engine)
        environment = {
            **build_environment(database_url),
            "REDIS_URL": redis_server,
            "HEADROOM_ACCESS": "keys",
        }
        directory = tmp_path_factory.mktemp("fleet")
        # No worker dies here, and a busy machine must not look like one that did.
        environment["HEADROOM_LEASE_S"] = "30"
        system = System(sessions=sessions, environment=environment, dir=directory, stack=stack)
        admin = keys.create(
            sessions, NewKey(name="admin", scopes=frozenset({Scope.ADMIN}), created_by="a test")
        )[1]
        replicas = tuple(start_replica(system, admin)[1] for _ in range(NUM_REPLICAS))
        system.start_reconcile()
        for _ in range(NUM_WORKERS):
            system.start_worker()
        eventually(lambda: all(is_ready(client) for client in replicas), within_s=START_S)
        eventually(
            lambda: len(replicas[0].get("/v1/workers").json()["items"]) == NUM_WORKERS,
            within_s=START_S,
        )
        yield Fleet(system=system, replicas=replicas)


def start_replica(system: System, key: str) -> tuple[int, httpx.Client]:
    """Start one more process of the API; return its id and a client of it alone."""
    listener = system.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    process = system.start_api(listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    # Nobody but the replica listens: when it is gone, its clients are refused at once.
    listener.close()
    client = httpx.Client(base_url=url, headers=bearer(key), timeout=30.0)
    return process.pid, system.stack.enter_context(client)


def is_ready(client: httpx.Client) -> bool:
    """Tell whether a replica answers, and can serve."""
    try:
        return (
            client.get("/readyz").status_code == httpx.codes.OK
            and client.get("/v1/gpus?limit=1").is_success
        )
    except httpx.TransportError:
        return False


def bearer(key: str) -> dict[str, str]:
    """Return the header that carries a key."""
    return {"authorization": f"Bearer {key}"}
