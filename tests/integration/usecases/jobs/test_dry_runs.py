"""What would be run, said without asking a worker: its own plan where it has told of its host, and
said so where it has not.
"""

from uuid import UUID

import pytest
from msgspec import structs
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_gpu
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import (
    FailureKind,
    JobPayload,
    MeasureRequest,
    ModelSource,
    Planned,
    ProbeDevice,
    ProbeFailure,
    make_task,
)
from service.jobs.host import Host
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, workers
from service.usecases.jobs.dry_runs import DryRun, plan_dry_run
from service.usecases.jobs.workers import WorkerInfo
from service.usecases.stored import MeasurementFilter, PageRequest
from tests.integration.usecases.learning.builders import ARCHITECTURE
from tests.job_builders import TINY_LLAMA
from worker.probes.measure import measure

Sessions = sessionmaker[Session]
DEEP = {**TINY_LLAMA, "num_hidden_layers": 8}
SLOW = Host(operators_per_second=100.0)


def a_request(
    device: ProbeDevice = ProbeDevice.TRACE, *, gpu: str | None = None, policy: str = "fp32"
) -> MeasureRequest:
    """Return a question about a model with layers to leave out."""
    return MeasureRequest(
        model=ModelSource(architecture=ARCHITECTURE.describe(), hf_config=DEEP),
        task=make_task(TrainWorkload(sequence_length=64, precision=POLICIES[policy])),
        layout=Layout(),
        device=device,
        gpu=gpu,
    )


def tells(
    sessions: Sessions,
    request: MeasureRequest,
    planned: Planned,
    *,
    worker: str = "w",
    sku: str | None = None,
) -> UUID:
    """Let a worker that is there begin a measurement and tell its plan."""
    device = {"device": request.device.value, "sku": sku}
    workers.register(
        sessions, WorkerInfo(name=worker, host="h", pid=1, devices=[device], versions={})
    )
    job_id = measurements.submit(
        sessions, request, key="k", settings=Settings(), notify=skip_notification
    ).id
    attempt = attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=0), worker=worker, lease_s=30, deadline_s=600
    )
    assert attempt is not None
    assert attempts.report(
        sessions, attempt, progress=None, samples=(), samples_before=0, planned=planned
    )
    return job_id


def plan_on(host: Host | None) -> Planned:
    """Return a plan that tells of a host; what it runs does not matter."""
    return Planned(runs=(), expected_s=1.0, host=host)


def asked(sessions: Sessions, request: MeasureRequest) -> DryRun:
    """Make a dry run."""
    return plan_dry_run(sessions, request, settings=Settings())


def test_the_plan_is_the_one_that_the_worker_told(sessions: Sessions) -> None:
    """A probe makes it on its host; the service makes the same of what that told, run by run and
    second by second.
    """
    request, lines = a_request(), list[object]()
    measure(request.make_probe_request(deadline_s=Settings().probe_deadline_s), lines.append)
    (told,) = [line for line in lines if isinstance(line, Planned)]
    tells(sessions, request, told)
    found = asked(sessions, request)

    assert found.outcome == told
    assert (found.reported.worker, found.reported.note) == ("w", None)


def test_nothing_is_asked_for(sessions: Sessions) -> None:
    """No measurement is stored, and what stands in for a worker that is not there yet is said."""
    found = asked(sessions, a_request())

    assert isinstance(found.outcome, Planned)
    assert [run.num_layers for run in found.outcome.runs] == [8]
    assert (found.reported.worker, found.reported.told_at) == (None, None)
    assert "no worker of device trace has told of itself" in str(found.reported.note)
    assert measurements.list_page(sessions, PageRequest(limit=5), MeasurementFilter()).items == ()


def test_a_slow_host_runs_slices(sessions: Sessions) -> None:
    """What a worker told decides what is run, not how long alone."""
    tells(sessions, a_request(), plan_on(SLOW))
    found = asked(sessions, a_request())

    assert isinstance(found.outcome, Planned)
    assert [run.num_layers for run in found.outcome.runs] == [2, 3]
    assert found.outcome.host == SLOW


def test_a_worker_that_is_there_goes_before_one_that_has_gone(sessions: Sessions) -> None:
    """However much later that has told."""
    tells(sessions, a_request(), plan_on(SLOW), worker="there")
    tells(sessions, a_request(), plan_on(Host(operators_per_second=1e9)), worker="gone")
    workers.mark_stopped(sessions, "gone")

    assert asked(sessions, a_request()).reported.worker == "there"


@pytest.mark.parametrize(
    ("device", "ran", "gpu"),
    [(ProbeDevice.CPU, "bf16", None), (ProbeDevice.CUDA, "fp32", "H100-SXM5-80GB")],
)
def test_speeds_of_another_dtype_or_gpu_tell_nothing(
    sessions: Sessions, device: ProbeDevice, ran: str, gpu: str | None
) -> None:
    """A reference stands in: of a GPU its data sheet."""
    fast = Host(flops_per_second=1e18, available_bytes=2**50)
    tells(sessions, a_request(device, policy=ran), plan_on(fast), sku=gpu)
    own = None if gpu is None else "H200-SXM5-141GB"
    found = asked(sessions, a_request(device, gpu=own))

    assert found.reported.worker is None
    assert found.reported.host.flops_per_second != fast.flops_per_second
    if own is not None:
        assert found.reported.host.available_bytes == resolve_gpu(own).usable_bytes


def test_the_gpu_of_a_living_worker_stands_in_for_one_that_nobody_names(
    sessions: Sessions,
) -> None:
    """A measurement that names no GPU runs on it, so that its data sheet tells how fast."""
    device = {"device": "cuda", "sku": "H100-SXM5-80GB"}
    workers.register(sessions, WorkerInfo(name="w", host="h", pid=1, devices=[device], versions={}))

    note = asked(sessions, a_request(ProbeDevice.CUDA)).reported.note

    assert "the data sheet of H100-SXM5-80GB" in str(note)


def test_a_plan_of_a_version_before_tells_nothing(sessions: Sessions) -> None:
    """It named no host."""
    tells(sessions, a_request(), plan_on(None))

    assert asked(sessions, a_request()).reported.worker is None


def test_what_the_probe_would_refuse_is_an_answer(sessions: Sessions) -> None:
    """With the numbers that the measurement would have failed with."""
    tells(
        sessions,
        a_request(ProbeDevice.CPU),
        plan_on(Host(available_bytes=1000, flops_per_second=1e9)),
    )
    found = asked(sessions, a_request(ProbeDevice.CPU))

    assert isinstance(found.outcome, ProbeFailure)
    assert found.outcome.kind is FailureKind.DOES_NOT_FIT_HOST
    assert "1,000 B are free" in found.outcome.message


def test_what_no_worker_would_start_is_refused(sessions: Sessions) -> None:
    """As a measurement would be; and a GPU that nobody named has no data sheet."""
    with pytest.raises(InvalidRequestError, match="rank is 3"):
        asked(sessions, structs.replace(a_request(), rank=3))
    with pytest.raises(InvalidRequestError, match="name the GPU"):
        asked(sessions, a_request(ProbeDevice.CUDA))
