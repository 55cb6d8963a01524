"""What a measurement teaches, stored in the same transaction as its result."""

from dataclasses import replace
from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec import structs
from sqlalchemy import select

from service.base.errors import MeasurementNotFoundError, NotWithdrawableError
from service.calibration.document import from_document
from service.calibration.environment import Environment
from service.calibration.evidence import MeasuredPoint
from service.db.records.measurements import StoredMeasurement
from service.db.records.stored import StoredCalibration
from service.db.tables.learning import ResidualRow
from service.jobs.contract import JobPayload, ModelSource, ProbeDevice
from service.jobs.notify import skip_notification
from service.jobs.readings import Peaks, ProbeReading
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, outcomes
from service.usecases.jobs.withdrawals import withdraw
from service.usecases.learning import predictions
from service.usecases.learning.residuals import read_member
from tests.integration.usecases.learning.builders import (
    ADDRESS,
    ARCHITECTURE,
    KEY,
    ON_GPU,
    Sessions,
    a_request,
    a_result,
    list_current,
    measure,
)
from tests.job_builders import TINY_LLAMA


def learnt(sessions: Sessions) -> StoredCalibration:
    """Return the calibration that holds."""
    return list_current(sessions)[ADDRESS, "allocated"]


def calibration_id_of(measurement: StoredMeasurement) -> UUID | None:
    """Return the calibration that a measurement made."""
    assert measurement.result is not None
    return measurement.result.calibration_id


def test_an_exact_answer_stays_what_it_is_but_names_its_measurement(sessions: Sessions) -> None:
    """Nothing is corrected, and the next fit can still say what it rests on."""
    request = a_request()

    measured = measure(sessions, request, a_result(request))

    stored = learnt(sessions)
    assert stored.id == calibration_id_of(measured)
    assert stored.evidence == (measured.id,)
    assert from_document(stored.correction).curves == {}
    assert stored.scope["family"] == "llama"
    assert measured.result is not None
    assert measured.result.prediction is not None
    assert abs(float(str(measured.result.prediction["error"]))) < 1e-6


def test_a_wrong_answer_is_corrected_by_all_that_was_measured(sessions: Sessions) -> None:
    """The second measurement's calibration rests on both, and the first one's stays as it was."""
    short, long = a_request(sequence_length=64), a_request(sequence_length=128)
    first = measure(sessions, short, a_result(short, off_by=0.10))
    second = measure(sessions, long, a_result(long, off_by=0.10))

    stored = learnt(sessions)

    assert stored.id == calibration_id_of(second) != calibration_id_of(first)
    assert set(stored.evidence) == {first.id, second.id}
    assert (
        from_document(stored.correction)
        .curves["backward"]
        .at(
            MeasuredPoint(
                num_layers=ARCHITECTURE.num_hidden_layers, micro_batch_size=1, sequence_length=128
            ),
        )
        > 0
    )
    assert second.result is not None
    assert second.result.prediction is not None
    assert round(float(str(second.result.prediction["error"])), 3) == round(1 / 1.10 - 1, 3)


def test_other_kernels_teach_nothing(sessions: Sessions) -> None:
    """Their result is stored, and no calibration is made of it."""
    request = a_request()

    kernels = measure(sessions, request, a_result(request, off_by=0.5, transferable=False))

    assert calibration_id_of(kernels) is None
    assert list_current(sessions) == {}


def test_another_release_teaches_keys_of_its_own(sessions: Sessions) -> None:
    """What torch 2.14 was measured to need corrects no answer for 2.13, and the other way round."""
    request = a_request()
    newer = replace(Environment(), torch="2.14").key.build_curve_key(KEY)

    measure(sessions, request, a_result(request, off_by=0.5, torch="2.14.0"))
    only_newer = {key for key, _ in list_current(sessions)}
    measure(sessions, request, a_result(request))

    assert only_newer == {newer}
    assert from_document(learnt(sessions).correction).curves == {}


@pytest.mark.parametrize(("sequence_length", "teaches"), [(64, True), (32, False)])
def test_only_the_asked_tokens_are_evidence(
    sessions: Sessions, sequence_length: int, *, teaches: bool
) -> None:
    """Where fewer tokens ran, the peaks hold the analytic answer already, and it is not held
    against itself.
    """
    request = a_request()
    ran = tuple(
        ProbeReading(
            num_layers=depth, micro_batch_size=1, sequence_length=sequence_length, instants=()
        )
        for depth in (1, 2)
    )
    result = msgspec.structs.replace(a_result(request), probes=ran, extrapolated=True)

    measured = measure(sessions, request, result)

    assert measured.result is not None
    assert (measured.result.prediction is not None) == teaches
    assert (calibration_id_of(measured) is not None) == teaches


def test_what_the_estimator_cannot_answer_is_measured_all_the_same(sessions: Sessions) -> None:
    """There is a result without a prediction, and nothing is learnt from it."""
    known = a_request()
    unknown = msgspec.structs.replace(
        known, model=ModelSource(architecture={"family": "other"}, hf_config=TINY_LLAMA)
    )

    measured = measure(sessions, unknown, a_result(known))

    assert measured.result is not None
    assert measured.result.prediction is None
    assert calibration_id_of(measured) is None


def test_a_result_and_what_it_teaches_are_one(sessions: Sessions) -> None:
    """A fenced result teaches nothing."""
    request = a_request()
    job_id = measurements.submit(
        sessions, request, key=KEY, settings=Settings(), notify=skip_notification
    ).id
    attempt = attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=0), worker="w", lease_s=30, deadline_s=600
    )
    assert attempt is not None
    attempts.release(sessions, job_id, attempt=1, reason="lost")
    assert (
        attempts.claim(
            sessions, JobPayload(job_id=job_id, attempt=1), worker="w2", lease_s=30, deadline_s=600
        )
        is not None
    )

    assert not outcomes.succeed(sessions, attempt, a_result(request))

    assert list_current(sessions) == {}


def test_a_gpu_has_every_quantity_beside_its_prediction() -> None:
    """A table shows reserved and device bytes as well, where a GPU was there to tell them."""
    asked = a_request(device=ProbeDevice.CUDA)
    found = a_result(asked)
    peaks = Peaks(
        allocated_bytes=found.peaks.allocated_bytes, reserved_bytes=1 << 30, device_bytes=3 << 29
    )
    prediction = predictions.predict(
        asked, msgspec.structs.replace(found, peaks=peaks, environment=ON_GPU)
    )

    assert prediction is not None
    assert [(one.quantity, one.measured) for one in prediction.quantities] == [
        ("allocated_bytes", found.peaks.allocated_bytes),
        ("reserved_bytes", 1 << 30),
        ("device_bytes", 3 << 29),
    ]
    assert all(one.error == one.predicted / one.measured - 1 for one in prediction.quantities)
    assert all(one.low <= one.predicted <= one.high for one in prediction.quantities)
    assert (
        max(instant.allocated_bytes for instant in prediction.instants)
        == prediction.allocated_bytes
    )


def test_what_is_withdrawn_teaches_nothing_any_more(sessions: Sessions) -> None:
    """The others of its key teach alone, its residual is gone, and it stays readable; a second time
    changes nothing.
    """
    short, long = a_request(sequence_length=64), a_request(sequence_length=128)
    first = measure(sessions, short, a_result(short, off_by=0.10))
    alone = from_document(learnt(sessions).correction)
    second = measure(sessions, long, a_result(long, off_by=0.30))

    withdraw(sessions, second.id)
    after = learnt(sessions)
    withdraw(sessions, second.id)

    assert after.evidence == (first.id,)
    assert from_document(after.correction) == alone
    assert learnt(sessions).id == after.id
    found = measurements.read(sessions, second.id)
    assert (found.status, found.phase, found.result is None) == (
        Status.CANCELLED,
        "withdrawn",
        False,
    )
    with sessions() as session:
        assert set(session.scalars(select(ResidualRow.job_id))) == {first.id}


def test_the_last_of_a_key_leaves_the_analytic_answer(sessions: Sessions) -> None:
    """Where nothing is left that taught, nothing corrects."""
    request = a_request()
    only = measure(sessions, request, a_result(request, off_by=0.10))

    withdraw(sessions, only.id)

    assert read_member(learnt(sessions)) is None


def test_only_a_result_can_be_withdrawn(sessions: Sessions) -> None:
    """What is not over is cancelled, and what is not there is not found."""
    queued = measurements.submit(
        sessions, a_request(), key="k", settings=Settings(), notify=skip_notification
    )

    with pytest.raises(
        NotWithdrawableError,
        match="is queued; only one that has succeeded can be withdrawn; cancel it",
    ):
        withdraw(sessions, queued.id)
    with pytest.raises(MeasurementNotFoundError):
        withdraw(sessions, uuid4())


def test_a_size_that_was_run_beside_the_asked_one_teaches_too(sessions: Sessions) -> None:
    """Half the tokens, to see what a token adds: the whole model ran, so that size is known; the
    measurement counts once.
    """
    few, many = a_request(sequence_length=32), a_request(sequence_length=64)
    readings = [
        ProbeReading(
            num_layers=2,
            micro_batch_size=1,
            sequence_length=length,
            instants=a_result(request, off_by=0.1).instants,
        )
        for length, request in ((64, many), (32, few))
    ]
    slice_of_it = structs.replace(readings[1], num_layers=1, sequence_length=48)
    measured = measure(
        sessions, many, structs.replace(a_result(many, off_by=0.1), probes=(*readings, slice_of_it))
    )
    calibration = from_document(learnt(sessions).correction)

    assert {known.point.sequence_length for known in calibration.exact} == {32, 64}
    assert learnt(sessions).evidence == (measured.id,)
    assert [held.measurement for held in calibration.left_out] == [str(measured.id)]
