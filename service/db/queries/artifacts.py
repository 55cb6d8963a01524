"""Statements about artifacts.

Descriptions are read without the bytes, and the bytes piece by piece.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import LargeBinary, Row, func, insert, select
from sqlalchemy.orm import Session

from service.db.records.measurements import PackedArtifact, StoredArtifact
from service.db.tables.artifacts import ArtifactRow

Artifact = ArtifactRow
_COLUMNS = (
    Artifact.job_id,
    Artifact.name,
    Artifact.media_type,
    Artifact.bytes,
    Artifact.sha256,
    func.octet_length(Artifact.packed).label("packed_bytes"),
)


def add_artifacts(
    session: Session, job_id: UUID, *, attempt: int, artifacts: Sequence[PackedArtifact]
) -> None:
    """Store the artifacts of an attempt."""
    for artifact in artifacts:
        session.execute(
            insert(Artifact).values(
                job_id=job_id,
                attempt=attempt,
                name=artifact.name,
                media_type=artifact.media_type,
                bytes=artifact.bytes,
                sha256=artifact.sha256,
                packed=artifact.packed,
            ),
        )


def list_artifacts(
    session: Session, job_ids: Sequence[UUID]
) -> Mapping[UUID, tuple[StoredArtifact, ...]]:
    """Return the artifacts of measurements, by their ids.

    A measurement without artifacts has no entry.
    """
    by_job: defaultdict[UUID, tuple[StoredArtifact, ...]] = defaultdict(tuple)
    for row in session.execute(
        select(*_COLUMNS)
        .where(Artifact.job_id.in_(job_ids))
        .order_by(Artifact.job_id, Artifact.name),
    ):
        by_job[row.job_id] += (_to_stored_artifact(row),)
    return by_job


def read_piece(session: Session, job_id: UUID, name: str, *, start: int, size: int) -> bytes | None:
    """Return up to ``size`` packed bytes from ``start`` on.

    ``None`` where there is no such artifact any more.
    """
    # SQL counts from one.
    piece = func.substr(Artifact.packed, start + 1, size, type_=LargeBinary())
    return session.scalars(
        select(piece).where(Artifact.job_id == job_id, Artifact.name == name)
    ).first()


def _to_stored_artifact(row: Row[tuple[UUID, str, str, int, str, int]]) -> StoredArtifact:
    return StoredArtifact(
        name=row.name,
        media_type=row.media_type,
        bytes=row.bytes,
        sha256=row.sha256,
        packed_bytes=row.packed_bytes,
    )
