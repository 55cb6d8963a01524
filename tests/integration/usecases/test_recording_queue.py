"""Models whose type has no module wait for one recording, and get it all at once."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import NotWithdrawableError
from service.base.recording_errors import ModelNotRecordedError
from service.contract.to_answer.models import build_model_item, build_stored_model
from service.db.queries.models import create_model
from service.db.records.measurements import MeasurementFilter
from service.estimator.model.recorded.encoding import FORMAT
from service.estimator.values.errors import InvalidConfigError
from service.jobs.contract import JobPayload, ProbeDevice
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, withdrawals, workers
from service.usecases.jobs.attempts import Attempt
from service.usecases.jobs.workers import WorkerInfo
from service.usecases.recordings.queue import RecordingQueue
from service.usecases.recordings.recorder import StaticPart
from service.usecases.stored import ModelState, PageRequest, StoredModel
from service.usecases.stored_specs import models, recorded
from service.usecases.stored_specs.spec_cache import load_stored_model
from service.usecases.stored_specs.waiting import WaitingModelError
from tests.integration.usecases.jobs.builders import TERMS, end_lease, requeue
from tests.recordings import HELIUM, make_document

Sessions = sessionmaker[Session]


class Bell:
    """Workers that are told of jobs."""

    def __init__(self) -> None:
        """Begin with silence."""
        self.rings: list[JobPayload] = []

    def __call__(self, device: ProbeDevice, payload: JobPayload) -> None:
        """Remember a ring for the workers that record."""
        assert device is ProbeDevice.TRACE
        self.rings.append(payload)


@pytest.fixture
def bell() -> Bell:
    """Return the bell of one test."""
    return Bell()


def store(
    sessions: Sessions,
    bell: Bell,
    name: str,
    *,
    config: Mapping[str, Any] = HELIUM,
    weights: StaticPart | None = None,
) -> StoredModel:
    """Store a config whose type has no module."""
    return models.create(
        sessions,
        name=name,
        content=recorded.make_waiting_content(config),
        in_catalogue=lambda _name: False,
        queue=RecordingQueue(settings=Settings(), notify=bell),
        weights=weights,
    )


def count() -> StaticPart:
    """Return what a recorder counts of helium."""
    document = make_document()
    return StaticPart(
        total=516_288,
        by_kind={},
        transformers=document["transformers"],
        torch=document["torch"],
        document={**document, "passes": {}},
    )


def claim(sessions: Sessions, payload: JobPayload) -> Attempt:
    """Return a fresh attempt at a recording."""
    attempt = attempts.claim(sessions, payload, worker="w", **TERMS)
    assert attempt is not None
    return attempt


def read(sessions: Sessions, name: str) -> StoredModel:
    """Return a model as it is now."""
    return models.read(sessions, name)


def test_a_model_waits_with_what_is_counted_of_it(sessions: Sessions, bell: Bell) -> None:
    """Weights are exact at once, and the list says that it cannot be asked about yet."""
    stored = store(sessions, bell, "one", weights=count())

    answer = build_stored_model(stored)
    (item,) = models.list_page(sessions, PageRequest(limit=5)).items
    assert (answer.state, answer.family, answer.architecture) == ("recording", "helium", {})
    assert answer.parameters is not None
    assert answer.parameters.total == 516_288
    assert answer.weight_bytes == {"fp32": 4 * 516_288, "bf16": 2 * 516_288}
    assert answer.recording is not None
    assert answer.recording.job == str(bell.rings[0].job_id)
    assert (build_model_item(item).state, build_model_item(item).supported) == ("recording", False)


def test_weights_that_nobody_counted_come_from_the_worker(sessions: Sessions, bell: Bell) -> None:
    """They are there before the recording is."""
    stored = store(sessions, bell, "one")
    attempt = claim(sessions, bell.rings[0])

    recorded.store_weights(sessions, attempt, count())

    assert build_stored_model(stored).parameters is None
    counted = build_stored_model(read(sessions, "one")).parameters
    assert counted is not None
    assert counted.total == 516_288


def test_a_question_meanwhile_says_what_is_known(sessions: Sessions, bell: Bell) -> None:
    """It is refused with how far the recording is and the exact weights."""
    store(sessions, bell, "one", weights=count())

    with pytest.raises(WaitingModelError, match="one is being recorded") as refusal:
        load_stored_model(sessions, "one")

    static: Any = refusal.value.extra["static"]
    assert static["weight_bytes"]["bf16"] == 2 * 516_288
    assert sum(static["weight_bytes_by_module"]["bf16"].values()) == 2 * 516_288
    assert refusal.value.extra["state"] == "recording"


def test_a_recording_is_given_to_all_who_wait_for_it(sessions: Sessions, bell: Bell) -> None:
    """Two names of one config make one job, and both are ready at its end, in another version."""
    first, second = store(sessions, bell, "one"), store(sessions, bell, "two")
    attempt = claim(sessions, bell.rings[0])

    done = recorded.complete(sessions, attempt, make_document())

    assert done
    assert len(bell.rings) == 1
    for before in (first, second):
        after = read(sessions, before.name)
        assert (before.state, after.state) == (ModelState.RECORDING, ModelState.READY)
        assert (after.revision, after.content.num_parameters) == (1, 516_288)
        assert after.etag != before.etag
        assert models.read_versions(sessions, [before.name]) == {before.name: after.etag}
        named = load_stored_model(sessions, before.name)
        assert named is not None
        assert named.hf_config == HELIUM
    third = store(sessions, bell, "three")
    assert third.state is ModelState.READY
    assert len(bell.rings) == 1


def test_of_many_requests_at_once_one_is_queued(sessions: Sessions, bell: Bell) -> None:
    """Eight people who store the same config wait for one recording."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store(sessions, bell, f"m{number}"), range(8)))

    assert len(bell.rings) == 1
    with sessions.begin() as session:
        assert session.scalar(text("SELECT count(*) FROM measurements")) == 1


def test_a_late_recording_of_a_lost_attempt_is_stored_once(sessions: Sessions, bell: Bell) -> None:
    """The worker that slept past its lease writes nothing after its successor has begun."""
    store(sessions, bell, "one")
    frozen = claim(sessions, bell.rings[0])
    end_lease(sessions, frozen.job_id)
    requeue(sessions)
    successor = claim(sessions, JobPayload(job_id=frozen.job_id, attempt=1))

    late = recorded.complete(sessions, frozen, make_document())
    recorded.store_weights(sessions, frozen, count())
    meanwhile = read(sessions, "one")
    done = recorded.complete(sessions, successor, make_document())

    assert (late, done) == (False, True)
    assert meanwhile.state is ModelState.RECORDING
    assert meanwhile.content.waits_for is not None
    assert meanwhile.content.waits_for.weights is None
    assert read(sessions, "one").state is ModelState.READY
    with sessions.begin() as session:
        assert session.scalar(text("SELECT count(*) FROM recordings")) == 1


def test_a_refusal_is_told_in_the_recorders_words_and_may_be_tried_again(
    sessions: Sessions, bell: Bell
) -> None:
    """The same config under another name is queued anew, and frees both."""
    store(sessions, bell, "one", weights=count())
    recorded.refuse(sessions, claim(sessions, bell.rings[0]), "its loss is a list")

    refused = read(sessions, "one")
    with pytest.raises(ModelNotRecordedError, match="one could not be recorded: its loss is a"):
        load_stored_model(sessions, "one")
    store(sessions, bell, "two")
    again = read(sessions, "one")
    recorded.complete(sessions, claim(sessions, bell.rings[1]), make_document())

    answer = build_stored_model(refused)
    assert answer.state == "refused"
    assert answer.recording is not None
    assert answer.recording.reason == "its loss is a list"
    assert again.state is ModelState.RECORDING
    assert read(sessions, "one").state is read(sessions, "two").state is ModelState.READY


def test_a_worker_that_dies_too_often_leaves_a_refusal(sessions: Sessions, bell: Bell) -> None:
    """What is told is how the last attempt ended."""
    store(sessions, bell, "one")
    job_id = bell.rings[0].job_id
    for number in range(Settings().max_attempts):
        claim(sessions, JobPayload(job_id=job_id, attempt=number))
        attempts.release(sessions, job_id, attempt=number + 1, reason="the recorder was killed")

    stored = read(sessions, "one")

    assert stored.state is ModelState.REFUSED
    assert stored.content.waits_for is not None
    assert "the recorder was killed" in str(stored.content.waits_for.error)


def test_a_recording_that_nobody_waits_for_is_cancelled(sessions: Sessions, bell: Bell) -> None:
    """The last model that waits takes the job with it when it is deleted, and no other does."""
    first, second = store(sessions, bell, "one"), store(sessions, bell, "two")
    job_id = bell.rings[0].job_id

    statuses = []
    for stored in (first, second):
        models.delete(
            sessions, stored.name, if_match=f'"{stored.etag}"', in_catalogue=lambda _name: False
        )
        statuses.append(measurements.read(sessions, job_id).status)

    assert statuses == [Status.QUEUED, Status.CANCELLED]


def test_nobody_waits_for_a_recording_that_ends_meanwhile(sessions: Sessions, bell: Bell) -> None:
    """A model stored while its recording is being written gets it as well."""
    store(sessions, bell, "one")
    attempt, content = claim(sessions, bell.rings[0]), recorded.make_waiting_content(HELIUM)
    queue = RecordingQueue(settings=Settings(), notify=bell)
    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            create_model(session, "two", recorded.place_content(session, content, queue, None)[0])
            done = pool.submit(recorded.complete, sessions, attempt, make_document())
            wait([done], timeout=1)

        assert done.result()

    assert read(sessions, "two").state is ModelState.READY


def test_another_release_is_another_recording(sessions: Sessions, bell: Bell) -> None:
    """What was recorded is not recorded again, unless every live worker has other releases."""
    store(sessions, bell, "one", weights=count())
    document = make_document() | {"format": FORMAT}
    recorded.complete(sessions, claim(sessions, bell.rings[0]), document)
    same = {name: document[name] for name in ("transformers", "torch")}
    states = []
    for number, versions in enumerate((same, {**same, "transformers": "5.24.0"})):
        info = WorkerInfo(
            name="tracer", host="h", pid=1, devices=[{"device": "trace"}], versions=versions
        )
        workers.register(sessions, info)
        states.append(store(sessions, bell, f"other{number}").state)

    assert states == [ModelState.READY, ModelState.RECORDING]
    assert read(sessions, "one").state is ModelState.READY


def test_a_hostile_config_is_never_queued(sessions: Sessions, bell: Bell) -> None:
    """Neither a row nor a job comes of it."""
    with pytest.raises(InvalidConfigError, match="at most 512 layers"):
        store(sessions, bell, "one", config=HELIUM | {"num_hidden_layers": 10**9})

    assert bell.rings == []


def test_recordings_are_no_measurements(sessions: Sessions, bell: Bell) -> None:
    """They are listed where somebody asks for them, and there is nothing to withdraw."""
    store(sessions, bell, "one")
    recorded.complete(sessions, claim(sessions, bell.rings[0]), make_document())

    request = PageRequest(limit=5)
    everything = measurements.list_page(sessions, request, MeasurementFilter())
    asked = measurements.list_page(sessions, request, MeasurementFilter(source="recording"))

    assert everything.items == ()
    assert [item.id for item in asked.items] == [bell.rings[0].job_id]
    with pytest.raises(NotWithdrawableError, match="the recording of a model"):
        withdrawals.withdraw(sessions, bell.rings[0].job_id)
