"""The in-process book of models: what reaches storage, and what is noticed when."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from service.base.errors import UnknownModelError
from service.usecases.stored_specs.spec_cache import MAX_STORED_MODELS, NamedModel, SpecCache
from tests.unit.usecases.builders import named_model


@dataclass
class FakeStore:
    """Storage that counts how often it is asked."""

    models: dict[str, NamedModel] = field(default_factory=dict)
    num_reads: int = 0

    def read(self, name: str) -> NamedModel | None:
        """Return a stored model."""
        self.num_reads += 1
        return self.models.get(name)

    def versions(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the versions of those of ``names`` that are stored."""
        return {name: self.models[name].version for name in names if name in self.models}


def book_on(store: FakeStore, *catalogue: str) -> SpecCache:
    """Return a book over a store and a catalogue."""
    known = {name: named_model(name) for name in catalogue}
    return SpecCache(
        read_catalogue=known.get,
        read_stored=store.read,
        read_versions=store.versions,
        known_names=lambda: known,
    )


def test_catalogue_names_never_reach_storage() -> None:
    """A name of the catalogue is at hand at once, also for ``load``."""
    store = FakeStore()
    book = book_on(store, "llama-2-7b")

    assert book.get_cached("llama-2-7b") is book.load("llama-2-7b")
    assert store.num_reads == 0


def test_stored_names_are_read_once() -> None:
    """The second question for a stored name asks nobody."""
    store = FakeStore(models={"mine": named_model("mine")})
    book = book_on(store)

    assert book.get_cached("mine") is None
    assert book.load("mine") is book.load("mine") is book.get_cached("mine")
    assert store.num_reads == 1


def test_a_cleared_book_reads_everything_again() -> None:
    """What was recorded takes megabytes: no model outlives the clearing."""
    store = FakeStore(models={"mine": named_model("mine")})
    catalogue = FakeStore(models={"llama-2-7b": named_model("llama-2-7b")})
    book = SpecCache(
        read_catalogue=catalogue.read,
        read_stored=store.read,
        read_versions=store.versions,
        known_names=lambda: catalogue.models,
    )
    for _ in range(2):
        assert book.load("llama-2-7b") is not None
        assert book.load("mine") is not None
    assert (catalogue.num_reads, store.num_reads) == (2, 1)

    book.clear()

    assert book.load("llama-2-7b") is not None
    assert book.load("mine") is not None
    assert (catalogue.num_reads, store.num_reads) == (4, 2)


def test_unknown_names_are_asked_for_again() -> None:
    """A name that nobody stored is not remembered as missing: it may be stored a moment later."""
    store = FakeStore()
    book = book_on(store)

    assert book.load("mine") is None

    store.models["mine"] = named_model("mine")

    assert book.load("mine") is store.models["mine"]


@pytest.mark.parametrize("version", ["second", None])
def test_refresh_notices_what_others_changed(version: str | None) -> None:
    """After a refresh a model that another process replaced or deleted is read again."""
    store = FakeStore(
        models={"mine": named_model("mine", version="first"), "other": named_model("other")}
    )
    book = book_on(store)
    book.load("mine")
    kept = book.load("other")
    store.models.pop("mine")
    if version is not None:
        store.models["mine"] = named_model("mine", version=version)

    book.refresh()

    assert book.get_cached("mine") is None
    assert book.load("mine") is store.models.get("mine")
    assert book.get_cached("other") is kept


def test_forget_reaches_a_read_that_is_under_way() -> None:
    """A change between reading and keeping is not hidden by the older value."""
    old, new = named_model("mine", version="old"), named_model("mine", version="new")
    answers = [old, new]
    books: list[SpecCache] = []

    def read(_name: str) -> NamedModel:
        answer = answers.pop(0)
        if answer is old:
            books[0].forget("mine")
        return answer

    books.append(
        SpecCache(
            read_catalogue=lambda _name: None,
            read_stored=read,
            read_versions=lambda _names: {},
            known_names=list,
        ),
    )

    assert books[0].load("mine") is old
    assert books[0].load("mine") is new


def test_unknown_names_are_refused_with_the_nearest() -> None:
    """A misspelt name is answered with the names that look like it."""
    with pytest.raises(UnknownModelError, match="llama-2-7b"):
        book_on(FakeStore(), "llama-2-7b").require("lama-2-7b")


def test_book_is_bounded() -> None:
    """The oldest stored model leaves when the book is full."""
    names = [f"m{number}" for number in range(MAX_STORED_MODELS + 1)]
    store = FakeStore(models={name: named_model(name) for name in names})
    book = book_on(store)

    for name in names:
        book.load(name)

    assert book.get_cached(names[0]) is None
    assert book.get_cached(names[-1]) is not None
