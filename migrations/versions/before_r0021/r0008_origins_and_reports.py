"""Origins of measurements, workers' GPU readings, and reporting views.

The views are for people who only read.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "r0008"
down_revision: str | None = "r0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

SCHEMA = "headroom_reporting"

_MEASUREMENTS = """
SELECT m.id, m.state, m.source, m.device, m.gpu, m.model_name, m.family, m.task, m.priority, m.attempt, m.lost_leases, m.worker,
       m.created_at, m.started_at, m.finished_at, m.request_id,
       EXTRACT(epoch FROM COALESCE(m.started_at, m.finished_at, now()) - m.created_at)::double precision AS waited_s,
       EXTRACT(epoch FROM COALESCE(m.finished_at, now()) - m.started_at)::double precision AS ran_s,
       m.error ->> 'type' AS problem, m.error ->> 'detail' AS problem_detail,
       (r.peaks ->> 'allocated_bytes')::bigint AS allocated_bytes,
       (r.peaks ->> 'reserved_bytes')::bigint AS reserved_bytes,
       (r.peaks ->> 'device_bytes')::bigint AS device_bytes,
       (r.peaks ->> 'out_of_memory')::boolean AS out_of_memory,
       (r.step_time ->> 'median')::double precision AS step_time_s,
       r.extrapolated, r.absolute_error, r.calibration_id
FROM measurements m LEFT JOIN measurement_results r ON r.job_id = m.id
"""  # noqa: E501
_PREDICTIONS = """
SELECT job_id, quantity, kind, family, environment, device, gpu, measured_at, level, surprised,
       CASE WHEN quantity = 'step_time' THEN 'nanoseconds' ELSE 'bytes' END AS unit,
       measured, predicted, low, high, after, after_low, after_high,
       predicted::double precision / measured - 1 AS error_before, after::double precision / measured - 1 AS error_after,
       measured BETWEEN low AND high AS inside_before, measured BETWEEN after_low AND after_high AS inside_after,
       (high - low)::double precision / measured AS width_before,
       (after_high - after_low)::double precision / measured AS width_after
FROM residuals
"""  # noqa: E501
_CALIBRATIONS = """
SELECT DISTINCT ON (key, quantity) id, key, quantity, kind, family, environment, scope ->> 'gpu' AS gpu,
       cardinality(evidence) AS num_measurements, created_at,
       EXTRACT(epoch FROM now() - created_at)::double precision AS age_s
FROM calibrations ORDER BY key, quantity, created_at DESC, id DESC
"""  # noqa: E501
# As service.planner.cluster counts (inventory, supply): a node that is drained has none, reserved
# slices are no whole GPUs.
_GPUS = """
WITH promised AS (
    SELECT r.cluster_id, share ->> 'pool' AS pool, share ->> 'node' AS node, sum((share ->> 'num_gpus')::bigint) AS gpus
    FROM reservations r CROSS JOIN LATERAL jsonb_array_elements(r.shares) AS share
    WHERE r.released_at IS NULL AND r.expires_at > now() AND share ->> 'mig_profile' IS NULL
    GROUP BY 1, 2, 3
), nodes AS (
    SELECT p.id AS pool_id, n.name, p.gpus_per_node AS gpus, n.state = 'ready' AS is_ready, n.allocated_gpus AS allocated,
           n.mig_gpus AS mig
    FROM cluster_pools p JOIN cluster_nodes n ON n.pool_id = p.id
    UNION ALL
    SELECT p.id, p.name || '-' || number, p.gpus_per_node, true, 0, 0
    FROM cluster_pools p CROSS JOIN LATERAL generate_series(1, p.num_nodes) AS number
)
SELECT c.name AS cluster, p.name AS pool, p.gpu, count(n.name) AS nodes,
       COALESCE(sum(n.gpus), 0)::bigint AS gpus,
       COALESCE(sum(n.gpus) FILTER (WHERE NOT n.is_ready), 0)::bigint AS drained,
       COALESCE(sum(n.allocated), 0)::bigint AS allocated,
       COALESCE(sum(n.mig), 0)::bigint AS cut_by_mig,
       COALESCE(sum(q.gpus) FILTER (WHERE n.is_ready), 0)::bigint AS reserved,
       COALESCE(sum(GREATEST(0, n.gpus - n.allocated - n.mig - COALESCE(q.gpus, 0))) FILTER (WHERE n.is_ready), 0)::bigint
           AS free,
       c.updated_at
FROM clusters c JOIN cluster_pools p ON p.cluster_id = c.id LEFT JOIN nodes n ON n.pool_id = p.id
     LEFT JOIN promised q ON q.cluster_id = c.id AND q.pool = p.name AND q.node = n.name
GROUP BY c.id, p.id
"""  # noqa: E501
_WORKERS = """
SELECT name, host, state, current_job_id, started_at, last_heartbeat,
       EXTRACT(epoch FROM now() - last_heartbeat)::double precision AS heartbeat_age_s,
       devices #>> '{0,device}' AS device, COALESCE(devices #>> '{0,sku}', devices #>> '{0,name}') AS gpu,
       (devices #>> '{0,memory_bytes}')::bigint AS memory_bytes, devices #>> '{0,driver}' AS driver,
       versions ->> 'torch' AS torch, (observed ->> 'used_bytes')::bigint AS used_bytes,
       (observed ->> 'foreign_processes')::integer AS foreign_processes
FROM workers
"""  # noqa: E501
VIEWS = {
    "measurements": _MEASUREMENTS,
    "predictions": _PREDICTIONS,
    "calibrations": _CALIBRATIONS,
    "gpus": _GPUS,
    "workers": _WORKERS,
}


def upgrade() -> None:
    """Apply."""
    op.add_column("measurements", sa.Column("request_id", sa.Text()))
    op.add_column("measurements", sa.Column("traceparent", sa.Text()))
    op.add_column("workers", sa.Column("observed", postgresql.JSONB()))
    op.execute(f"CREATE SCHEMA {SCHEMA}")
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {SCHEMA}.{name} AS {query}")


def downgrade() -> None:
    """Take back."""
    op.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    op.drop_column("workers", "observed")
    op.drop_column("measurements", "traceparent")
    op.drop_column("measurements", "request_id")
