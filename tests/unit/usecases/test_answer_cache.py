"""The cache of finished answers: what it keeps, for how long, and in how many bytes."""

from service.usecases.questions.answer_cache import (
    MAX_ASKED,
    OVERHEAD_BYTES,
    AnswerCache,
    FinishedAnswer,
    build_etag,
)


def an_answer(body: bytes = b"{}", *, model: str | None = None) -> FinishedAnswer:
    """Return an answer, about revision 1 of a model if any."""
    version = None if model is None else "1"
    return FinishedAnswer(
        body=body, etag=build_etag(body), counted_as="fits", model=model, model_version=version
    )


def find(
    cache: AnswerCache, question: bytes, *, learnt: int = 0, version: str | None = "1"
) -> FinishedAnswer | None:
    """Return what is kept of a question, at a version of every model."""
    return cache.find(question, calibrations=learnt, get_model_version=lambda _name: version)


def ask(cache: AnswerCache, question: bytes, answer: FinishedAnswer, *, learnt: int = 0) -> None:
    """Ask a question that is worked out."""
    find(cache, question, learnt=learnt)
    cache.store(question, answer, calibrations=learnt)


def ask_twice(cache: AnswerCache, question: bytes, answer: FinishedAnswer) -> None:
    """Ask a question twice, after which it is kept."""
    ask(cache, question, answer)
    ask(cache, question, answer)


def test_an_answer_is_kept_from_the_second_time_on() -> None:
    """A sweep asks each question once, and fills nothing."""
    cache = AnswerCache()
    ask(cache, b"a", an_answer())
    once = find(cache, b"a")
    ask(cache, b"a", an_answer())

    assert once is None
    assert find(cache, b"a") == an_answer()
    assert find(cache, b"b") is None


def test_a_question_is_remembered_for_a_while() -> None:
    """Not for ever: as many questions as were asked in between make it a first one again."""
    cache = AnswerCache()
    ask(cache, b"a", an_answer())
    for number in range(2 * MAX_ASKED):
        ask(cache, b"%d" % number, an_answer())
    ask(cache, b"a", an_answer())

    assert find(cache, b"a") is None
    assert cache.num_bytes == 0


def test_it_never_holds_more_bytes_than_it_may() -> None:
    """The answer that was asked for longest ago goes first."""
    size = 1000 + 1 + OVERHEAD_BYTES
    cache = AnswerCache(max_bytes=10 * size)
    for question in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j"):
        ask_twice(cache, question, an_answer(b"x" * 1000))
    find(cache, b"a")
    ask_twice(cache, b"k", an_answer(b"x" * 1000))

    assert cache.num_bytes == 10 * size
    assert find(cache, b"b") is None
    assert find(cache, b"a") is not None


def test_what_is_too_long_displaces_nothing() -> None:
    """An answer that needs more than its share of the room is not kept."""
    cache = AnswerCache(max_bytes=8 * (1000 + OVERHEAD_BYTES))
    ask_twice(cache, b"a", an_answer())
    ask_twice(cache, b"long", an_answer(b"x" * 1000))

    assert find(cache, b"long") is None
    assert find(cache, b"a") is not None


def test_an_answer_ends_with_its_model_version() -> None:
    """Another revision, or none that the process knows of, is another answer."""
    cache = AnswerCache()
    for version in ("2", None):
        ask_twice(cache, b"a", an_answer(model="tiny"))

        assert find(cache, b"a") is not None
        assert find(cache, b"a", version=version) is None
        assert cache.num_bytes == 0


def test_a_model_that_was_brought_along_has_no_version() -> None:
    """The question itself says everything of it."""
    cache = AnswerCache()
    ask_twice(cache, b"a", an_answer())

    assert find(cache, b"a", version=None) is not None


def test_everything_ends_when_something_is_learnt() -> None:
    """Whichever key was measured, its pool may have moved every answer."""
    cache = AnswerCache()
    ask_twice(cache, b"a", an_answer())

    assert find(cache, b"a", learnt=1) is None
    assert cache.num_bytes == 0


def test_an_answer_that_was_overtaken_is_not_kept() -> None:
    """What was learnt while it was worked out may be in it or not."""
    cache = AnswerCache()
    ask(cache, b"a", an_answer(), learnt=1)
    find(cache, b"b", learnt=2)
    cache.store(b"a", an_answer(), calibrations=1)

    assert find(cache, b"a", learnt=2) is None


def test_equal_bytes_have_equal_tags() -> None:
    """On every server, and after every start."""
    assert build_etag(b"{}") == "44136fa355b3678a1146ad16f7e8649e"
    assert build_etag(b"[]") != build_etag(b"{}")
