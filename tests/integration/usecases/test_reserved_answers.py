"""How far answers about reserved bytes were: those that a fit gives, not what is learnt of their
part beyond the tensors.
"""

from msgspec.structs import replace
from sqlalchemy import select

from service.db.tables.learning import ResidualRow
from service.estimator.cache import PlanCache
from service.jobs.contract import ProbeDevice, ProbeResult
from service.usecases.learning.analytic_answers import compute_analytic_answer
from tests.integration.usecases.learning.builders import (
    ON_GPU,
    Sessions,
    a_gpu_result,
    a_request,
    measure,
)

MORE = 10_000_000
"""What every run allocated beyond the answer, and so reserved as well."""


def a_larger_result(length: int) -> tuple[ProbeResult, int]:
    """Return a run that allocated and reserved more than the answer says, and what the answer says
    is reserved.
    """
    request = a_request(sequence_length=length, device=ProbeDevice.CUDA)
    answered = compute_analytic_answer(request, PlanCache(), environment=ON_GPU)
    assert answered is not None
    plain = a_gpu_result(request)
    peaks, predicted = plain.peaks, answered.estimate.reserved_bytes
    assert peaks.allocated_bytes is not None
    instants = tuple(
        replace(one, allocated_bytes=one.allocated_bytes + MORE) for one in plain.instants
    )
    device = predicted + MORE + 500_000_000
    measured = replace(
        peaks,
        allocated_bytes=peaks.allocated_bytes + MORE,
        reserved_bytes=predicted + MORE,
        device_bytes=device,
    )
    return replace(plain, instants=instants, peaks=measured), predicted


def test_a_prediction_of_reserved_bytes_is_the_fits_own(sessions: Sessions) -> None:
    """Where allocated bytes are off, so are reserved ones: before calibration by as much, and after
    it by nothing.
    """
    predicted = {}
    for length in (64, 96, 128, 192):
        result, said = a_larger_result(length)
        stored = measure(
            sessions, a_request(sequence_length=length, device=ProbeDevice.CUDA), result
        )
        predicted[stored.id] = said

    with sessions() as session:
        rows = {
            row.job_id: row
            for row in session.scalars(
                select(ResidualRow).where(ResidualRow.quantity == "reserved")
            )
        }

    assert {job_id: row.predicted for job_id, row in rows.items()} == predicted
    for job_id, row in rows.items():
        assert row.measured == predicted[job_id] + MORE
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.predicted <= row.high
        assert abs(row.after / row.measured - 1) < 0.001
