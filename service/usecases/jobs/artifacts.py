"""Artifacts of measurements, read for users as opaque bytes."""

from collections.abc import Iterator
from uuid import UUID

from service.base.errors import MeasurementNotFoundError, NotFoundError
from service.db.queries.artifacts import list_artifacts, read_piece
from service.db.queries.measurements import read_status
from service.db.records.measurements import StoredArtifact
from service.db.session import transaction
from service.usecases.stored import Sessions

PIECE_BYTES = 1024**2


def read(sessions: Sessions, job_id: UUID, name: str) -> StoredArtifact:
    """Return one artifact without its bytes."""
    with transaction(sessions) as session:
        status = read_status(session, job_id)
        if status is None:
            message = f"there is no measurement {job_id}"
            raise MeasurementNotFoundError(message)
        artifacts = list_artifacts(session, [job_id]).get(job_id, ())
    for artifact in artifacts:
        if artifact.name == name:
            return artifact
    has = (
        ", ".join(artifact.name for artifact in artifacts)
        or "none: they are asked for with it, and go after a time"
    )
    message = f"measurement {job_id} has no artifact {name!r}; it has {has}"
    raise NotFoundError(message)


def iter_pieces(sessions: Sessions, job_id: UUID, artifact: StoredArtifact) -> Iterator[bytes]:
    """Yield the packed bytes in order.

    Each piece is read in a transaction of its own, so that a slow reader holds none open.
    """
    for start in range(0, artifact.packed_bytes, PIECE_BYTES):
        with transaction(sessions) as session:
            piece = read_piece(session, job_id, artifact.name, start=start, size=PIECE_BYTES)
        if piece is None:
            # Deleted meanwhile: what was promised cannot be kept, and the reader sees a stream that
            # broke.
            message = (
                f"artifact {artifact.name} of measurement {job_id} was deleted while it was read"
            )
            raise NotFoundError(message)
        yield piece
