"""A rolling upgrade: the database is migrated first, and processes of the version before go on
until each is replaced.
"""

import ast
from pathlib import Path

import psycopg
import pytest
from litestar.testing import TestClient

from service.app import create_app
from service.runtime.settings import Settings
from tests.e2e.cli.conftest import headroom

MIGRATIONS = sorted(
    (Path(__file__).resolve().parents[3] / "migrations" / "versions").rglob("r*.py")
)
TAKES_AWAY = {"drop_table", "drop_column", "rename_table"}


def calls_of(path: Path) -> list[ast.Call]:
    """Return the operations of a migration's way up."""
    module = ast.parse(path.read_text())
    (up,) = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "upgrade"
    ]
    return [
        node
        for node in ast.walk(up)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.stem)
def test_a_migration_takes_nothing_away(path: Path) -> None:
    """What the version before reads is still there, and what it writes is still enough: a new
    column has a value by itself.
    """
    for call in calls_of(path):
        assert isinstance(call.func, ast.Attribute)
        assert call.func.attr not in TAKES_AWAY, f"{path.name}, line {call.lineno}"
        if call.func.attr == "add_column":
            said = {
                keyword.arg: ast.unparse(keyword.value)
                for keyword in ast.walk(call)
                if isinstance(keyword, ast.keyword)
            }
            assert said.get("nullable", "True") == "True" or "server_default" in said, (
                f"{path.name}, line {call.lineno}"
            )


@pytest.mark.parametrize(("revision", "status"), [("r9999", 200), ("r0001", 503)])
def test_a_process_serves_a_later_schema_and_no_earlier_one(
    database_url: str, revision: str, status: int
) -> None:
    """While an upgrade is rolled out old processes stay ready; one that was started before the
    migration does not begin.
    """
    stamp(database_url, revision)
    with TestClient(
        create_app(Settings.from_env({"DATABASE_URL": database_url, "HEADROOM_ACCESS": "open"}))
    ) as client:
        ready = client.get("/readyz")
        stored = client.post("/v1/clusters", json={"name": "lab", "pools": [pool()]})

    assert ready.status_code == status
    assert (ready.json()["database"] == "ok") is (status == 200)
    assert stored.status_code == 201


def test_an_old_version_does_not_migrate_a_later_schema(database_url: str) -> None:
    """It says which one has to be installed, and changes nothing."""
    stamp(database_url, "r9999")
    process = headroom("migrate", DATABASE_URL=database_url)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "a later version has migrated it" in told


def stamp(database_url: str, revision: str) -> None:
    """Say of a database that it is at a revision."""
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


def pool() -> dict[str, object]:
    """Return the least that a cluster is made of."""
    return {"name": "a", "gpu": "T4", "num_nodes": 1, "gpus_per_node": 1}
