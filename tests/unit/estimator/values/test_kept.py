"""What takes long is not made where kept values alone are used."""

import pytest

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Section
from service.estimator.values.memo import Memo, make_of_kept


def record() -> Tape:
    """Begin a recording."""
    return Tape(Section.FORWARD, Mode.RECORDING)


def test_a_recording_that_is_not_kept_is_not_made() -> None:
    """What is kept of it is used; elsewhere it is made as ever."""
    memo: Memo[Tape] = Memo(1)
    before = make_of_kept(lambda: memo.get_or_make("tape", record))
    kept = memo.get_or_make("tape", record)

    assert before is None
    assert make_of_kept(lambda: memo.get_or_make("tape", record)) is kept


def test_an_error_on_the_way_ends_it() -> None:
    """What is asked next may make anything again."""

    def fail() -> None:
        message = "the question cannot be answered"
        raise ValueError(message)

    with pytest.raises(ValueError, match="cannot be answered"):
        make_of_kept(fail)

    assert record().mode is Mode.RECORDING
