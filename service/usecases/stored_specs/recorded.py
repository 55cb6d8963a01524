"""Models that wait for a recording, and its outcomes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy.orm import Session

from service.db.queries import attempts as attempt_queries
from service.db.queries import recordings as queries
from service.db.queries.measurements import lock_job
from service.db.records.models import ModelContent
from service.db.records.recordings import ConfigRecording, Recording
from service.db.session import transaction
from service.estimator.values.errors import InvalidConfigError
from service.jobs.contract import JobPayload, RecordingRequest
from service.jobs.states import Status
from service.usecases.jobs.attempts import Attempt, settle
from service.usecases.jobs.measurements import cancel_locked
from service.usecases.jobs.status_changes import make_problem
from service.usecases.recordings.configs import check_recordable, compute_config_digest
from service.usecases.recordings.documents import load_recording
from service.usecases.recordings.queue import RecordingQueue, write_weights
from service.usecases.recordings.recorder import StaticPart
from service.usecases.stored import Sessions
from service.usecases.stored_specs.checkpoints import Checkpoint
from service.usecases.stored_specs.model_sources import describe_architecture, make_content

Source = Mapping[str, object]
REFUSED = "recording-refused"
"""Kind of the problem of a config that cannot be recorded."""


def make_waiting_content(
    config: Source, *, checkpoint: Checkpoint | None = None, hub: Source | None = None
) -> ModelContent:
    """Return the content of a model that is to be recorded.

    Raises InvalidConfigError for what no recorder is started for.
    """
    check_recordable(config)
    if checkpoint is not None:
        checkpoint = replace(checkpoint, tensors=())
    return ModelContent(
        source={
            "hf_config": config,
            **({} if checkpoint is None else {"checkpoint": checkpoint.describe()}),
            **({} if hub is None else {"hub": hub}),
        },
        architecture={},
        family=str(config["model_type"]),
        fingerprint="",
        num_parameters=0,
        num_active_parameters=0,
        num_embedding_parameters=0,
        parameters_by_module={},
        config_digest=compute_config_digest(config),
    )


def place_content(
    session: Session,
    content: ModelContent,
    queue: RecordingQueue | None,
    weights: StaticPart | None,
) -> tuple[ModelContent, JobPayload | None]:
    """Return the content of a model, and its new job.

    A config that was recorded before has its architecture at once.
    """
    if content.config_digest is None or queue is None:
        return content, None
    config: Source = content.source["hf_config"]  # type: ignore[assignment]  # a waiting model has one
    recorded, payload = queue.ensure(session, config, content.config_digest, weights)
    if recorded.recording is None:
        return content, payload
    return _fill(content, recorded.recording), payload


def notify_of(queue: RecordingQueue | None, payload: JobPayload | None) -> None:
    """Notify a worker of a new recording, after the commit."""
    if queue is not None:
        queue.notify_worker(payload)


@contextmanager
def cancel_unwanted(session: Session, content: ModelContent) -> Iterator[None]:
    """Cancel a recording if no model waits for it after a block.

    Job and config are locked before the block touches revisions, in the order of who completes a
    recording; models that are being stored with this config are waited for, and counted.
    """
    waits_for = content.waits_for
    if waits_for is None:
        yield
        return
    row = lock_job(session, waits_for.job_id)
    queries.lock_config(session, waits_for.config_digest)
    yield
    if row is not None and not queries.count_waiting(session, waits_for.config_digest):
        cancel_locked(session, row)


def _fill(content: ModelContent, recording: Recording) -> ModelContent:
    """Return the content of a model whose recording is there."""
    architecture = load_recording(recording.digest, recording.packed)
    return replace(
        content,
        **describe_architecture(architecture),
        recording=recording,
        config_digest=None,
    )


def store_weights(sessions: Sessions, attempt: Attempt, weights: StaticPart) -> None:
    """Store a config's weights while its attempt is the running one."""
    request = _get_request(attempt)
    with transaction(sessions) as session:
        if attempt_queries.lock_running(session, attempt.job_id, attempt=attempt.number) is None:
            return
        write_weights(session, request.config_digest, attempt.job_id, weights)


def complete(sessions: Sessions, attempt: Attempt, document: Source) -> bool:
    """Store a recording for all that wait, and end the job.

    All or nothing. Return False when a later attempt holds the job. Raises EstimatorError for a
    document that does not run.
    """
    content = make_content({"recording": document})
    request = _get_request(attempt)

    def write(session: Session) -> None:
        queries.fill_waiting(session, request.config_digest, attempt.job_id, content)

    return settle(sessions, attempt, status=Status.SUCCEEDED, write=write)


def refuse(sessions: Sessions, attempt: Attempt, message: str) -> bool:
    """End a job in the recorder's words of refusal."""
    error = make_problem(REFUSED, "This model cannot be recorded", message)
    return settle(sessions, attempt, status=Status.FAILED, error=error)


def find_config_recording(sessions: Sessions, config: Source) -> ConfigRecording | None:
    """Return the recording of a stored config, however far it is."""
    try:
        check_recordable(config)
    except InvalidConfigError:
        return None
    with transaction(sessions) as session:
        return queries.read_config_recording(session, compute_config_digest(config))


def _get_request(attempt: Attempt) -> RecordingRequest:
    request = attempt.request
    assert isinstance(request, RecordingRequest)  # noqa: S101 - who records was given one
    return request
