"""Every SQL panel of the dashboards runs, as somebody who may read the views and nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

from service.jobs.contract import ProbeDevice
from service.planner.cluster.inventory import ClusterInventory, Pool
from service.usecases.clusters import clusters
from service.usecases.jobs import workers
from service.usecases.jobs.workers import WorkerInfo
from tests.integration.usecases.learning.builders import a_request, a_result, measure

Sessions = sessionmaker[Session]
DASHBOARDS = sorted(
    (Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "dashboards").glob("*.json")
)
MAY_BE_EMPTY = {"What failed", "Waiting and running"}


def queries(path: Path) -> list[tuple[str, str, str]]:
    """Return title, format and SQL of every panel and variable that asks Postgres."""
    document: dict[str, Any] = json.loads(path.read_text())
    found = [
        (panel["title"], target["format"], target["rawSql"])
        for panel in document["panels"]
        for target in panel.get("targets", ())
        if "rawSql" in target
    ]
    variables = document["templating"]["list"]
    return found + [
        (one["name"], "table", one["query"])
        for one in variables
        if one["type"] == "query" and one["datasource"]["uid"] == "${postgres}"
    ]


def as_grafana_sends_it(sql: str, chosen: str = ".*") -> str:
    """Return a query with its macros and variables replaced; ``chosen`` is what All stands for."""
    sent = re.sub(
        r"\$__timeFilter\((\w+)\)",
        r"\1 BETWEEN now() - interval '1 day' AND now() + interval '1 day'",
        sql,
    )
    return re.sub(r"\$\{\w+:regex\}", chosen, sent)


@pytest.fixture
def _something_of_everything(sessions: Sessions) -> None:
    pools = (Pool(name="a100", gpu="A100-SXM4-80GB", gpus_per_node=8, num_nodes=3),)
    clusters.create(sessions, name="c", inventory=ClusterInventory(pools=pools))
    asked = a_request()
    measure(sessions, asked, a_result(asked, off_by=0.01))
    device = {"device": ProbeDevice.CPU.value, "name": "a processor", "memory_bytes": 5}
    workers.register(sessions, WorkerInfo(name="w", host="h", pid=1, devices=[device], versions={}))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("_something_of_everything")
def test_every_query_has_an_answer(path: Path, engine: Engine) -> None:
    """With one cluster, one measurement and one worker each panel has a row, and a time series has
    its column of times.
    """
    found = queries(path)
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(text("CREATE ROLE reader_of_panels"))
        connection.execute(text("GRANT USAGE ON SCHEMA headroom_reporting TO reader_of_panels"))
        connection.execute(
            text("GRANT SELECT ON ALL TABLES IN SCHEMA headroom_reporting TO reader_of_panels")
        )
        connection.execute(text("SET LOCAL ROLE reader_of_panels"))
        for title, shape, sql in found:
            sent = as_grafana_sends_it(sql)
            assert "$" not in sent.replace(")$'", ""), title
            rows = connection.exec_driver_sql(sent.replace("%", "%%")).mappings().all()
            assert rows or title in MAY_BE_EMPTY, title
            assert shape == "table" or "time" in rows[0], title
            none = connection.exec_driver_sql(
                as_grafana_sends_it(sql, "nothing-like-it").replace("%", "%%")
            ).all()
            assert len(none) <= max(1, len(rows)), title
        transaction.rollback()

    assert found
