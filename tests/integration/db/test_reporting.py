"""The views for people who only read: they say what the service says."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from service.jobs.contract import ProbeDevice
from service.planner.cluster.inventory import ClusterInventory, MigSlices, Node, NodeState, Pool
from service.planner.cluster.reservation import Share
from service.usecases.clusters import clusters, reservations
from service.usecases.clusters.reservations import NewReservation
from service.usecases.jobs import workers
from service.usecases.jobs.workers import WorkerInfo
from tests.integration.usecases.learning.builders import a_request, a_result, measure

Sessions = sessionmaker[Session]
INVENTORY = ClusterInventory(
    pools=(
        Pool(
            name="a100",
            gpu="A100-SXM4-80GB",
            gpus_per_node=8,
            nodes=(
                Node(name="n1"),
                Node(name="n2", allocated_gpus=3),
                Node(name="n3", state=NodeState.DRAINED),
                Node(
                    name="n4",
                    mig_gpus=1,
                    mig_slices=(MigSlices(profile="1g.10gb", total=7, allocated=2),),
                ),
            ),
        ),
        Pool(name="l4", gpu="L4", gpus_per_node=2, num_nodes=3),
    ),
)


def rows(engine: Engine, view: str, order: str = "1") -> list[dict[str, Any]]:
    """Return every row of a view."""
    with engine.connect() as connection:
        found = connection.execute(
            text(f"SELECT * FROM headroom_reporting.{view} ORDER BY {order}")  # noqa: S608 - ours
        )
        return [dict(row) for row in found.mappings()]


def test_gpus_are_counted_as_the_planner_counts(engine: Engine, sessions: Sessions) -> None:
    """Free, reserved and all GPUs of each pool are those of the cluster's supply, slices of MIG and
    drained nodes included.
    """
    clusters.create(sessions, name="c", inventory=INVENTORY)
    shares = (
        Share(pool="a100", node="n2", num_gpus=4),
        Share(pool="a100", node="n4", num_gpus=1, mig_profile="1g.10gb"),
        Share(pool="l4", node="l4-2", num_gpus=1),
    )
    reservations.reserve(
        sessions,
        "c",
        NewReservation(holder="alice", gpus=shares, expires_in=timedelta(hours=1)),
        idempotency=None,
    )

    found = {row["pool"]: row for row in rows(engine, "gpus")}

    for pool in reservations.read_supply(sessions, "c").pools:
        row = found[pool.pool.name]
        assert (row["free"], row["reserved"], row["gpus"]) == (
            pool.free_gpus,
            pool.reserved_gpus,
            pool.pool.total_gpus,
        )
    assert (found["a100"]["drained"], found["a100"]["cut_by_mig"], found["a100"]["allocated"]) == (
        8,
        1,
        3,
    )
    assert (found["l4"]["free"], found["l4"]["nodes"]) == (5, 3)


def test_a_measurement_stands_beside_its_prediction(engine: Engine, sessions: Sessions) -> None:
    """What was measured, what had been predicted, and the calibration that came of it are one row
    each.
    """
    asked = a_request()
    stored = measure(sessions, asked, a_result(asked, off_by=0.01))

    (measurement,) = rows(engine, "measurements")
    predictions = {row["quantity"]: row for row in rows(engine, "predictions", "quantity")}
    calibrations = {row["quantity"]: row for row in rows(engine, "calibrations", "quantity")}

    assert stored.result is not None
    assert (measurement["id"], measurement["state"]) == (stored.id, "succeeded")
    assert measurement["allocated_bytes"] == stored.result.peaks["allocated_bytes"]
    allocated = predictions["allocated"]
    assert allocated["measured"] == measurement["allocated_bytes"]
    assert allocated["error_before"] == pytest.approx(
        allocated["predicted"] / allocated["measured"] - 1
    )
    assert calibrations["allocated"]["num_measurements"] == 1


def test_a_worker_is_one_row(engine: Engine, sessions: Sessions) -> None:
    """Its device, memory and heartbeat can be read without knowing how they are kept."""
    device = {
        "device": ProbeDevice.CUDA.value,
        "sku": "H200",
        "name": "NVIDIA H200",
        "memory_bytes": 5,
        "driver": "580.1",
    }
    info = WorkerInfo(name="w", host="h", pid=1, devices=[device], versions={"torch": "2.13.0"})
    workers.register(sessions, info)

    (row,) = rows(engine, "workers")

    assert (row["device"], row["gpu"], row["memory_bytes"], row["driver"], row["torch"]) == (
        "cuda",
        "H200",
        5,
        "580.1",
        "2.13.0",
    )
    assert row["heartbeat_age_s"] < 60


def test_a_reader_may_read_the_views_and_nothing_else(engine: Engine) -> None:
    """The grants that the documentation names open the views; keys and requests stay closed."""
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(text("CREATE ROLE reader_of_views"))
        connection.execute(text("GRANT USAGE ON SCHEMA headroom_reporting TO reader_of_views"))
        connection.execute(
            text("GRANT SELECT ON ALL TABLES IN SCHEMA headroom_reporting TO reader_of_views")
        )
        connection.execute(text("SET ROLE reader_of_views"))
        counted = connection.execute(
            text("SELECT count(*) FROM headroom_reporting.measurements")
        ).scalar_one()
        with pytest.raises(DBAPIError, match="permission denied"):
            connection.execute(text("SELECT * FROM public.api_keys"))
        transaction.rollback()

    assert counted == 0
