"""Failures that others published are read and explained as they must be."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from service.base.explain_errors import NothingToExplainError
from service.contract.to_answer.explanations import build_explain_answer
from service.usecases.postmortem.explain import explain_data
from service.usecases.postmortem.values import Explanation
from tests.unit.usecases.postmortem.corpus import Published, load_corpus

ROWS = tuple(load_corpus())


def summarize(explanation: Explanation) -> dict[str, Any]:
    """Return what the corpus may expect of an explanation."""
    cause = explanation.cause
    change = next((each for each in explanation.changes if each.setting), None)
    if change is not None and change.cause is not cause.name:
        change = None
    return {
        "cause": cause.name,
        "certainty": cause.certainty,
        "instant": None if explanation.place is None else explanation.place.instant,
        "gpu": explanation.failure.gpu,
        "rank": explanation.failure.rank,
        "release": explanation.failure.release,
        "engine": explanation.engine,
        "speaker": explanation.failure.speaker,
        "own_pid": explanation.balance.process_pid,
        "setting": None if change is None else change.setting,
        "fits": None if change is None else change.fits,
    }


@pytest.mark.parametrize(
    "published", ROWS, ids=[f"{index}-{row.source[19:]}" for index, row in enumerate(ROWS)]
)
def test_a_published_failure_is_explained(published: Published) -> None:
    """Cause, certainty, instant and setting are those that the numbers give."""
    explanation = explain_data(published.text.encode())

    summary = summarize(explanation)
    assert {name: summary[name] for name in published.expected} == published.expected


def test_the_corpus_is_broad() -> None:
    """It has dozens of threads, every speaker of size, and most causes."""
    causes = Counter(row.expected["cause"] for row in ROWS)

    assert len({row.source for row in ROWS}) >= 40
    assert len(causes) >= 12
    assert max(causes.values()) < len(ROWS) / 2


def test_every_number_has_its_line_and_digits() -> None:
    """A number of the third line says so, and lies between what is printed alike."""
    text = (
        "step 1\nstep 2\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. "
        "GPU 2 has a total capacity of 14.61 GiB of which 1.99 GiB is free."
    )

    explanation = explain_data(text.encode())

    requested = explanation.failure.amounts[0]
    assert (requested.line, requested.text) == (3, "3.91 GiB")
    assert requested.span.low == round(3.905 * 2**30)
    assert requested.span.high == round(3.915 * 2**30)


def test_the_last_round_counts() -> None:
    """A program that tries again with a smaller batch fails of its last try."""
    message = "CUDA out of memory. Tried to allocate {}.00 GiB. GPU 0 has a total capacity of"
    text = "\n".join(f"[rank0]: {message.format(size)}" for size in (8, 4, 2))

    explanation = explain_data(text.encode())

    assert explanation.balance.requested is not None
    assert explanation.balance.requested.value == 2 * 2**30
    assert len(explanation.log.failures) == 3


def test_ranks_of_one_round_have_one_failure() -> None:
    """Of ranks that fail together the first is shown."""
    message = "CUDA out of memory. Tried to allocate 8.00 GiB. GPU {0} has a total capacity of"
    lines = (f"[rank{rank}]: {message.format(rank)} 80.00 GiB of which 1.00 GiB" for rank in "12")
    text = "\n".join(f"{line} is free." for line in lines)

    explanation = explain_data(text.encode())

    assert (explanation.failure.rank, explanation.failure.gpu) == ("1", 1)


def test_a_text_that_was_cut_is_explained_or_refused() -> None:
    """Wherever a message ends, nothing but a refusal in words comes of it."""
    texts = [row.text[: len(row.text) * part // 7] for row in ROWS for part in range(1, 7)]

    outcomes = Counter(is_explained(text) for text in texts)

    assert outcomes[True] > 200
    assert outcomes[False] > 100


def is_explained(text: str) -> bool:
    """Return whether a text is explained, by an answer that JSON can hold."""
    try:
        answer = build_explain_answer(explain_data(text.encode()), None)
    except NothingToExplainError:
        return False
    return bool(msgspec.json.encode(answer))
