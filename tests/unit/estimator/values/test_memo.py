"""Memos: values that are made once, and dropped when there are too many."""

from service.estimator.values.memo import Memo


def test_a_value_is_made_once() -> None:
    """What is kept is not made again."""
    memo: Memo[list[int]] = Memo(1)

    first, again = (memo.get_or_make("key", list) for _ in range(2))

    assert first is again


def test_the_oldest_value_is_dropped_first() -> None:
    """A memo keeps as many as it is made for, the newest of them."""
    memo: Memo[int] = Memo(2)

    for number in range(3):
        memo.store(number, number)

    assert [memo.get(number) for number in range(3)] == [None, 1, 2]
    assert len(memo) == 2


def test_nothing_is_dropped_before_a_memo_is_full() -> None:
    """A memo that is more than half full keeps its oldest values too."""
    memo: Memo[int] = Memo(10)

    for number in range(10):
        memo.store(number, number)

    assert [memo.get(number) for number in range(10)] == list(range(10))
