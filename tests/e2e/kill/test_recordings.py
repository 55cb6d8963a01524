"""Kill -9 of a worker in the middle of a recording: it is recorded once, and nothing half."""

from sqlalchemy import text

from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.recordings.queue import RecordingQueue
from service.usecases.stored import ModelState, StoredModel
from service.usecases.stored_specs import models, recorded
from tests.processes import has_ended
from tests.recordings import HELIUM
from tests.system import IN_TIME_S, Script, System, find_job_process
from tests.waiting import eventually


def store(system: System, name: str, script: Script) -> StoredModel:
    """Store a config whose recorder plays a script."""
    return models.create(
        system.sessions,
        name=name,
        content=recorded.make_waiting_content(HELIUM | {"script": script}),
        in_catalogue=lambda _name: False,
        queue=RecordingQueue(settings=Settings(), notify=skip_notification),
    )


def has_weights(system: System, name: str) -> bool:
    """Return whether a model's weights are counted."""
    waits_for = models.read(system.sessions, name).content.waits_for
    return waits_for is not None and waits_for.weights is not None


def test_kill_9_of_a_worker_that_records(system: System) -> None:
    """The recorder dies with its worker; another worker records the model once, from the start."""
    note, gate = system.dir / "note", system.dir / "gate"
    stored = store(system, "one", [{"touch": str(note)}, {"wait_for": str(gate)}])
    assert stored.content.waits_for is not None
    job_id = stored.content.waits_for.job_id
    worker = system.start_recorder()
    recorder, process = system.wait_for_pid(note), find_job_process(worker)
    eventually(lambda: has_weights(system, "one"), within_s=IN_TIME_S)

    worker.kill()
    worker.wait()
    eventually(lambda: has_ended(recorder) and has_ended(process))
    meanwhile = models.read(system.sessions, "one")
    gate.touch()
    system.keep_leases()
    system.start_reconcile()
    system.start_recorder()
    system.wait_for_end(job_id)

    assert system.statuses(job_id) == [
        ("queued", 0),
        ("running", 1),
        ("queued", 1),
        ("running", 2),
        ("succeeded", 2),
    ]
    assert meanwhile.state is ModelState.RECORDING
    assert models.read(system.sessions, "one").state is ModelState.READY
    with system.sessions.begin() as session:
        assert session.scalar(text("SELECT count(*) FROM recordings")) == 1


def test_ends_of_recorders_are_outcomes_of_their_jobs(system: System) -> None:
    """One that dies is tried again, one that refuses is not, and one that nobody wants is ended."""
    note, gate = system.dir / "note", system.dir / "gate"
    died = store(system, "died", [{"exit": 3}])
    refused = store(system, "refused", [{"refuse": "its loss is a list"}])
    unwanted = store(system, "unwanted", [{"touch": str(note)}, {"wait_for": str(gate)}])
    system.start_recorder()
    recorder = system.wait_for_pid(note)

    models.delete(
        system.sessions,
        "unwanted",
        if_match=f'"{unwanted.etag}"',
        in_catalogue=lambda _name: False,
    )
    eventually(lambda: has_ended(recorder), within_s=IN_TIME_S)
    for stored in (died, refused, unwanted):
        assert stored.content.waits_for is not None
        system.wait_for_end(stored.content.waits_for.job_id)

    assert _read_error(system, "died") == (
        "attempt 3 of 3 was the last; the recorder ended with status 3 without an answer"
    )
    assert _read_error(system, "refused") == "its loss is a list"
    assert unwanted.content.waits_for is not None
    assert system.statuses(unwanted.content.waits_for.job_id)[-1] == ("cancelled", 1)


def _read_error(system: System, name: str) -> str:
    """Return why a model was refused."""
    waits_for = models.read(system.sessions, name).content.waits_for
    assert waits_for is not None
    assert waits_for.error is not None
    return str(waits_for.error["detail"])
