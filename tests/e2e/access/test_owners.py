"""What a key made belongs to it: another key of its scope leaves it alone."""

import httpx
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.db.tables.clusters import ReservationRow
from service.db.tables.core import MeasureJobRow
from service.usecases.access import keys
from service.usecases.access.keys import NewKey
from tests.e2e.access.conftest import ask, until_known

LAB = {"name": "lab", "pools": [{"name": "a", "gpu": "T4", "num_nodes": 1, "gpus_per_node": 2}]}
RESERVATIONS = "/v1/clusters/lab/reservations"
RESERVATION = {"holder": "x", "gpus": [{"pool": "a", "num_gpus": 1}], "expires_in_s": 600}
JOB = {"model": "gpt2", "device": "cuda", "workload": {"task": "train", "sequence_length": 64}}


def make_named_key(sessions: sessionmaker[Session], address: str, name: str, *scopes: Scope) -> str:
    """Make a key of a name, and wait until the server knows it."""
    new = NewKey(name=name, scopes=frozenset(scopes), created_by="a test")
    key = keys.create(sessions, new)[1]
    until_known(address, key)
    return key


def test_a_key_keeps_what_it_made(address: str, sessions: sessionmaker[Session]) -> None:
    """Its successor and an operator may release, extend, cancel and withdraw it; another may not,
    and hears in words why; what is older than owners is everybody's.
    """
    ann = make_named_key(sessions, address, "ann", Scope.PLAN, Scope.MEASURE)
    bob = make_named_key(sessions, address, "bob", Scope.PLAN, Scope.MEASURE)
    successor = make_named_key(sessions, address, "ann", Scope.PLAN, Scope.MEASURE)
    admin = make_named_key(sessions, address, "operator", Scope.ADMIN)
    ask(address, "POST", "/v1/clusters", admin, json=LAB)
    made = ask(address, "POST", RESERVATIONS, ann, json=RESERVATION)
    old = ask(address, "POST", RESERVATIONS, ann, json=RESERVATION)
    asked = ask(address, "POST", "/v1/measurements", ann, json=JOB)
    other_job = ask(address, "POST", "/v1/measurements", ann, json=JOB)
    path, job_path = made.headers["location"], asked.headers["location"]
    with sessions.begin() as session:
        for row, answer in ((ReservationRow, old), (MeasureJobRow, other_job)):
            session.execute(
                update(row)
                .where(row.id == answer.json()["id"])
                .values(created_by=None, created_by_key=None)
            )
    refused = [
        ask(address, "DELETE", path, bob, if_match="*"),
        ask(address, "PATCH", path, bob, if_match="*", json={"expires_in_s": 9}),
        ask(address, "DELETE", job_path, bob),
        ask(address, "POST", f"{job_path}/withdraw", bob),
    ]
    allowed = [
        ask(address, "PATCH", path, successor, if_match="*", json={"expires_in_s": 900}),
        ask(address, "DELETE", path, admin, if_match="*"),
        ask(address, "DELETE", job_path, successor),
        ask(address, "DELETE", old.headers["location"], bob, if_match="*"),
        ask(address, "DELETE", other_job.headers["location"], bob),
    ]

    assert made.json()["created_by"] == asked.json()["created_by"] == "ann"
    assert [answer.status_code for answer in refused] == [httpx.codes.FORBIDDEN] * 4
    assert refused[0].json()["detail"] == (
        f"reservation {made.json()['id']} was made by 'ann', and 'bob' may not change it; use a "
        "key of that name, or one of scope admin"
    )
    assert refused[2].json()["created_by"] == "ann"
    assert [answer.status_code for answer in allowed] == [200, 204, 200, 204, 200]
