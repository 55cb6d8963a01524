"""The bound of what a process keeps."""

from service.usecases.operations.kept_memory import KeptMemory


class Process:
    """A process whose memory is a number."""

    def __init__(self, kept: int, rest: int) -> None:
        """Have so much that can be forgotten, and so much beside it."""
        self.kept, self.rest, self.num_emptied = kept, rest, 0

    def empty(self) -> None:
        """Forget."""
        self.kept, self.num_emptied = 0, self.num_emptied + 1

    def count(self) -> int:
        """Return all memory."""
        return self.kept + self.rest


def guard(process: Process) -> KeptMemory:
    """Return the guard of a process with a bound of 100."""
    return KeptMemory(
        process.empty, count=process.count, count_blocks=lambda: process.kept, max_bytes=100
    )


def test_a_process_within_its_bound_forgets_nothing() -> None:
    """What is kept stays while there is room."""
    process = Process(kept=0, rest=20)
    memory = guard(process)
    process.kept = 80

    memory.check()

    assert (process.kept, process.num_emptied) == (80, 0)


def test_a_process_beyond_its_bound_forgets_and_says_so() -> None:
    """The caches are emptied, and that is counted."""
    process, told = Process(kept=0, rest=20), list[object]()
    memory = KeptMemory(
        process.empty,
        on_count=told.append,
        on_empty=lambda: told.append("emptied"),
        count=process.count,
        count_blocks=lambda: process.kept,
        max_bytes=100,
    )
    process.kept = 81

    memory.check()

    assert (process.kept, told) == (0, [101, "emptied"])


def test_what_was_there_before_the_guard_empties_nothing() -> None:
    """A process that begins beyond its bound has nothing to forget yet, but what comes to it."""
    process = Process(kept=0, rest=300)
    memory = guard(process)

    for kept in (25, 26):
        process.kept = kept
        memory.check()

    assert (process.num_emptied, process.kept) == (1, 0)


def test_what_cannot_be_given_back_empties_no_cache_again() -> None:
    """A process that is too large without what it keeps forgets once in a quarter of its bound, not
    at each look.
    """
    process = Process(kept=0, rest=120)
    memory = guard(process)

    for kept in (50, 10, 25, 26):
        process.kept = kept
        memory.check()

    assert process.num_emptied == 2
    assert process.kept == 0


def test_a_bar_does_not_rise_where_nothing_is_given_back() -> None:
    """Python keeps what is freed and uses it again: what is in use has a bound of its own, that of
    the first time, and memory comes to an end.
    """
    process = Process(kept=0, rest=20)
    high_bytes = most_bytes = 0

    def count() -> int:
        nonlocal high_bytes
        high_bytes = max(high_bytes, process.kept + process.rest)
        return high_bytes

    memory = KeptMemory(
        process.empty,
        count=count,
        count_blocks=lambda: process.kept + process.rest,
        max_bytes=100,
    )
    for _ in range(1000):
        process.kept += 1
        memory.check()
        most_bytes = max(most_bytes, high_bytes)

    assert process.num_emptied > 10
    assert most_bytes <= 102
