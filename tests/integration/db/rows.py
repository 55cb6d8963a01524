"""A row or more in every table, with what a file format may stumble over."""

import psycopg

ODD = "a\\tab\\\\N \t line\nnext\r ümläut 💾"
JOB, MODEL, CLUSTER, POOL = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "1234")
DIGEST = "0" * 64
STATEMENTS = (
    """INSERT INTO api_keys (id, name, prefix, digest, scopes, created_by)
    VALUES (gen_random_uuid(), 'ann', 'p', sha256('x'), '["plan"]', %(odd)s)""",
    """INSERT INTO audit_events (id, principal, operation, method, path, status, request_id, peer)
    SELECT gen_random_uuid(), %(odd)s, 'o', 'GET', '', 200, 'r', CASE number WHEN 1 THEN '' END
    FROM generate_series(1, 3) AS number""",
    """INSERT INTO measurements (id, device, request, key, deadline_at)
    VALUES (%(job)s, 'cpu', jsonb_build_object('odd', %(odd)s::text), 'k', 'infinity')""",
    """INSERT INTO calibrations (id, key, quantity, scope, correction, evidence)
    VALUES (gen_random_uuid(), 'k', 'allocated', '{}', '{"a": 0.1}', ARRAY[%(job)s::uuid])""",
    """INSERT INTO clusters (id, name, version) VALUES (%(cluster)s, 'lab', 1)""",
    """INSERT INTO cluster_pools (id, cluster_id, position, name, gpu, gpus_per_node)
    VALUES (%(pool)s, %(cluster)s, 0, 'a', 'T4', 2)""",
    """INSERT INTO cluster_nodes (id, pool_id, position, name, allocated_gpus, state)
    VALUES (gen_random_uuid(), %(pool)s, 0, 'n', 0, 'ready')""",
    """INSERT INTO reservations (id, cluster_id, holder, shares, expires_at)
    VALUES (gen_random_uuid(), %(cluster)s, %(odd)s, '[1]', 'infinity')""",
    """INSERT INTO models (id, name, current_revision) VALUES (%(model)s, 'm', 1)""",
    """INSERT INTO retired_models (name, last_revision) VALUES ('old', 7)""",
    """INSERT INTO recordings (digest, packed) VALUES (%(digest)s, '\\x00ff0a5c')""",
    """INSERT INTO config_recordings (config_digest, job_id, digest)
    VALUES (%(digest)s, %(job)s, %(digest)s)""",
    """INSERT INTO model_revisions (id, model_id, number, source, architecture, family, fingerprint,
    num_parameters, num_active_parameters, num_embedding_parameters, parameters_by_module,
    config_digest) VALUES (gen_random_uuid(), %(model)s, 1, '{}', '{}', 'f', '', 0, 0, 0, '{}',
    %(digest)s)""",
    """INSERT INTO measurement_artifacts (job_id, name, attempt, media_type, bytes, sha256, packed)
    VALUES (%(job)s, 'a', 1, 't', 1, %(digest)s, decode(repeat('000a5c', 500000), 'hex'))""",
    """INSERT INTO measurement_claims (job_id, source, state) VALUES (%(job)s, 'ann', 'held')""",
    """INSERT INTO measurement_events (job_id, seq, kind, data)
    VALUES (%(job)s, 1, 'status', '{}')""",
    """INSERT INTO measurement_results (job_id, attempt, environment, peaks, instants, probes,
    extrapolated, prediction, calibration_id)
    SELECT %(job)s, 1, '{}', '{}', '[]', '[]', false, '{"error": -0.25}', id FROM calibrations""",
    """INSERT INTO measurement_samples (job_id, attempt, seq, t_s, kind, bytes)
    SELECT %(job)s, 1, number, number / 3.0, 'device', number
    FROM generate_series(1, 1000) AS number""",
    """INSERT INTO residuals (job_id, quantity, curve, kind, family, environment, device, measured,
    predicted, after, level)
    VALUES (%(job)s, 'allocated', '', '', '', '', 'cpu', 1, 2, 3, 'none')""",
    """INSERT INTO workers (name, host, pid, devices, versions, current_job_id, state)
    VALUES ('w', 'h', 1, '[]', '{}', %(job)s, 'busy')""",
    """INSERT INTO hook_questions (digest, document, last_at)
    VALUES (repeat('0', 32), '{}', now())""",
    """INSERT INTO hook_decisions (id, created_at, last_at, num_times, door, mode, principal,
    request_id, digest, verdict, action, sentence)
    VALUES (gen_random_uuid(), now(), now(), 1, 'slurm', 'warn', 'ann', 'r', repeat('0', 32),
    'fits', 'allow', %(odd)s)""",
    """INSERT INTO idempotency_records (key, route, body_hash, job_id, expires_at)
    VALUES ('k', 'r', 'b', %(job)s, 'infinity')""",
)


def fill_every_table(url: str) -> None:
    """Insert rows into every table of a database."""
    values = {
        "odd": ODD,
        "job": JOB,
        "model": MODEL,
        "cluster": CLUSTER,
        "pool": POOL,
        "digest": DIGEST,
    }
    with psycopg.connect(url) as connection:
        for statement in STATEMENTS:
            connection.execute(statement, values)
