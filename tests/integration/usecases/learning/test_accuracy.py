"""How far answers were, what surprises, and what a GPU teaches, from stored measurements to
answers.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from service.base.errors import NotFoundError
from service.calibration.conformal import is_coverage_too_low
from service.calibration.environment import Environment, EnvironmentKey
from service.calibration.evidence import SEGMENT_STEP_BYTES
from service.db.pages import PageRequest
from service.db.records.stored import AccuracyFilter, ClassAccuracy
from service.estimator.values.layout import Layout
from service.jobs.contract import ProbeDevice
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.idempotency import RequestKey
from service.usecases.jobs.drift import list_drifts, remeasure
from service.usecases.learning import calibrations
from service.usecases.learning.accuracy import (
    ERROR_BOUNDS,
    count_interval_misses,
    read_accuracy,
    read_learning_statistics,
)
from service.usecases.learning.corrections import CorrectionCache
from tests.integration.usecases.learning.builders import (
    ARCHITECTURE,
    WORKLOAD,
    Sessions,
    a_gpu_result,
    a_request,
    a_result,
    measure,
)

H200 = "H200-SXM5-141GB"


def the_class(
    sessions: Sessions, *, family: str | None = None, device: str | None = None
) -> ClassAccuracy:
    """Return the one class of allocated bytes."""
    (found,) = read_accuracy(
        sessions, AccuracyFilter(quantity="allocated", family=family, device=device)
    )
    return found


def a_book(sessions: Sessions) -> CorrectionCache:
    """Return a book that has read what was learnt."""
    book = CorrectionCache(
        read_changed=lambda since: calibrations.list_changed_since(sessions, since)
    )
    book.refresh()
    return book


def teach(
    sessions: Sessions, *, off_by: float, lengths: tuple[int, ...], torch: str = "2.13.0"
) -> None:
    """Measure some sizes that are all off by a share."""
    for length in lengths:
        request = a_request(sequence_length=length)
        measure(sessions, request, a_result(request, off_by=off_by, torch=torch))


def test_errors_are_told_before_and_after(sessions: Sessions) -> None:
    """Each measurement is held against what all others taught: here a tenth becomes next to
    nothing.
    """
    teach(sessions, off_by=0.10, lengths=(64, 96, 128, 192))

    found = the_class(sessions)

    assert (found.kind, found.count) == ("transformers training, full, alone", 4)
    assert found.before.median == pytest.approx(1 - 1 / 1.1, rel=1e-4)
    assert found.before.bias == pytest.approx(1 / 1.1 - 1, rel=1e-4)
    assert found.before.coverage == 0
    assert found.after.median < 0.01
    assert found.after.median < found.before.median / 10


def test_classes_are_narrowed(sessions: Sessions) -> None:
    """By family, device and time; what nothing matches is no class."""
    teach(sessions, off_by=0.10, lengths=(64,))
    later = datetime.now(UTC) + timedelta(hours=1)

    assert the_class(sessions, family="llama", device="cpu").count == 1
    assert read_accuracy(sessions, AccuracyFilter(family="gpt2")) == ()
    assert read_accuracy(sessions, AccuracyFilter(device="cuda")) == ()
    assert read_accuracy(sessions, AccuracyFilter(gpu=H200)) == ()
    assert read_accuracy(sessions, AccuracyFilter(since=later)) == ()


def test_errors_fall_into_buckets(sessions: Sessions) -> None:
    """A tenth off lies between a twentieth and a tenth before calibration."""
    teach(sessions, off_by=0.10, lengths=(64,))

    found = read_learning_statistics(sessions)
    before, after = found.errors

    assert (before.when, before.count) == ("before", 1)
    assert before.total == pytest.approx(1 - 1 / 1.1, rel=1e-4)
    assert ERROR_BOUNDS[before.place - 1] == 0.05
    assert (after.when, after.count) == ("after", 1)
    assert ([(one.quantity, one.num_keys) for one in found.keys], dict(found.drifting)) == (
        [("allocated", 1)],
        {},
    )
    assert [(one.measured, one.outside) for one in found.promises] == [(0, 0)]


def test_only_promises_can_be_broken(sessions: Sessions) -> None:
    """The first measurement of a question was promised nothing; a second one that agrees is no
    surprise, a third is.
    """
    teach(sessions, off_by=0.10, lengths=(64,))
    first = count_interval_misses(sessions)
    teach(sessions, off_by=0.10, lengths=(128,))
    second = count_interval_misses(sessions)
    teach(sessions, off_by=0.60, lengths=(256,))

    (third,) = count_interval_misses(sessions)

    assert first == ()
    assert [(one.measured, one.outside) for one in second] == [(1, 0)]
    assert (third.measured, third.outside) == (2, 1)


def test_drift_is_told_once_too_many_lie_outside(sessions: Sessions) -> None:
    """Releases that need more than every promise are said to drift, in the log and in the
    calibration's own entry.
    """
    teach(sessions, off_by=0.0, lengths=(64, 128))
    with capture_logs() as logs:
        teach(sessions, off_by=0.30, lengths=(64,), torch="2.14.0")
        teach(sessions, off_by=0.90, lengths=(128,), torch="2.14.0")
    newer = replace(Environment(), torch="2.14").key

    def place_of(_gpu: str) -> EnvironmentKey:
        return newer

    newest, *_, oldest = calibrations.list_page(sessions, PageRequest()).items
    told, stale = list_drifts(sessions, [newest, oldest], place_of)

    assert [entry["outside"] for entry in logs if entry["event"] == "calibration.drift"] == [2]
    assert (stale.is_stale, stale.is_drifting, stale.measured, stale.outside) == (True, True, 2, 2)
    assert stale.bias == pytest.approx(0, abs=1e-6)
    assert stale.current_bias == pytest.approx(0.6)
    assert not told.is_stale


def test_one_surprise_in_many_is_no_drift() -> None:
    """At a level of 0.95, one of twenty lies outside as it should; four do not."""
    assert not is_coverage_too_low(1, 20)
    assert is_coverage_too_low(4, 20)


def test_what_is_known_is_measured_again_on_request(sessions: Sessions) -> None:
    """Every size that a calibration rests on is asked for once, and once more only with another
    key.
    """
    teach(sessions, off_by=0.0, lengths=(64, 128, 128))
    newest, *_ = calibrations.list_page(sessions, PageRequest()).items

    def again(key: str) -> list[object]:
        request = RequestKey(key=key, route="remeasure", body=b"")
        asked = remeasure(
            sessions,
            newest.id,
            settings=Settings(),
            notify=skip_notification,
            key=request,
        )
        return [stored.id for stored in asked]

    first, same, other = again("a"), again("a"), again("b")

    assert len(first) == 2
    assert first == same
    assert not set(first) & set(other)


def test_what_was_never_learnt_cannot_be_measured_again(sessions: Sessions) -> None:
    """An unknown id is not found."""
    with pytest.raises(NotFoundError, match="there is no calibration"):
        remeasure(sessions, uuid4(), settings=Settings(), notify=skip_notification)


def test_a_gpu_teaches_what_only_a_gpu_knows(sessions: Sessions) -> None:
    """Reserved bytes, what lies beside the allocator, and time are corrected on that GPU, and on no
    other.
    """
    request = a_request(device=ProbeDevice.CUDA)
    measure(sessions, request, a_gpu_result(request))
    book = a_book(sessions)

    there = book.find(ARCHITECTURE, WORKLOAD, Layout(), H200)

    assert there is not None
    assert (there.basis, there.level) == ("measured", "point")
    assert there.reserved.fixed_bytes == 100_000_000
    assert there.reserved_error is not None
    assert there.reserved_error < 2 * SEGMENT_STEP_BYTES / 100_000_000
    assert set(there.bases.values()) == {"measured"}
    assert there.outside.fixed_bytes == 200_000_000
    assert there.step_time_ratio != 1.0
    assert book.find(ARCHITECTURE, WORKLOAD, Layout(), "A100-SXM4-80GB") is None
    assert book.find(ARCHITECTURE, WORKLOAD, Layout()) is None


def test_another_driver_is_another_key(sessions: Sessions) -> None:
    """What was measured last says what runs on a GPU without a worker; older drivers keep what they
    taught.
    """
    request = a_request(device=ProbeDevice.CUDA)
    measure(sessions, request, a_gpu_result(request))
    other = a_request(device=ProbeDevice.CUDA, optimizer="sgd")
    measure(sessions, other, a_gpu_result(other, driver="580.2"))
    book = a_book(sessions)

    found = book.find(ARCHITECTURE, WORKLOAD, Layout(), H200)

    assert "580.2" in book.get_environment_key(H200).name
    assert found is None or found.level not in {"point", "key"}


def test_running_out_of_memory_raises_what_follows_and_nothing_else(sessions: Sessions) -> None:
    """A run that needed twice what was answered holds for its size and larger ones; smaller ones
    are as before.
    """
    request = a_request(device=ProbeDevice.CUDA, sequence_length=128)
    result = a_gpu_result(request, out_of_memory=True)
    measure(sessions, request, result)
    book = a_book(sessions)

    found = {
        length: book.find(ARCHITECTURE, replace(WORKLOAD, sequence_length=length), Layout(), H200)
        for length in (64, 128, 256)
    }

    floors = {length: one.at_least_bytes for length, one in found.items() if one is not None}
    assert floors == {64: 0, 128: result.peaks.allocated_bytes, 256: result.peaks.allocated_bytes}
    assert all(not one.instants for one in found.values() if one is not None)
