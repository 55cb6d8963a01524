"""The journal: who ends is out of the way, and out of the journal a month later."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from service.cli.submissions.journal import Entry, Journal, find_user

ENTRY = Entry(
    id="s1",
    scheduler="slurm",
    server="http://127.0.0.1:1",
    cluster="c",
    holder="ann",
    payload="",
    placement={},
    lease_s=60,
)
MONTH_S = 30 * 86_400


def age(path: Path, seconds: float) -> None:
    """Let a file have been written so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def list_names(folder: Path) -> list[str]:
    """Return the names of all files."""
    return sorted(path.name for path in folder.iterdir())


def test_an_ended_submission_is_read_and_no_longer_looked_at(tmp_path: Path) -> None:
    """Its own command still knows it; once opened again, it is looked at again."""
    journal = Journal(folder=tmp_path)
    over = replace(ENTRY, job="1", is_over=True)
    journal.write(ENTRY)

    states = []
    for entry in (over, ENTRY, over):
        journal.write(entry)
        states.append((journal.list_open(), journal.read("s1") == entry, list_names(tmp_path)))

    assert states == [
        ([], True, ["s1.ended"]),
        (["s1"], True, ["s1.json"]),
        ([], True, ["s1.ended"]),
    ]


@pytest.mark.parametrize("step", range(1, 3))
@pytest.mark.parametrize("is_over", [True, False])
def test_a_crash_hides_no_open_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, *, is_over: bool
) -> None:
    """Whatever renaming it dies before, there is one entry, and one that is open is looked at."""
    journal = Journal(folder=tmp_path)
    journal.write(replace(ENTRY, is_over=not is_over))
    replaced, count = Path.replace, iter(range(1, 3))

    def replace_or_die(path: Path, target: Path) -> Path:
        if next(count) == step:
            raise KeyboardInterrupt
        return replaced(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_or_die)
        with pytest.raises(KeyboardInterrupt):
            journal.write(replace(ENTRY, is_over=is_over))

    entry = journal.read("s1")
    assert entry is not None
    assert len([name for name in list_names(tmp_path) if not name.endswith(".new")]) == 1
    assert entry.is_over or journal.list_open() == ["s1"]


@pytest.mark.parametrize(
    ("seconds", "left"), [(MONTH_S - 60, ["s1.ended", "s1.lock"]), (MONTH_S + 60, [])]
)
def test_a_month_after_its_end_nothing_is_left(
    tmp_path: Path, seconds: float, left: list[str]
) -> None:
    """The lock goes with the entry; what is open stays, however old."""
    journal = Journal(folder=tmp_path)
    for entry in (replace(ENTRY, is_over=True), replace(ENTRY, id="s2")):
        with journal.lock(entry.id):
            journal.write(entry)
    for path in tmp_path.iterdir():
        age(path, seconds)

    journal.prune()

    assert list_names(tmp_path) == [*left, "s2.json", "s2.lock"]


def test_what_another_process_is_at_is_not_removed(tmp_path: Path) -> None:
    """It may open a submission again that ended long ago."""
    journal = Journal(folder=tmp_path)
    with journal.lock("s1"):
        journal.write(replace(ENTRY, is_over=True))
        age(tmp_path / "s1.ended", MONTH_S + 60)

        journal.prune()

    assert list_names(tmp_path) == ["s1.ended", "s1.lock"]


def test_a_removed_lock_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opened it before its removal takes the next one, which others see."""
    journal, opened = Journal(folder=tmp_path), Path.open
    removals = iter([True])

    def open_and_lose(path: Path, mode: str) -> object:
        handle = opened(path, mode)
        if next(removals, False):
            path.unlink()
        return handle

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_and_lose)
        first = journal.lock("s1")
        is_first_free = first.__enter__()
    with journal.lock("s1") as is_second_free:
        pass
    first.__exit__(None, None, None)

    assert (is_first_free, is_second_free) == (True, False)


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as somebody whom its system does not know."""

    def fail() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", fail)

    assert find_user() == str(os.getuid())
