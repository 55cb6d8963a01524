"""Deadlines of processes, by a clock and a host that tests move."""

from pathlib import Path

import pytest

from service.runtime.deadline import Allowance, DeadlineExceeded, DeadlineWatch, read_waited_s

DEADLINE_S, LIMIT_S = 600.0, 1800.0


@pytest.mark.parametrize(
    ("elapsed_s", "waited_s", "limit_s", "is_over"),
    [
        (600.0, 0.0, LIMIT_S, False),
        (601.0, 0.0, LIMIT_S, True),
        # Planned for 28 s: niced, beside programs that take nine tenths of the host.
        (1200.0, 1172.0, LIMIT_S, False),
        (1200.0, 590.0, LIMIT_S, True),
        (1800.0, 1790.0, LIMIT_S, False),
        (1801.0, 1791.0, LIMIT_S, True),
        (601.0, 590.0, None, True),
    ],
)
def test_time_without_a_processor_is_not_counted(
    elapsed_s: float, waited_s: float, limit_s: float | None, *, is_over: bool
) -> None:
    """A host that is busy moves the deadline, up to a limit."""
    now = 5.0
    watch = DeadlineWatch(
        allowance=Allowance(deadline_s=DEADLINE_S, limit_s=limit_s),
        read_waited_s=lambda: waited_s,
        clock=lambda: now,
    )
    now += elapsed_s

    exceeded = watch.check()

    told_s = 0.0 if limit_s is None else waited_s
    assert exceeded == (
        DeadlineExceeded(deadline_s=DEADLINE_S, waited_s=told_s) if is_over else None
    )


def test_waiting_is_that_of_the_thread_that_waited_most(tmp_path: Path) -> None:
    """Threads wait side by side; one may be gone, or tell nothing."""
    texts = {"7": "41000000 3000000000 12\n", "8": "9000000 5500000000 3\n", "9": ""}
    for thread, text in texts.items():
        folder = tmp_path / "7/task" / thread
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)

    assert read_waited_s(7, tmp_path) == 5.5
    assert read_waited_s(6, tmp_path) == 0.0
