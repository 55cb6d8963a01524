"""Keys over HTTP: made, used, counted, written down and revoked."""

import httpx
import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.db.tables.access import ApiKeyRow
from service.usecases.access import keys
from service.usecases.access.keys import NewKey
from service.usecases.stored import PageRequest
from tests.e2e.access.conftest import ask, make_key, serving, until_known
from tests.waiting import eventually


def test_a_key_is_made_shown_once_used_and_revoked(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """The whole life of a key over HTTP: what is listed never holds its secret, and its end is at
    once.
    """
    admin = make_key(sessions, Scope.ADMIN)
    until_known(address, admin)
    made = ask(
        address,
        "POST",
        "/v1/keys",
        admin,
        json={"name": "slurm", "scopes": ["plan"], "expires_in_s": 3600},
    )
    key, key_id = made.json()["key"], made.json()["id"]

    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    assert ask(address, "GET", "/v1/models?limit=1", key).status_code == 200
    assert ask(address, "GET", "/v1/keys", key).status_code == 403
    listed = ask(address, "GET", "/v1/keys", admin)
    assert key.split("_", 2)[2] not in listed.text
    assert {item["name"]: item["state"] for item in listed.json()["items"]} == {
        "slurm": "active",
        "admin key": "active",
    }
    assert ask(address, "DELETE", f"/v1/keys/{key_id}", admin).json()["state"] == "revoked"
    assert ask(address, "GET", "/v1/models?limit=1", key).status_code == 401
    assert (
        ask(address, "DELETE", "/v1/keys/00000000-0000-0000-0000-000000000000", admin).status_code
        == 404
    )


def test_another_process_hears_of_a_revocation(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """A key that was revoked elsewhere is shut out by every server."""
    key = make_key(sessions, Scope.READ)
    until_known(address, key)
    (stored,) = keys.read_live_keys(sessions).values()
    keys.revoke(sessions, stored[0].id)

    eventually(lambda: ask(address, "GET", "/v1/gpus?limit=1", key).status_code == 401)


def test_a_scope_of_a_newer_release_grants_nothing(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """It locks nobody out: the key may do what it could, and every other key is read."""
    newer, other = make_key(sessions, Scope.READ), make_key(sessions, Scope.READ)
    until_known(address, newer)
    until_known(address, other)
    prefix = next(iter(keys.read_live_keys(sessions)))
    with sessions.begin() as session:
        session.execute(
            update(ApiKeyRow).where(ApiKeyRow.prefix == prefix).values(scopes=["read", "rule"])
        )

    stored = {prefix: stored for prefix, (stored, _) in keys.read_live_keys(sessions).items()}
    assert [key.scopes for key in stored.values()] == [frozenset({Scope.READ})] * 2
    assert ask(address, "GET", "/v1/gpus?limit=1", other).status_code == 200


def test_a_stream_ends_with_its_key(address: str, sessions: sessionmaker[Session]) -> None:
    """Whoever follows a job with a key that is revoked meanwhile hears no more of it."""
    key = make_key(sessions, Scope.MEASURE)
    until_known(address, key)
    (stored,) = keys.read_live_keys(sessions).values()
    job = {"model": "gpt2", "device": "cuda", "workload": {"task": "train", "sequence_length": 64}}
    path = f"{ask(address, 'POST', '/v1/measurements', key, json=job).headers['location']}/events"
    with (
        httpx.Client(timeout=30, verify=False) as client,  # noqa: S501 - there is no TLS
        client.stream("GET", address + path, headers={"authorization": f"Bearer {key}"}) as stream,
    ):
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event:")) == "event: status"
        keys.revoke(sessions, stored[0].id)

        assert not any(line.startswith("event:") for line in lines)


def test_the_use_of_a_key_is_written_down(address: str, sessions: sessionmaker[Session]) -> None:
    """Somebody who wants to know which keys are still needed can see it."""
    key = make_key(sessions, Scope.READ)
    until_known(address, key)

    eventually(
        lambda: next(iter(keys.read_live_keys(sessions).values()))[0].last_used_at is not None
    )


def test_changes_are_written_down(address: str, sessions: sessionmaker[Session]) -> None:
    """Who changed what, refused or not, is kept in order; questions are not."""
    admin, reader = make_key(sessions, Scope.ADMIN), make_key(sessions, Scope.READ)
    until_known(address, reader)
    until_known(address, admin)
    ask(address, "GET", "/v1/clusters", admin)
    # What is refused is written down once it is answered: what comes next might be sooner.
    ask(address, "DELETE", "/v1/clusters/none", reader)
    eventually(lambda: len(ask(address, "GET", "/v1/audit", admin).json()["items"]) == 1)
    ask(address, "DELETE", "/v1/clusters/none", admin)
    eventually(lambda: len(ask(address, "GET", "/v1/audit", admin).json()["items"]) == 2)
    items = ask(address, "GET", "/v1/audit", admin).json()["items"]

    assert [(item["principal"], item["operation"], item["status"]) for item in items] == [
        ("admin key", "deleteCluster", 404),
        ("read key", "deleteCluster", 403),
    ]
    assert all(
        item["path"] == "/v1/clusters/none" and item["peer"] == "127.0.0.1" for item in items
    )


def test_a_change_outlives_the_process_that_made_it(
    sessions: sessionmaker[Session],
    database_url: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever kills the server after the answer does not take the row of the change with it."""
    monkeypatch.setattr(keys, "record_change", lambda _sessions, _event: None)
    environment = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HEADROOM_ACCESS": "keys"}
    admin = make_key(sessions, Scope.ADMIN)
    pool = {"name": "p", "gpu": "H200", "gpus_per_node": 8, "num_nodes": 1}
    unneeded = keys.create(
        sessions, NewKey(name="old", scopes=frozenset({Scope.READ}), created_by="t")
    )[0]
    workload = {"task": "train", "sequence_length": 64}
    job = {"model": "gpt2", "device": "trace", "workload": workload}
    changes = {
        "createCluster": ("POST", "/v1/clusters", {"name": "c", "pools": [pool]}),
        "revokeKey": ("DELETE", f"/v1/keys/{unneeded.id}", None),
        "createKey": ("POST", "/v1/keys", {"name": "k", "scopes": ["read"]}),
        "createMeasurement": ("POST", "/v1/measurements", job),
    }

    with serving(environment) as address:
        until_known(address, admin)
        answers = [
            ask(address, method, path, admin, json=body) for method, path, body in changes.values()
        ]
    items = keys.list_changes(sessions, PageRequest()).items

    assert [(item.event.operation, item.event.status) for item in reversed(items)] == [
        (operation, answer.status_code) for operation, answer in zip(changes, answers, strict=True)
    ]
    assert all(answer.is_success for answer in answers), [answer.text for answer in answers]


def test_a_rate_is_kept_over_all_processes(
    address: str, sessions: sessionmaker[Session], database_url: str, redis_server: str
) -> None:
    """Past its limit a key is told when to come again, whichever server it asks; others are not
    held up.
    """
    limited, free = make_key(sessions, Scope.READ, rate="3/hour"), make_key(sessions, Scope.READ)
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server,
        "HEADROOM_ACCESS": "keys",
    }
    with serving(environment) as other:
        until_known(address, free)
        until_known(other, free)
        statuses = [
            ask(at, "GET", "/v1/gpus?limit=1", limited).status_code
            for at in (address, other, address, other)
        ]
        answer = ask(address, "GET", "/v1/gpus?limit=1", limited)

        assert statuses == [200, 200, 200, 429]
        assert answer.json()["type"] == "too-many-requests"
        assert 0 < int(answer.headers["retry-after"]) <= 3600
        assert ask(other, "GET", "/v1/gpus?limit=1", free).status_code == 200


def test_a_quota_counts_measurements_that_are_asked_for(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """A refused request costs nothing, the quota's last measurement is taken, and the next one is
    told when to come again.
    """
    key = make_key(sessions, Scope.MEASURE, quota="1/day")
    until_known(address, key)
    asked = {"model": "gpt2", "device": "cpu", "workload": {"task": "train", "sequence_length": 64}}
    refused = {**asked, "device": "abacus"}
    statuses = [
        ask(address, "POST", "/v1/measurements", key, json=body).status_code
        for body in (refused, asked, asked)
    ]

    assert statuses == [422, 202, 429]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"x-forwarded-for": "203.0.113.9"}, "through a proxy"),
        ({"host": "rebound.example"}, "rebound.example"),
        ({"via": "1.1 proxy"}, "through a proxy"),
        ({"x-forwarded-proto": "https"}, "through a proxy"),
        ({"host": ""}, "meant for ''"),
        ({"sec-fetch-site": "cross-site"}, "another site's page"),
        ({"sec-fetch-site": "same-site"}, "another site's page"),
        ({"origin": "http://evil.example"}, "another site's page"),
        ({"origin": "http://localhost:3000"}, "another site's page"),
    ],
)
def test_a_local_server_needs_no_key_of_local_programs_only(
    database_url: str, headers: dict[str, str], reason: str
) -> None:
    """On loopback nobody needs a key, and what comes through a proxy, by a rebound name or from a
    web page is not local.
    """
    with serving({"DATABASE_URL": database_url}) as address:
        assert ask(address, "GET", "/v1/gpus?limit=1").status_code == 200
        answer = httpx.get(f"{address}/v1/gpus", headers=headers)

        assert answer.status_code == 401
        assert reason in answer.json()["detail"]
