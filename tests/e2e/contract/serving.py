"""A server that lets in holders of keys only, over a Postgres and a Redis of its own, for runs by
hand.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.access.keys import Scope
from service.db.migrate import upgrade
from service.db.session import make_engine, make_sessions
from service.embedded.postgres import run_postgres
from service.embedded.redis import run_redis
from service.runtime.variables import parse_psycopg_url
from tests.e2e.access.conftest import make_key, serving, until_known


@contextmanager
def guarded_server() -> Iterator[tuple[str, str]]:
    """Yield the address of a new server and the key of an admin."""
    with (
        tempfile.TemporaryDirectory(prefix="headroom-") as root,
        run_postgres(Path(root) / "pg") as database_url,
        run_redis(Path(root) / "redis") as redis_url,
    ):
        upgrade(database_url)
        environment = {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "HEADROOM_ACCESS": "keys",
        }
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", database_url), application_name="headroom-contract"
        )
        with serving(environment) as address:
            key = make_key(make_sessions(engine), Scope.ADMIN)
            until_known(address, key)
            yield address, key
        engine.dispose()
