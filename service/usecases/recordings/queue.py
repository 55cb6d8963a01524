"""Configs that wait for a trace worker to record them.

A recording is a job like a measurement: the same queue, leases and events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

import msgspec
from sqlalchemy.orm import Session

from service.db.queries import recordings as queries
from service.db.queries import workers as worker_queries
from service.db.queries.attempts import add_events
from service.db.records.recordings import ConfigRecording
from service.db.records.stored import NewJob
from service.jobs.contract import JobPayload, ProbeDevice, RecordingRequest
from service.jobs.notify import Notify
from service.jobs.states import Status
from service.runtime.logs import get_logger
from service.runtime.settings import Settings
from service.telemetry.origin import get_current_origin
from service.telemetry.spans import get_traceparent
from service.usecases.jobs.status_changes import make_status_event
from service.usecases.jobs.waiting import describe_waiting_phase, get_reason
from service.usecases.recordings.documents import has_newest_format, pack_document
from service.usecases.recordings.recorder import StaticPart

DEVICE = ProbeDevice.TRACE
"""Device of the workers that record: they have transformers, and need no GPU."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingQueue:
    """Queue of recordings, and who is told of a new one."""

    settings: Settings
    notify: Notify

    def ensure(
        self,
        session: Session,
        config: Mapping[str, object],
        config_digest: str,
        weights: StaticPart | None = None,
    ) -> tuple[ConfigRecording, JobPayload | None]:
        """Return the recording of a config, and its job if new.

        There is one for a config and releases: what is recorded or queued already is not queued
        again, what was refused is. Workers are to be told after the commit.
        """
        queries.lock_config(session, config_digest)
        recording = queries.read_config_recording(session, config_digest)
        if recording is not None and self._is_current(session, recording):
            return recording, None
        job_id = uuid4()
        self._enqueue(
            session, job_id, RecordingRequest(config=dict(config), config_digest=config_digest)
        )
        queries.set_job(session, config_digest, job_id)
        if weights is not None:
            write_weights(session, config_digest, job_id, weights)
        _log.info("recording.submitted", job_id=str(job_id), model_type=config.get("model_type"))
        queued = queries.read_config_recording(session, config_digest)
        assert queued is not None  # noqa: S101 - it was stored just now
        return queued, JobPayload(job_id=job_id, attempt=0)

    def notify_worker(self, payload: JobPayload | None) -> None:
        """Notify a worker of a new job, after the commit."""
        if payload is not None:
            self.notify(DEVICE, payload)

    def _is_current(self, session: Session, recording: ConfigRecording) -> bool:
        """Return whether nothing would come of recording a config again now."""
        if not recording.status.is_terminal:
            return True
        if recording.recording is None:
            return False
        releases = worker_queries.list_live_releases(
            session, DEVICE.value, gone_after_s=self.settings.lease_s
        )
        if not releases:
            return True
        is_of_workers = (recording.transformers, recording.torch) in releases
        return is_of_workers and has_newest_format(recording.recording.packed)

    def _enqueue(self, session: Session, job_id: UUID, request: RecordingRequest) -> None:
        phase = describe_waiting_phase(session, DEVICE.value, gone_after_s=self.settings.lease_s)
        origin = get_current_origin()
        new = NewJob(
            key=f"recording:{request.config_digest}",
            max_attempts=self.settings.max_attempts,
            phase=phase,
            request_id=origin.request_id,
            traceparent=get_traceparent() or origin.traceparent,
        )
        document: dict[str, object] = msgspec.to_builtins(request)
        queries.insert_recording_job(session, job_id, document, device=DEVICE.value, new=new)
        event = make_status_event(Status.QUEUED, attempt=0, reason=get_reason(phase))
        add_events(session, job_id, [event])


def write_weights(session: Session, config_digest: str, job_id: UUID, weights: StaticPart) -> None:
    """Store what was counted of a config's model."""
    queries.set_weights(
        session,
        config_digest,
        job_id,
        weights=pack_document(weights.document),
        transformers=weights.transformers,
        torch=weights.torch,
    )
