"""Statements about stored models and their revisions."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID, uuid4

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, contains_eager

from service.db.pages import Page, PageRequest, make_page, paginate
from service.db.queries.recordings import (
    list_progress,
    make_content_columns,
    read_config_recording,
    store_recording,
)
from service.db.records.models import ModelContent, StoredModel, make_model_etag
from service.db.records.recordings import ConfigRecording, Recording
from service.db.tables.base import Json
from service.db.tables.models import ModelRevisionRow, ModelRow, RecordingRow, RetiredModelRow

LIST = "models"


def create_model(session: Session, name: str, content: ModelContent) -> bool:
    """Store a model; return False when the name is taken.

    It may be taken by a transaction that is under way right now.

    It is revision 1, or the one after the last that a deleted model of this name had.
    """
    statement = (
        insert(ModelRow)
        .values(name=name, current_revision=1)
        .on_conflict_do_nothing()
        .returning(ModelRow.id)
    )
    model_id = session.scalars(statement).one_or_none()
    if model_id is None:
        return False
    # A statement of its own: the insertion may have waited for the deletion that retires the name.
    retired = session.scalar(
        select(RetiredModelRow.last_revision).where(RetiredModelRow.name == name)
    )
    if retired is not None:
        session.execute(
            update(ModelRow).where(ModelRow.id == model_id).values(current_revision=retired + 1)
        )
    _insert_revision(session, model_id, (retired or 0) + 1, content)
    return True


def lock_model(session: Session, name: str) -> None:
    """Lock a model against changes until this transaction ends.

    Waits for transactions that are changing it.

    A statement of its own: one that joined the revisions would look for the old revision under the
    new number, and find nothing, after it had waited for a change.
    """
    session.execute(select(ModelRow.id).where(ModelRow.name == name).with_for_update())


def read_model(session: Session, name: str, *, revision: int | None = None) -> StoredModel | None:
    """Return one revision of a model, the newest by default."""
    number = ModelRow.current_revision if revision is None else revision
    row = session.scalars(
        _select_revisions().where(ModelRow.name == name, ModelRevisionRow.number == number)
    ).one_or_none()
    if row is None:
        return None
    stored = _to_stored_model(row)
    waits_for = (
        None if row.config_digest is None else read_config_recording(session, row.config_digest)
    )
    return replace(
        stored,
        content=replace(
            stored.content,
            recording=_read_recording(session, row.architecture),
            waits_for=waits_for,
        ),
    )


def add_revision(session: Session, name: str, content: ModelContent) -> None:
    """Make ``content`` the newest revision of a locked model.

    This transaction has locked it.
    """
    change = {
        ModelRow.current_revision: ModelRow.current_revision + 1,
        ModelRow.updated_at: func.now(),
    }
    statement = update(ModelRow).where(ModelRow.name == name).values(change)
    model_id, number = session.execute(
        statement.returning(ModelRow.id, ModelRow.current_revision)
    ).one()
    _insert_revision(session, model_id, number, content)


def delete_model(session: Session, name: str) -> None:
    """Remove a model with all its revisions.

    Nothing else gets their numbers; measurements keep the revision that they ran.
    """
    last = select(ModelRow.name, ModelRow.current_revision).where(ModelRow.name == name)
    retired = insert(RetiredModelRow).from_select(["name", "last_revision"], last)
    replacement = {"last_revision": retired.excluded.last_revision}
    session.execute(retired.on_conflict_do_update(index_elements=["name"], set_=replacement))
    session.execute(delete(ModelRow).where(ModelRow.name == name))


def list_models(session: Session, request: PageRequest) -> Page[StoredModel]:
    """Return a page of models at their newest revision, newest model first."""
    statement = _select_revisions().where(ModelRevisionRow.number == ModelRow.current_revision)
    statement = paginate(
        statement, request, list_name=LIST, created_at=ModelRow.created_at, row_id=ModelRow.id
    )
    rows = session.scalars(statement).all()
    waiting = list_progress(session, {row.config_digest for row in rows if row.config_digest})
    return make_page(
        rows,
        request,
        list_name=LIST,
        position=lambda row: (row.model.created_at, row.model.id),
        value=lambda row: _add_progress(_to_stored_model(row), waiting),
    )


def _add_progress(stored: StoredModel, waiting: Mapping[str, ConfigRecording]) -> StoredModel:
    """Return a model with the progress of its recording."""
    digest = stored.content.config_digest
    if digest is None:
        return stored
    return replace(stored, content=replace(stored.content, waits_for=waiting.get(digest)))


def list_newest_versions(session: Session, names: Collection[str]) -> dict[str, str]:
    """Return the version of each existing model's newest revision.

    A cache compares itself with them.
    """
    columns = (ModelRow.name, ModelRevisionRow.id, ModelRevisionRow.config_digest)
    newest = ModelRevisionRow.number == ModelRow.current_revision
    statement = select(*columns).join(ModelRevisionRow.model)
    rows = session.execute(statement.where(newest, ModelRow.name.in_(names))).all()
    return {
        row.name: make_model_etag(row.id, is_waiting=row.config_digest is not None) for row in rows
    }


def _select_revisions() -> Select[ModelRevisionRow]:
    statement = (
        select(ModelRevisionRow)
        .join(ModelRevisionRow.model)
        .options(contains_eager(ModelRevisionRow.model))
    )
    # Rows of an earlier statement of this session would hide what was changed since.
    return statement.execution_options(populate_existing=True)


def _read_recording(session: Session, architecture: Json) -> Recording | None:
    """Return the recording that a specification names, if it names one."""
    named = architecture.get("recording")
    if not isinstance(named, dict):
        return None
    digest = str(named["digest"])
    packed = session.scalars(select(RecordingRow.packed).where(RecordingRow.digest == digest)).one()
    return Recording(digest=digest, packed=packed)


def _insert_revision(session: Session, model_id: UUID, number: int, content: ModelContent) -> None:
    if content.recording is not None:
        store_recording(session, content.recording)
    session.execute(
        insert(ModelRevisionRow).values(
            id=uuid4(),
            model_id=model_id,
            number=number,
            source=content.source,
            config_digest=content.config_digest,
            **make_content_columns(content),
        ),
    )


def _to_stored_model(revision: ModelRevisionRow) -> StoredModel:
    return StoredModel(
        name=revision.model.name,
        revision=revision.number,
        revision_id=revision.id,
        content=ModelContent(
            source=revision.source,
            architecture=revision.architecture,
            family=revision.family,
            fingerprint=revision.fingerprint,
            num_parameters=revision.num_parameters,
            num_active_parameters=revision.num_active_parameters,
            num_embedding_parameters=revision.num_embedding_parameters,
            parameters_by_module=revision.parameters_by_module,
            config_digest=revision.config_digest,
        ),
        created_at=revision.model.created_at,
        updated_at=revision.model.updated_at,
    )
