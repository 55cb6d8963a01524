"""The guide's commands for backup and restore, run as they are written."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import psycopg
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.db.migrate import upgrade
from service.embedded.postgres import run_postgres
from tests.e2e.access.conftest import ask, make_key, serving, until_known
from tests.integration.usecases.learning.builders import a_request, a_result, measure
from tests.job_builders import TINY_LLAMA, an_artifact
from tests.running.folders import make_folder
from tests.running.forked import put_on_path

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "operating.md").read_text()
LAB = {"name": "lab", "pools": [{"name": "a", "gpu": "T4", "num_nodes": 1, "gpus_per_node": 2}]}
QUESTION = {"workload": {"task": "train", "sequence_length": 64}, "gpu": "A100-SXM4-80GB"}
Json = dict[str, Any]


def commands_under(heading: str) -> list[str]:
    """Return what the guide says to type under a heading."""
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL)
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def type_in(command: str, directory: Path, **environment: str) -> None:
    """Run a command of the guide as a person would."""
    path = f"{put_on_path()}:{os.environ['PATH']}"
    subprocess.run(  # noqa: S602 - the guide's own words
        command,
        shell=True,
        cwd=directory,
        env={**os.environ, "PATH": path, **environment},
        check=True,
    )


def stored(address: str, key: str) -> Json:
    """Return everything that a server tells of what it keeps, and two of its answers."""
    paths = (
        "models/kept",
        "clusters/lab",
        "measurements",
        "calibrations",
        "audit",
        "keys",
        "accuracy",
    )
    told = {path: ask(address, "GET", f"/v1/{path}", key).json() for path in paths}
    told["fit"] = ask(address, "POST", "/v1/fit", key, json={**QUESTION, "model": "kept"}).json()
    return told


def test_what_is_restored_answers_as_before(
    sessions: sessionmaker[Session], database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """Models, clusters, measurements, what they taught, keys and changes; and the restored one goes
    on.
    """
    key = make_key(sessions, Scope.ADMIN)
    request = a_request()
    measured = measure(sessions, request, a_result(request, off_by=0.1), artifacts=[an_artifact()])
    with serving({"DATABASE_URL": database_url, "HEADROOM_ACCESS": "keys"}) as address:
        until_known(address, key)
        made = [
            ask(
                address,
                "POST",
                "/v1/models",
                key,
                json={"name": "kept", "source": {"hf_config": TINY_LLAMA}},
            ),
            ask(address, "POST", "/v1/clusters", key, json=LAB),
        ]
        before = stored(address, key)
    back_up, restore = commands_under("Backup and restore")
    type_in(back_up, tmp_path, DATABASE_URL=database_url)
    type_in(restore, tmp_path, DATABASE_URL=empty_database_url)
    with serving({"DATABASE_URL": empty_database_url, "HEADROOM_ACCESS": "keys"}) as address:
        until_known(address, key)
        after = stored(address, key)
        file = ask(address, "GET", f"/v1/measurements/{measured.id}/artifacts/memory_snapshot", key)
        again = ask(
            address,
            "PUT",
            "/v1/models/kept",
            key,
            json={"name": "kept", "source": {"hf_config": TINY_LLAMA}},
        )

    assert [answer.status_code for answer in made] == [201, 201], [answer.text for answer in made]
    assert before["fit"]["basis"] == "measured"
    assert len(before["measurements"]["items"]) == len(before["calibrations"]["items"]) == 1
    assert {**after, "keys": None} == {**before, "keys": None}
    assert file.content == b"history"
    assert [item["prefix"] for item in after["keys"]["items"]] == [
        item["prefix"] for item in before["keys"]["items"]
    ]
    # Somebody who has seen nothing must not overwrite: the restored server keeps its rules.
    assert again.status_code == httpx.codes.PRECONDITION_REQUIRED


def test_a_data_directory_is_backed_up_and_restored_elsewhere(tmp_path: Path) -> None:
    """Without a server at DATABASE_URL the embedded one is started for as long as it takes."""
    with make_folder() as folder:
        with run_postgres(folder / "first") as url:
            upgrade(url)
            with psycopg.connect(url) as connection:
                connection.execute(
                    "INSERT INTO retired_models (name, last_revision) VALUES ('old', 7)"
                )
            back_up, restore = commands_under("Backup and restore")
            type_in(back_up, tmp_path, HEADROOM_DATA_DIR=str(folder / "first"))
        type_in(restore, tmp_path, HEADROOM_DATA_DIR=str(folder / "second"))
        with run_postgres(folder / "second") as url, psycopg.connect(url) as connection:
            found = connection.execute("SELECT name, last_revision FROM retired_models").fetchall()

    assert found == [("old", 7)]
