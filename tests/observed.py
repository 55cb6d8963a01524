"""All metrics that /metrics can show, with a value each.

Dashboards and rules may name these.
"""

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from service.api.metrics.registry import BuildInfo, Metrics
from service.db.records.stored import (
    CalibrationAge,
    ClassAccuracy,
    ErrorCount,
    ErrorSummary,
    IntervalMisses,
    JobCount,
    QueueCount,
)
from service.usecases.jobs.workers import WorkerState, WorkerSummary
from service.usecases.learning.accuracy import LearningStatistics
from service.usecases.operations.load import Load
from service.usecases.operations.metrics_snapshot import MetricsReading, MetricsSnapshot

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_GPU = {
    "device": "cuda",
    "sku": "H200",
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "driver": "580.1",
    "memory_bytes": 7,
}
_SUMMARY = ErrorSummary(median=0.01, p95=0.02, bias=0.0, coverage=0.95, width=0.1)
_KIND = "torch training, full, alone"


def render_all_metrics() -> str:
    """Render the metrics of a server that has seen everything once."""
    metrics = Metrics(build=BuildInfo(version="1", schema="r1"))
    for status in (200, 401, 503):
        metrics.observe("POST", "/v1/fit", status, 0.01)
    metrics.count_fit("fits")
    metrics.count_search("plan", layouts=10, estimated=1)
    metrics.count_failed_notification()
    metrics.count_hook("slurm", "fits", "allow", 0.01)
    return metrics.render(
        MetricsReading(snapshot=_make_snapshot(), redis_up=True, seconds=0.01)
    ).decode()


def parse_names(text: str) -> frozenset[str]:
    """Parse the names under which a scraper stores a text's metrics.

    Servers do not report when counters began.
    """
    names = (
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    )
    return frozenset(name for name in names if not name.endswith("_created"))


def _make_snapshot() -> MetricsSnapshot:
    errors = tuple(
        ErrorCount(kind=_KIND, quantity="allocated", when=when, place=3, count=1, total=0.01)
        for when in ("before", "after")
    )
    return MetricsSnapshot(
        load=Load(
            jobs=(
                JobCount(
                    device="cpu",
                    source="probe",
                    state="failed",
                    reason="probe-error",
                    jobs=1,
                    attempts=2,
                    retries=1,
                ),
                JobCount(device="cuda", source="import", state="succeeded", jobs=1),
            ),
            queue=(QueueCount(device="cpu", weight=0, jobs=1, oldest_s=3.0),),
        ),
        workers=(_worker(),),
        learnt=LearningStatistics(
            errors=errors,
            classes=(
                ClassAccuracy(
                    kind=_KIND, quantity="allocated", count=1, before=_SUMMARY, after=_SUMMARY
                ),
            ),
            promises=(
                IntervalMisses(
                    kind=_KIND, quantity="allocated", environment="", measured=1, outside=0
                ),
            ),
            keys=(CalibrationAge(quantity="allocated", num_keys=1, newest_s=5.0),),
        ),
    )


def _worker() -> WorkerSummary:
    return WorkerSummary(
        name="w1",
        host="h",
        pid=1,
        devices=[_GPU],
        versions={"torch": "2.13.0", "gpu-headroom": "1"},
        state=WorkerState.IDLE,
        current_job_id=None,
        last_heartbeat=_NOW,
        started_at=_NOW,
        heartbeat_age_s=3.0,
        observed={"used_bytes": 5, "foreign_processes": 2},
    )
