"""Measurements of a tiny model that found what a test says."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from sqlalchemy.orm import Session, sessionmaker

from service.calibration.environment import REFERENCE_VERSIONS, Environment
from service.calibration.key import build_calibration_key
from service.db.queries.measurements import insert_job
from service.db.records.measurements import PackedArtifact, StoredMeasurement
from service.db.records.stored import NewJob, StoredCalibration
from service.estimator.cache import PlanCache
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import (
    JobPayload,
    MeasureRequest,
    ModelSource,
    ProbeDevice,
    ProbeResult,
    make_task,
)
from service.jobs.readings import InstantReading, Peaks, StepTime
from service.usecases.jobs import attempts, measurements, outcomes
from service.usecases.learning import calibrations
from service.usecases.learning.analytic_answers import compute_analytic_answer
from tests.job_builders import TINY_LLAMA

Sessions = sessionmaker[Session]
ARCHITECTURE = architecture_from_config(TINY_LLAMA)
WORKLOAD = TrainWorkload(sequence_length=64)
KEY = build_calibration_key(ARCHITECTURE, WORKLOAD, Layout())
ADDRESS = Environment().key.build_curve_key(KEY)
VERSIONS: dict[str, str | int | None] = {
    name: f"{minor}.0" for name, minor in REFERENCE_VERSIONS.items()
}
ON_GPU: dict[str, str | int | None] = {
    **VERSIONS,
    "gpu": "NVIDIA H200",
    "driver": "570.1",
    "cuda": "12.8",
}


def list_current(sessions: Sessions) -> dict[tuple[str, str], StoredCalibration]:
    """Return the calibrations that hold, by key and quantity."""
    return {
        (item.key, item.quantity): item for item in calibrations.list_changed_since(sessions, None)
    }


def a_request(
    *, sequence_length: int = 64, device: ProbeDevice = ProbeDevice.CPU, optimizer: str = "adamw"
) -> MeasureRequest:
    """Return a question about the tiny model that the estimator can answer."""
    return MeasureRequest(
        model=ModelSource(architecture=ARCHITECTURE.describe(), hf_config=TINY_LLAMA),
        task=make_task(replace(WORKLOAD, sequence_length=sequence_length, optimizer=optimizer)),
        layout=Layout(),
        device=device,
        gpu="H200-SXM5-141GB" if device is ProbeDevice.CUDA else None,
    )


def a_result(
    request: MeasureRequest,
    *,
    off_by: float = 0.0,
    transferable: bool = True,
    torch: str = "2.13.0",
) -> ProbeResult:
    """Return a measurement that found the analytic answer, but for ``off_by`` of it."""
    answered = compute_analytic_answer(request, PlanCache())
    assert answered is not None
    instants = tuple(
        InstantReading(name=one.name, allocated_bytes=round(one.allocated_bytes * (1 + off_by)))
        for one in answered.estimate.instants
    )
    return ProbeResult(
        environment={**VERSIONS, "torch": torch},
        peaks=Peaks(
            allocated_bytes=max(one.allocated_bytes for one in instants if one.name != "load")
        ),
        instants=instants,
        probes=(),
        extrapolated=False,
        transferable=transferable,
    )


def a_gpu_result(
    request: MeasureRequest, *, out_of_memory: bool = False, driver: str = "570.1"
) -> ProbeResult:
    """Return a measurement on a GPU: as allocated as the answer says, 100 MB more reserved, 200 MB
    more beside it.
    """
    answered = compute_analytic_answer(request, PlanCache(), environment=ON_GPU)
    assert answered is not None
    found = answered.estimate
    instants = tuple(
        InstantReading(name=one.name, allocated_bytes=one.allocated_bytes) for one in found.instants
    )
    reserved = found.reserved_bytes + 100_000_000
    return ProbeResult(
        environment={**ON_GPU, "driver": driver},
        peaks=Peaks(
            allocated_bytes=found.allocated_bytes * (2 if out_of_memory else 1),
            reserved_bytes=reserved,
            device_bytes=reserved + found.device_bytes - found.reserved_bytes + 200_000_000,
            out_of_memory=out_of_memory,
        ),
        instants=instants,
        probes=(),
        extrapolated=out_of_memory,
        transferable=not out_of_memory,
        step_time_s=StepTime(median=0.02, p95=0.021),
    )


def measure(
    sessions: Sessions,
    request: MeasureRequest,
    result: ProbeResult,
    *,
    artifacts: Sequence[PackedArtifact] = (),
) -> StoredMeasurement:
    """Ask for a measurement and let it find ``result`` and keep ``artifacts``."""
    key = build_calibration_key(ARCHITECTURE, request.task.workload, request.layout)
    job_id = uuid4()
    with sessions.begin() as session:
        insert_job(session, job_id, request, NewJob(key=key, max_attempts=1, phase="queued"))
    attempt = attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=0), worker="w", lease_s=30, deadline_s=600
    )
    assert attempt is not None
    assert outcomes.succeed(sessions, attempt, result, artifacts=artifacts)
    return measurements.read(sessions, job_id)
