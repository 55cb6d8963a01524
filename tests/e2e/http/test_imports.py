"""Measurements of the field over HTTP: imported, listed, sorted, and as a table."""

import base64
import csv
import io
import pickle
from typing import Any

import httpx

from service.api.resources.measurements.imports import EXAMPLE
from tests.unit.formats.measured.reading_samples import sample
from tests.unit.formats.measured.test_snapshot import SMALL

Json = dict[str, Any]
URL = "/v1/measurements/import"
SERVING = {
    "model": "llama-3.1-8b",
    "gpu": "H100-SXM5-80GB",
    "workload": {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": 32,
        "prompt_tokens": 1024,
        "output_tokens": 256,
    },
}


def imported(client: httpx.Client, **body: object) -> Json:
    """Import a file and return the answer."""
    answer = client.post(URL, json={**EXAMPLE, **body})
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


def test_a_file_is_shown_then_stored_once(client: httpx.Client) -> None:
    """Dry run first, which is the default; then 201; then 200, since nothing is new."""
    shown = imported(client)
    stored = client.post(URL, json={**EXAMPLE, "dry_run": False})
    again = imported(client, dry_run=False)

    assert (shown["dry_run"], shown["num_stored"], shown["items"][0]["status"]) == (True, 0, "new")
    assert (stored.status_code, stored.json()["items"][0]["status"]) == (201, "stored")
    assert (again["num_stored"], again["items"][0]["status"]) == (0, "known")
    found = client.get(f"/v1/measurements/{again['items'][0]['id']}").json()
    assert (found["source"], found["status"], found["phase"], found["task"]) == (
        "import",
        "succeeded",
        "imported",
        "train",
    )
    assert found["prediction"] == shown["items"][0]["prediction"]
    assert found["readings"][0]["place"]["job"] == "18194943"
    assert client.delete(f"/v1/measurements/{found['id']}").status_code == 409


def test_a_snapshot_and_a_log_are_read(client: httpx.Client) -> None:
    """A pickle comes in base64; a log settles lengths and the version."""
    body = base64.b64encode(pickle.dumps(SMALL)).decode()
    request = {name: value for name, value in EXAMPLE.items() if name != "content"}
    snapshot = client.post(URL, json={**request, "content_base64": body}).json()
    log = imported(client, content=sample("vllm_0_19.log").decode(), **SERVING)

    assert (snapshot["format"], snapshot["items"][0]["peaks"]["allocated_bytes"]) == (
        "snapshot",
        1024 + (4 << 20),
    )
    [item] = log["items"]
    assert item["peaks"]["engine"]["kv_pool_tokens"] == 476032
    assert "engine_version = 0.19.0, as the log says" in item["notes"]


def test_a_contradiction_is_told_and_nothing_is_stored(client: httpx.Client) -> None:
    """A dry run says it of the item, a commit as a problem."""
    body = {**EXAMPLE, "content": sample("vllm_0_19.log").decode()}
    shown, refused = client.post(URL, json=body), client.post(URL, json={**body, "dry_run": False})

    assert shown.json()["items"][0]["status"] == "refused"
    assert (refused.status_code, refused.json()["type"]) == (422, "import-refused")
    assert refused.json()["errors"][0]["field"] == "items[0]"
    assert client.get("/v1/measurements").json()["items"] == []


def test_a_table_is_json_or_csv(client: httpx.Client) -> None:
    """The same columns, sorted by error, all of it or page by page."""
    for amount in ("20000M", "30000M", "40000M"):
        content = str(EXAMPLE["content"]).replace("38888M", amount).replace("18194943", amount[:5])
        imported(client, content=content, dry_run=False)
    first = client.get(
        "/v1/measurements", params={"format": "rows", "sort": "-error", "limit": 2}
    ).json()
    rest = client.get(
        "/v1/measurements",
        params={"format": "rows", "sort": "-error", "cursor": first["next_cursor"]},
    ).json()
    table = client.get(
        "/v1/measurements", params={"sort": "-error"}, headers={"accept": "text/csv"}
    )
    rows = list(csv.DictReader(io.StringIO(table.text)))

    items = first["items"] + rest["items"]
    assert (len(first["items"]), rest["next_cursor"]) == (2, None)
    assert [abs(item["device_error"]) for item in items] == sorted(
        (abs(item["device_error"]) for item in items), reverse=True
    )
    assert table.headers["content-type"].startswith("text/csv")
    assert list(rows[0]) == first["columns"] == list(items[0])
    assert [row["id"] for row in rows] == [item["id"] for item in items]
    assert [int(row["device_bytes"]) for row in rows] == [item["device_bytes"] for item in items]
    bounded = client.get(
        "/v1/measurements", params={"error_at_least": 0.5, "source": "import", "family": "llama"}
    ).json()
    assert len(bounded["items"]) == sum(abs(item["device_error"]) >= 0.5 for item in items)


def test_an_import_is_taken_back_and_may_come_again(client: httpx.Client) -> None:
    """A withdrawn one stays readable and says so, a second time as well; the same file is new
    afterwards.
    """
    first = imported(client, dry_run=False, environment={"driver": "withdrawn"})["items"][0]["id"]
    answers = [client.post(f"/v1/measurements/{first}/withdraw") for _ in range(2)]
    again = imported(client, dry_run=False, environment={"driver": "withdrawn"})["items"][0]

    assert [(one.status_code, one.json()["status"], one.json()["phase"]) for one in answers] == [
        (200, "cancelled", "withdrawn")
    ] * 2
    assert (again["status"], again["id"] != first) == ("stored", True)
    assert any(note.startswith("corrects no answer") for note in again["notes"])
    assert client.post("/v1/measurements/nobody/withdraw").status_code == 404
