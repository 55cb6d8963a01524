"""Models are immutable revisions under a name; the catalogue's names are nobody else's."""

import threading
from dataclasses import replace as changed

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import (
    CatalogueModelError,
    InvalidCursorError,
    ModelExistsError,
    ModelNotFoundError,
    PreconditionFailedError,
    PreconditionRequiredError,
    ServiceError,
)
from service.db.pages import PageRequest
from service.db.queries import models as queries
from service.db.records.models import ModelContent, StoredModel
from service.db.session import transaction
from service.usecases.clusters import clusters
from service.usecases.stored_specs import models
from tests.locks import wait_for_blocked_transaction

CONTENT = ModelContent(
    source={
        "hf_config": {
            "model_type": "llama",
            "hidden_size": 4096,
            "rms_norm_eps": 1e-06,
            "tags": ["a", None, True],
        },
    },
    architecture={"family": "llama", "hidden_size": 4096},
    family="llama",
    fingerprint="ab" * 32,
    num_parameters=6_738_415_616,
    num_active_parameters=6_738_415_616,
    num_embedding_parameters=131_072_000,
    parameters_by_module={"attention": 2_147_483_648, "mlp": 4_328_521_728},
)
OTHER = changed(CONTENT, family="qwen2", source={"architecture": {"family": "qwen2"}})
CATALOGUE = ("gpt2", "llama-2-7b", "mixtral-8x7b")


def create(
    sessions: sessionmaker[Session], name: str, content: ModelContent = CONTENT
) -> StoredModel:
    """Store a model under a name that the catalogue may claim."""
    return models.create(sessions, name=name, content=content, in_catalogue=CATALOGUE.__contains__)


def replace(sessions: sessionmaker[Session], name: str, *, if_match: str | None) -> StoredModel:
    """Store the other content as the next revision."""
    return models.replace(
        sessions, name, content=OTHER, if_match=if_match, in_catalogue=CATALOGUE.__contains__
    )


def delete(sessions: sessionmaker[Session], name: str, *, if_match: str | None = "*") -> None:
    """Remove a model."""
    models.delete(sessions, name, if_match=if_match, in_catalogue=CATALOGUE.__contains__)


def quoted(stored: StoredModel) -> str:
    """Return the ETag as the header carries it."""
    return f'"{stored.etag}"'


def test_what_is_stored_comes_back(sessions: sessionmaker[Session]) -> None:
    """The source is kept to the letter, beside what was understood by it."""
    created = create(sessions, "mine")

    assert created == models.read(sessions, "mine") == models.find(sessions, "mine")
    assert (created.name, created.revision, created.content) == ("mine", 1, CONTENT)


def test_a_replacement_adds_a_revision(sessions: sessionmaker[Session]) -> None:
    """The newest revision is what a name means; the older one can still be read, unchanged, under
    its own id.
    """
    old = create(sessions, "mine")
    new = replace(sessions, "mine", if_match=quoted(old))

    assert (new.revision, new.content) == (2, OTHER)
    assert models.read(sessions, "mine") == new
    first = models.read(sessions, "mine", revision=1)
    assert (first.content, first.revision_id) == (old.content, old.revision_id)


def test_a_model_that_is_not_there(sessions: sessionmaker[Session]) -> None:
    """A missing name and a missing revision are told apart."""
    create(sessions, "mine")

    assert models.find(sessions, "x") is None
    with pytest.raises(ModelNotFoundError, match=r"no stored model 'x'$"):
        models.read(sessions, "x")
    with pytest.raises(ModelNotFoundError, match="'mine' with a revision 2"):
        models.read(sessions, "mine", revision=2)
    with pytest.raises(ModelNotFoundError):
        replace(sessions, "x", if_match="*")
    with pytest.raises(ModelNotFoundError):
        delete(sessions, "x")


def test_a_name_is_taken_once(sessions: sessionmaker[Session]) -> None:
    """Neither a stored name nor one of the catalogue can be stored again."""
    first = create(sessions, "mine")

    with pytest.raises(ModelExistsError, match="PUT"):
        create(sessions, "mine", OTHER)
    with pytest.raises(ModelExistsError, match="catalogue"):
        create(sessions, "gpt2")

    assert models.read(sessions, "mine") == first
    assert models.find(sessions, "gpt2") is None


def test_two_who_take_a_name_at_once(sessions: sessionmaker[Session]) -> None:
    """One gets it, the other is told, and neither sees an error of the database."""
    barrier = threading.Barrier(8)
    refusals: list[ServiceError] = []

    def take() -> None:
        barrier.wait()
        try:
            create(sessions, "wanted")
        except ServiceError as error:
            refusals.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [type(refusal) for refusal in refusals] == [ModelExistsError] * 7
    assert models.read(sessions, "wanted").revision == 1


def test_the_catalogue_cannot_be_changed(sessions: sessionmaker[Session]) -> None:
    """Who tries is told that it is the catalogue's, not that there is no such model."""
    with pytest.raises(CatalogueModelError, match="another name"):
        replace(sessions, "gpt2", if_match="*")
    with pytest.raises(CatalogueModelError, match="another name"):
        delete(sessions, "gpt2")


def test_a_change_of_the_catalogue_needs_if_match_as_well(sessions: sessionmaker[Session]) -> None:
    """What a request lacks comes before what it may not do; it is told both."""
    with pytest.raises(
        PreconditionRequiredError, match="needs If-Match, and 'gpt2' is a model of the catalogue"
    ):
        replace(sessions, "gpt2", if_match=None)
    with pytest.raises(
        PreconditionRequiredError, match="needs If-Match, and 'gpt2' is a model of the catalogue"
    ):
        delete(sessions, "gpt2", if_match=None)


def test_a_change_needs_the_version_that_was_seen(sessions: sessionmaker[Session]) -> None:
    """Without If-Match 428, with a stale one 412, and in both cases nothing is changed."""
    old = create(sessions, "mine")
    new = replace(sessions, "mine", if_match=quoted(old))

    with pytest.raises(PreconditionRequiredError):
        replace(sessions, "mine", if_match=None)
    with pytest.raises(PreconditionFailedError):
        replace(sessions, "mine", if_match=quoted(old))
    with pytest.raises(PreconditionFailedError):
        delete(sessions, "mine", if_match=quoted(old))

    assert models.read(sessions, "mine") == new


def test_who_waited_for_another_change_is_told(sessions: sessionmaker[Session]) -> None:
    """The one who comes second learns that what he saw is stale, and not that the model is
    missing.
    """
    stored = create(sessions, "mine")
    refusals: list[ServiceError] = []

    def replace_later() -> None:
        try:
            replace(sessions, "mine", if_match=quoted(stored))
        except ServiceError as error:
            refusals.append(error)

    with transaction(sessions) as session:
        queries.lock_model(session, "mine")
        queries.add_revision(session, "mine", OTHER)
        thread = threading.Thread(target=replace_later)
        thread.start()
        wait_for_blocked_transaction(sessions)
    thread.join()

    assert [type(refusal) for refusal in refusals] == [PreconditionFailedError]
    assert models.read(sessions, "mine").revision == 2


def test_a_deleted_model_is_gone_with_its_revisions(sessions: sessionmaker[Session]) -> None:
    """Its name is free, but not their numbers: a link to revision 1 must never show another
    model.
    """
    first = create(sessions, "mine")
    earlier = replace(sessions, "mine", if_match=quoted(first))
    delete(sessions, "mine", if_match=quoted(earlier))
    with transaction(sessions) as session:
        assert session.execute(text("SELECT count(*) FROM model_revisions")).scalar_one() == 0
    again = create(sessions, "mine")

    assert again.revision == earlier.revision + 1 == 3
    with pytest.raises(ModelNotFoundError):
        models.read(sessions, "mine", revision=1)
    with pytest.raises(PreconditionFailedError):
        delete(sessions, "mine", if_match=quoted(earlier))
    delete(sessions, "mine", if_match=quoted(again))
    assert create(sessions, "mine").revision == 4


def test_versions_tell_a_cache_what_changed(sessions: sessionmaker[Session]) -> None:
    """A name that is absent is gone, one with another version has changed; names that nobody asked
    for are left out.
    """
    same, old = create(sessions, "same"), create(sessions, "old")
    create(sessions, "unasked")
    new = replace(sessions, "old", if_match=quoted(old))

    assert models.read_versions(sessions, ["same", "old", "never"]) == {
        "same": same.etag,
        "old": new.etag,
    }


def test_stored_models_come_before_the_catalogue(sessions: sessionmaker[Session]) -> None:
    """One cursor leads through both: stored ones newest first, then the catalogue's names in
    order.
    """
    for name in ("first", "second", "third"):
        create(sessions, name)
    for limit in (1, 2, 3, 4, 6, 7):
        page = models.list_page(sessions, PageRequest(limit=limit), catalogue=reversed(CATALOGUE))
        seen = list(page.items)
        while page.next_cursor is not None:
            assert len(page.items) == limit
            page = models.list_page(
                sessions, PageRequest(limit=limit, cursor=page.next_cursor), catalogue=CATALOGUE
            )
            seen += page.items

        names = [item if isinstance(item, str) else item.name for item in seen]
        assert names == ["third", "second", "first", *CATALOGUE]


def test_a_catalogue_alone_is_a_list(sessions: sessionmaker[Session]) -> None:
    """With nothing stored the list begins with the catalogue, and without one it is empty."""
    page = models.list_page(sessions, PageRequest(limit=2), catalogue=CATALOGUE)
    rest = models.list_page(
        sessions, PageRequest(limit=2, cursor=page.next_cursor), catalogue=CATALOGUE
    )

    assert (page.items, rest.items, rest.next_cursor) == (
        ("gpt2", "llama-2-7b"),
        ("mixtral-8x7b",),
        None,
    )
    assert models.list_page(sessions, PageRequest()).items == ()


def test_a_list_shows_the_newest_revision_once(sessions: sessionmaker[Session]) -> None:
    """A model with two revisions is one item."""
    stored = create(sessions, "mine")
    new = replace(sessions, "mine", if_match=quoted(stored))

    assert models.list_page(sessions, PageRequest()).items == (new,)


def test_a_cursor_of_another_list_is_refused(sessions: sessionmaker[Session]) -> None:
    """A cursor into the models means nothing among clusters."""
    create(sessions, "a")
    create(sessions, "b")
    cursor = models.list_page(sessions, PageRequest(limit=1)).next_cursor
    names_cursor = models.list_page(sessions, PageRequest(limit=2), catalogue=CATALOGUE).next_cursor

    assert cursor is not None
    assert names_cursor is not None
    for foreign in (cursor, names_cursor):
        with pytest.raises(InvalidCursorError):
            clusters.list_page(sessions, PageRequest(cursor=foreign))
