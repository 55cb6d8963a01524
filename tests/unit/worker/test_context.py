"""What an attempt's process learns of its worker."""

from uuid import uuid4

import pytest

from service.telemetry.origin import Origin
from worker.context import build_environ


class FakeAttempt:
    """What `build_environ` reads of an attempt."""

    origin = Origin(request_id="r-1")
    job_id = uuid4()
    number = 2


def test_a_probe_knows_its_job_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log lines carry the job; the database's URL and the cloud's keys stay with the worker."""
    for name in ("DATABASE_URL", "REDIS_URL", "HEADROOM_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("TRACEPARENT", "of another trace")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")

    environ = build_environ(FakeAttempt())  # type: ignore[arg-type]  # three fields of it

    assert "secret" not in environ.values()
    assert environ.get("TRACEPARENT") != "of another trace"
    assert environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert environ["HEADROOM_JOB_ID"] == str(FakeAttempt.job_id)
    assert environ["HEADROOM_REQUEST_ID"] == "r-1"
