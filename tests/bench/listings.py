"""Benchmark of listings of many measurements: ``python -m tests.bench.listings``.

It times pages in every order, and the CSV.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from service.catalog.models import load_architecture, load_config, resolve_model
from service.contract.to_answer.formats.csv_tables import render_csv
from service.contract.to_answer.measurement_rows import build_row
from service.db.migrate import upgrade
from service.db.session import make_engine, make_sessions
from service.embedded.postgres import run_postgres
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import MeasureRequest, ModelSource, ProbeDevice, make_document, make_task
from service.usecases.jobs import measurements
from service.usecases.stored import MeasurementFilter, MeasurementSort, PageRequest, Sessions

GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200", "L4", "T4")
FILL = """
INSERT INTO measurements (id, source, import_hash, state, device, gpu, model_name, request, key, created_at, finished_at,
                          deadline_at, progress, phase)
SELECT gen_random_uuid(), CASE WHEN n % 4 = 0 THEN 'import' ELSE 'probe' END, CASE WHEN n % 4 = 0 THEN n::text END, 'succeeded',
       CASE WHEN n % 4 = 0 THEN 'cuda' ELSE 'trace' END, (CAST(:gpus AS text[]))[1 + n % 5], 'model-' || n % 97,
       CAST(:request AS jsonb), 'k' || n % 1000, now() - make_interval(secs => n), now(), now(), 1, 'done'
FROM generate_series(1, :rows) AS n
"""  # noqa: E501
RESULTS = """
INSERT INTO measurement_results (job_id, attempt, environment, peaks, instants, probes, prediction, extrapolated)
SELECT id, 1, '{"torch": "2.13.0", "gpu": "NVIDIA H200"}', '{"allocated_bytes": 1000, "out_of_memory": false}', '[]', '[]',
       jsonb_build_object('allocated_bytes', 1000, 'error', random() - 0.5), false
FROM measurements
"""  # noqa: E501
LISTINGS: tuple[tuple[str, MeasurementFilter, MeasurementSort], ...] = (
    ("newest first", MeasurementFilter(), MeasurementSort.NEWEST),
    ("one model of 97", MeasurementFilter(model="model-13"), MeasurementSort.NEWEST),
    (
        "one GPU of 5, imports",
        MeasurementFilter(gpu="H200", source="import"),
        MeasurementSort.NEWEST,
    ),
    ("a family that nobody measured", MeasurementFilter(family="t5"), MeasurementSort.NEWEST),
    ("worst first", MeasurementFilter(), MeasurementSort.WORST),
    (
        "errors of 0.2 to 0.21, best first",
        MeasurementFilter(error_at_least=0.2, error_at_most=0.21),
        MeasurementSort.BEST,
    ),
    ("one model, worst first", MeasurementFilter(model="model-13"), MeasurementSort.WORST),
)


def main() -> None:
    """Print the times of each listing, and of the full CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    with (
        tempfile.TemporaryDirectory(prefix="headroom-") as folder,
        run_postgres(Path(folder)) as url,
    ):
        upgrade(url)
        engine = make_engine(url, application_name="headroom-bench")
        sessions = make_sessions(engine)
        _fill(sessions, rows)
        Console().print(_time_pages(sessions, rows))
        Console().print(_time_csv(sessions))
        engine.dispose()


def _fill(sessions: Sessions, rows: int) -> None:
    entry = resolve_model("llama-3.2-1b")
    architecture = load_architecture(entry).describe()
    request = MeasureRequest(
        model=ModelSource(
            architecture=architecture,
            hf_config=dict(load_config(entry)),
            name=entry.name,
            revision=1,
        ),
        task=make_task(TrainWorkload(sequence_length=2048)),
        layout=Layout(),
        device=ProbeDevice.CUDA,
    )
    with sessions.begin() as session:
        document = json.dumps(make_document(request))
        session.execute(text("SET LOCAL statement_timeout = 0"))
        session.execute(text(FILL), {"gpus": list(GPUS), "request": document, "rows": rows})
        session.execute(text(RESULTS))
        session.execute(text("ANALYZE measurements, measurement_results"))


def _time_pages(sessions: Sessions, rows: int) -> Table:
    table = Table(
        "list",
        "first page ms",
        "tenth page ms",
        "rows of a table ms",
        title=f"Pages of 50 out of {rows:,}",
    )
    for title, filters, sort in LISTINGS:
        cursor = None
        for _ in range(9):
            page = measurements.list_page(sessions, PageRequest(cursor=cursor), filters, sort)
            cursor = page.next_cursor
        first = partial(measurements.list_page, sessions, PageRequest(), filters, sort)
        later = partial(measurements.list_page, sessions, PageRequest(cursor=cursor), filters, sort)
        lines = partial(measurements.list_lines, sessions, PageRequest(), filters, sort)
        table.add_row(title, *(f"{_measure_median_ms(call):.1f}" for call in (first, later, lines)))
    return table


def _time_csv(sessions: Sessions) -> Table:
    begin, cursor, size, count = time.perf_counter(), None, 0, 0
    while True:
        page = measurements.list_lines(
            sessions, PageRequest(limit=200, cursor=cursor), MeasurementFilter()
        )
        size += len(render_csv(build_row(line) for line in page.items))
        count += len(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    table = Table("CSV", "rows", "MB", "s", title="The whole table, page by page")
    table.add_row(
        "everything", f"{count:,}", f"{size / 1e6:.1f}", f"{time.perf_counter() - begin:.1f}"
    )
    return table


def _measure_median_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


if __name__ == "__main__":
    main()
