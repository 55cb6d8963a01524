"""Rows that cannot be true cannot be stored, whoever writes them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from service.db.tables.base import Base
from service.db.tables.clusters import ClusterNodeRow, ClusterPoolRow, ClusterRow, ReservationRow
from service.db.tables.core import (
    CalibrationRow,
    MeasureJobRow,
    MeasurementEventRow,
    MeasurementResultRow,
)
from service.db.tables.idempotency import IdempotencyRow
from service.db.tables.models import ModelRow
from service.db.tables.workers import WorkerRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(**changes: object) -> MeasureJobRow:
    """Build a queued job that differs from a right one as said."""
    right: dict[str, object] = {"device": "cpu", "request": {}, "key": "k", "deadline_at": NOW}
    return MeasureJobRow(**(right | changes))


def store(sessions: sessionmaker[Session], *rows: Base) -> None:
    """Insert rows in one transaction."""
    with sessions.begin() as session:
        session.add_all(rows)


def refused(sessions: sessionmaker[Session], *rows: Base) -> str:
    """Return the name of the constraint that keeps rows out."""
    with pytest.raises(IntegrityError) as error:
        store(sessions, *rows)
    return str(error.value.orig)


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"state": "paused"}, "ck_measurements_state"),
        ({"device": "tpu"}, "ck_measurements_device"),
        ({"attempt": -1}, "ck_measurements_attempts"),
        ({"max_attempts": 0}, "ck_measurements_attempts"),
        ({"progress": 1.1}, "ck_measurements_progress"),
        ({"progress": float("nan")}, "ck_measurements_progress"),
        ({"state": "running"}, "ck_measurements_only_running_has_a_lease"),
        ({"lease_until": NOW}, "ck_measurements_only_running_has_a_lease"),
        ({"state": "succeeded"}, "ck_measurements_only_terminal_is_finished"),
        ({"finished_at": NOW}, "ck_measurements_only_terminal_is_finished"),
        ({"state": "failed", "finished_at": NOW}, "ck_measurements_only_failed_has_an_error"),
        ({"error": {"type": "x"}}, "ck_measurements_only_failed_has_an_error"),
        ({"deadline_at": None}, "deadline_at"),
    ],
)
def test_impossible_jobs(
    sessions: sessionmaker[Session], changes: Mapping[str, object], constraint: str
) -> None:
    """A job without a lease cannot run, an unfinished one cannot have ended, and only a failure has
    an error.
    """
    assert constraint in refused(sessions, job(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": "running", "lease_until": NOW, "attempt": 1},
        {"state": "succeeded", "finished_at": NOW, "progress": 1.0},
        {"state": "failed", "finished_at": NOW, "error": {"type": "probe-failed"}},
        {"state": "cancelled", "finished_at": NOW},
    ],
)
def test_possible_jobs(sessions: sessionmaker[Session], changes: Mapping[str, object]) -> None:
    """Each state of the contract has a row that can be stored."""
    store(sessions, job(**changes))

    with sessions() as session:
        assert session.query(MeasureJobRow).one().state == changes.get("state", "queued")


def test_one_result_per_job(sessions: sessionmaker[Session]) -> None:
    """Whatever happens to workers, a job has at most one result."""
    job_id = uuid4()
    found: dict[str, object] = {
        "environment": {},
        "peaks": {},
        "instants": [],
        "probes": [],
        "extrapolated": False,
    }
    store(sessions, job(id=job_id))
    store(sessions, MeasurementResultRow(job_id=job_id, attempt=1, **found))

    assert "pk_measurement_results" in refused(
        sessions, MeasurementResultRow(job_id=job_id, attempt=2, **found)
    )


def test_events_are_numbered_once(sessions: sessionmaker[Session]) -> None:
    """Two events of one number would make a replay ambiguous."""
    job_id = uuid4()
    store(sessions, job(id=job_id))
    store(sessions, MeasurementEventRow(job_id=job_id, seq=1, kind="status", data={}))

    assert "pk_measurement_events" in refused(
        sessions, MeasurementEventRow(job_id=job_id, seq=1, kind="progress", data={})
    )
    assert "ck_measurement_events_kind" in refused(
        sessions, MeasurementEventRow(job_id=job_id, seq=2, kind="gossip", data={})
    )
    assert "ck_measurement_events_seq" in refused(
        sessions, MeasurementEventRow(job_id=job_id, seq=0, kind="status", data={})
    )


def test_an_event_belongs_to_a_job(sessions: sessionmaker[Session]) -> None:
    """What a job leaves behind names a job that exists."""
    orphan = MeasurementEventRow(job_id=uuid4(), seq=1, kind="status", data={})

    assert "fk_measurement_events_job_id_measurements" in refused(sessions, orphan)


def test_a_calibration_rests_on_something(sessions: sessionmaker[Session]) -> None:
    """A correction without evidence would be a fudge factor."""
    bare = CalibrationRow(key="k", quantity="allocated", scope={}, correction={}, evidence=[])
    odd = CalibrationRow(key="k", quantity="vibes", scope={}, correction={}, evidence=[uuid4()])

    assert "ck_calibrations_evidence" in refused(sessions, bare)
    assert "ck_calibrations_quantity" in refused(sessions, odd)


def test_an_idempotency_key_waits_for_its_job(sessions: sessionmaker[Session]) -> None:
    """A key may be claimed before its job in one transaction, but not without it."""
    first, second = uuid4(), uuid4()
    store(
        sessions,
        IdempotencyRow(key="a", route="r", body_hash="h", job_id=first, expires_at=NOW),
        job(id=first),
    )

    lonely = IdempotencyRow(key="b", route="r", body_hash="h", job_id=second, expires_at=NOW)
    assert "fk_idempotency_records_job_id_measurements" in refused(sessions, lonely)


def test_workers_are_idle_or_busy_with_something(sessions: sessionmaker[Session]) -> None:
    """A worker that is idle has no job."""
    job_id = uuid4()
    store(sessions, job(id=job_id))
    what: dict[str, object] = {"host": "h", "pid": 1, "devices": [], "versions": {}}

    assert "ck_workers_only_busy_has_a_job" in refused(
        sessions, WorkerRow(name="w", current_job_id=job_id, **what)
    )
    assert "ck_workers_state" in refused(sessions, WorkerRow(name="w", state="asleep", **what))


def test_inventories_hold_counts(sessions: sessionmaker[Session]) -> None:
    """Numbers of GPUs, nodes and bytes are not negative, and names are unique within their cluster
    and pool.
    """
    cluster, pool = uuid4(), uuid4()
    store(sessions, ClusterRow(id=cluster, name="c", version=1))
    store(
        sessions,
        ClusterPoolRow(
            id=pool, cluster_id=cluster, position=0, name="p", gpu="T4", gpus_per_node=8
        ),
    )

    same = ClusterPoolRow(cluster_id=cluster, position=1, name="p", gpu="T4", gpus_per_node=8)
    empty = ClusterPoolRow(cluster_id=cluster, position=1, name="q", gpu="T4", gpus_per_node=0)
    node = ClusterNodeRow(pool_id=pool, position=0, name="n", allocated_gpus=-1, state="ready")
    assert "uq_cluster_pools_cluster_id_name" in refused(sessions, same)
    assert "ck_cluster_pools_gpus_per_node" in refused(sessions, empty)
    cut = ClusterNodeRow(
        pool_id=pool, position=0, name="n", allocated_gpus=0, state="ready", mig_gpus=-1
    )
    disk = ClusterPoolRow(
        cluster_id=cluster, position=1, name="q", gpu="T4", gpus_per_node=1, nvme_bytes=-1
    )
    assert "ck_cluster_nodes_allocated_gpus" in refused(sessions, node)
    assert "ck_cluster_nodes_mig_gpus" in refused(sessions, cut)
    assert "ck_cluster_pools_nvme_bytes" in refused(sessions, disk)


def test_a_reservation_holds_something_for_a_time(sessions: sessionmaker[Session]) -> None:
    """A promise of nothing, one that ended before it was made, and one on no cluster cannot be
    stored.
    """
    cluster = uuid4()
    store(sessions, ClusterRow(id=cluster, name="c", version=1))
    right: dict[str, object] = {
        "cluster_id": cluster,
        "holder": "a",
        "shares": [{}],
        "expires_at": NOW.replace(year=2099),
    }

    assert "ck_reservations_shares" in refused(sessions, ReservationRow(**(right | {"shares": []})))
    assert "ck_reservations_expires_at" in refused(
        sessions, ReservationRow(**(right | {"expires_at": NOW}))
    )
    assert "ck_reservations_scheduler_job" in refused(
        sessions, ReservationRow(**(right | {"scheduler": "slurm"}))
    )
    assert "fk_reservations_cluster_id_clusters" in refused(
        sessions, ReservationRow(**(right | {"cluster_id": uuid4()}))
    )


def test_an_idempotency_key_stands_for_one_thing(sessions: sessionmaker[Session]) -> None:
    """A key that stood for nothing, or for a job and a reservation, would not say what to
    answer.
    """
    both = IdempotencyRow(
        key="a", route="r", body_hash="h", job_id=uuid4(), reservation_id=uuid4(), expires_at=NOW
    )

    assert "ck_idempotency_records_stands_for_one" in refused(sessions, both)
    assert "ck_idempotency_records_stands_for_one" in refused(
        sessions, IdempotencyRow(key="a", route="r", body_hash="h", expires_at=NOW)
    )


def test_names_are_unique(sessions: sessionmaker[Session]) -> None:
    """A name leads to one model."""
    store(sessions, ModelRow(name="m", current_revision=1))

    assert "uq_models_name" in refused(sessions, ModelRow(name="m", current_revision=1))


def test_times_are_utc(sessions: sessionmaker[Session]) -> None:
    """Every time comes back with its zone, whatever the server's is set to."""
    store(sessions, job())

    with sessions() as session:
        assert session.query(MeasureJobRow).one().created_at.tzinfo is not None
        assert str(session.query(MeasureJobRow).one().created_at).endswith("+00:00")
