"""A fresh installation begins with what shipped measurements teach."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from service.calibration.environment import REFERENCE_VERSIONS
from service.catalog.models import load_architecture, resolve_model
from service.catalog.prior_measurements import PriorMeasurement
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import make_task
from service.usecases.jobs.environments import list_environments
from service.usecases.jobs.workers import WorkerState, WorkerSummary
from service.usecases.learning import shipped_priors as shipped
from service.usecases.learning.corrections import CorrectionCache

MODEL = load_architecture(resolve_model("gpt2"))
WORKLOAD = TrainWorkload(sequence_length=64)
NOW = datetime(2026, 1, 31, tzinfo=UTC)
READINGS = {
    "load": 10**9,
    "forward": 2 * 10**9,
    "loss": 3 * 10**9,
    "backward": 9 * 10**9,
    "optimizer_step": 10**9,
}


def a_prior(versions: dict[str, str] | None = None) -> PriorMeasurement:
    """Return a shipped measurement of gpt2."""
    return PriorMeasurement(
        id="file/0",
        source="a machine",
        method="a command",
        date=NOW,
        model="gpt2",
        config={},
        request={
            "task": msgspec.to_builtins(make_task(WORKLOAD)),
            "layout": msgspec.to_builtins(Layout()),
            "device": "trace",
        },
        result={
            "environment": versions or dict(REFERENCE_VERSIONS),
            "peaks": {"allocated_bytes": max(READINGS.values())},
            "instants": [
                {"name": name, "allocated_bytes": size} for name, size in READINGS.items()
            ],
            "probes": [],
            "extrapolated": False,
        },
    )


@pytest.fixture(name="book")
def a_book(monkeypatch: pytest.MonkeyPatch) -> Iterator[CorrectionCache]:
    """Return the book of an installation that measured nothing itself, and has two releases'
    measurements shipped.
    """
    priors = (a_prior(), a_prior({"torch": "1.13", "transformers": "4.30"}))
    monkeypatch.setattr(shipped, "list_priors", lambda: priors)
    for cached in (shipped._load_shipped, shipped.load_shipped_members):  # noqa: SLF001 - what was read before this test
        cached.cache_clear()
    book = CorrectionCache(read_changed=lambda _since: (), shipped=shipped.load_shipped_members)
    book.refresh()
    yield book
    for cached in (shipped._load_shipped, shipped.load_shipped_members):  # noqa: SLF001 - what this test made of it
        cached.cache_clear()


def test_a_shipped_measurement_answers_its_question(book: CorrectionCache) -> None:
    """The point that was measured elsewhere is answered as measured, by the releases that run
    here.
    """
    found = book.find(MODEL, WORKLOAD, Layout(), "A100-SXM4-80GB")

    assert found is not None
    assert (found.basis, found.level, found.num_measurements) == ("measured", "point", 1)
    assert found.calibration.startswith("shipped:v2:")


def test_other_questions_stay_as_they_are(book: CorrectionCache) -> None:
    """Another optimizer is another key."""
    assert book.find(MODEL, TrainWorkload(sequence_length=64, optimizer="sgd"), Layout()) is None


def test_workers_say_what_runs_now() -> None:
    """Each device of a worker is an environment; one without torch is none."""
    gpu = {"device": "cuda", "name": "NVIDIA H100 80GB HBM3", "driver": "570.1"}
    worker = WorkerSummary(
        name="w",
        host="h",
        pid=1,
        devices=[{"device": "cpu", "name": "a CPU"}, gpu],
        versions={"torch": "2.14.1", "transformers": "5.23.0"},
        state=WorkerState.IDLE,
        current_job_id=None,
        last_heartbeat=NOW,
        started_at=NOW - timedelta(hours=1),
    )
    alone, with_gpu = list_environments(worker)
    without = replace(worker, versions={})

    assert (alone.gpu, alone.torch) == (None, "2.14")
    assert (with_gpu.gpu, with_gpu.driver) == ("H100-SXM5-80GB", "570.1")
    assert list_environments(without) == ()
