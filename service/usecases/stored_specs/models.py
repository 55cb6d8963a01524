"""Store, read, replace and remove models.

A change never touches a revision, it adds one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import (
    CatalogueModelError,
    ModelExistsError,
    ModelNotFoundError,
    PreconditionRequiredError,
)
from service.db.pages import Page, PageRequest, get_reached_name, make_page_of_names
from service.db.queries import models as queries
from service.db.records.models import ModelContent, StoredModel
from service.db.session import transaction
from service.usecases.preconditions import check_if_match
from service.usecases.recordings.queue import RecordingQueue
from service.usecases.recordings.recorder import StaticPart
from service.usecases.stored_specs.recorded import cancel_unwanted, notify_of, place_content

InCatalogue = Callable[[str], bool]
"""Returns whether a name or an alias belongs to the catalogue, which no stored model may shadow."""


def create(
    sessions: sessionmaker[Session],
    *,
    name: str,
    content: ModelContent,
    in_catalogue: InCatalogue,
    queue: RecordingQueue | None = None,
    weights: StaticPart | None = None,
) -> StoredModel:
    """Store a new model.

    Its name must be free, in the catalogue too. Its revisions go on counting after those of a
    deleted model of this name. One that waits for a recording is queued with it, with the
    ``weights`` that were counted.
    """
    if in_catalogue(name):
        message = f"{name!r} is a model of the catalogue; choose another name"
        raise ModelExistsError(message, name=name)
    with transaction(sessions) as session:
        content, payload = place_content(session, content, queue, weights)
        if not queries.create_model(session, name, content):
            message = (
                f"there is a model {name!r}; store a new revision of it with PUT, or choose "
                "another name"
            )
            raise ModelExistsError(message, name=name)
        stored = _read(session, name)
    notify_of(queue, payload)
    return stored


def read(sessions: sessionmaker[Session], name: str, *, revision: int | None = None) -> StoredModel:
    """Return a stored model at a revision, by default the newest."""
    with transaction(sessions) as session:
        return _read(session, name, revision=revision)


def find(sessions: sessionmaker[Session], name: str) -> StoredModel | None:
    """Return a stored model at its newest revision, if any."""
    with transaction(sessions) as session:
        return queries.read_model(session, name)


def replace(  # noqa: PLR0913 - a model, and what a config without a module needs beside
    sessions: sessionmaker[Session],
    name: str,
    *,
    content: ModelContent,
    if_match: str | None,
    in_catalogue: InCatalogue,
    queue: RecordingQueue | None = None,
    weights: StaticPart | None = None,
) -> StoredModel:
    """Add a revision to the model whose ETag the caller has seen."""
    _refuse_catalogue(name, in_catalogue, if_match)
    with transaction(sessions) as session:
        queries.lock_model(session, name)
        check_if_match(if_match, _read(session, name).etag)
        content, payload = place_content(session, content, queue, weights)
        queries.add_revision(session, name, content)
        stored = _read(session, name)
    notify_of(queue, payload)
    return stored


def delete(
    sessions: sessionmaker[Session], name: str, *, if_match: str | None, in_catalogue: InCatalogue
) -> None:
    """Remove all revisions of the model whose ETag was seen."""
    _refuse_catalogue(name, in_catalogue, if_match)
    with transaction(sessions) as session:
        queries.lock_model(session, name)
        stored = _read(session, name)
        check_if_match(if_match, stored.etag)
        with cancel_unwanted(session, stored.content):
            queries.delete_model(session, name)


def list_page(
    sessions: sessionmaker[Session], request: PageRequest, *, catalogue: Iterable[str] = ()
) -> Page[StoredModel | str]:
    """Return a page of stored models, then of catalogue names.

    Stored models come newest first, and after the last of them the names of the catalogue.
    """
    reached = get_reached_name(request, list_name=queries.LIST)
    if reached is not None:
        return make_page_of_names(
            catalogue, after_name=reached, limit=request.limit, list_name=queries.LIST
        )
    with transaction(sessions) as session:
        stored = queries.list_models(session, request)
    if stored.next_cursor is not None:
        return stored
    catalogue_page = make_page_of_names(
        catalogue, after_name="", limit=request.limit - len(stored.items), list_name=queries.LIST
    )
    return Page(
        items=(*stored.items, *catalogue_page.items), next_cursor=catalogue_page.next_cursor
    )


def read_versions(sessions: sessionmaker[Session], names: Collection[str]) -> Mapping[str, str]:
    """Return the ETag of each stored model of ``names``.

    A cache of models compares itself with them.
    """
    with transaction(sessions) as session:
        return queries.list_newest_versions(session, names)


def _read(session: Session, name: str, *, revision: int | None = None) -> StoredModel:
    stored = queries.read_model(session, name, revision=revision)
    if stored is None:
        which = "" if revision is None else f" with a revision {revision}"
        message = f"there is no stored model {name!r}{which}"
        raise ModelNotFoundError(message, name=name)
    return stored


def _refuse_catalogue(name: str, in_catalogue: InCatalogue, if_match: str | None) -> None:
    if not in_catalogue(name):
        return
    message = (
        f"{name!r} is a model of the catalogue, which cannot be changed; store yours under another "
        "name"
    )
    if if_match is None:
        raise PreconditionRequiredError(f"every change needs If-Match, and {message}")
    raise CatalogueModelError(message, name=name)
