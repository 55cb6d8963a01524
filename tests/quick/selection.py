"""Which tests a change touches, those first that say most in least time."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from tests.quick.arrows import Sources, compute_distances, find_needs, reverse

_KINDS = ("unit", "architecture", "accuracy", "integration", "e2e", "browser", "gpu")
"""Folders of tests, from those that take milliseconds to those that start whole services."""
_HOUSE_RULES = "tests/architecture/"


def select_tests(sources: Sources, changed: Sequence[str]) -> list[str]:
    """Return the test files that changed files touch.

    Changed tests come first; then the cheaper kind, and of one kind what is nearest.
    """
    needs = find_needs(sources)
    starts = {path: _list_readers(sources, path) for path in changed}
    distances = compute_distances(reverse(needs), (at for some in starts.values() for at in some))
    nearest = {path: distance for path, distance in distances.items() if is_test(path)}
    reached = compute_distances(needs, filter(is_test, sources.texts)).keys()
    for path, readers in starts.items():
        if reached.isdisjoint(readers):
            nearest = dict.fromkeys(_list_neighbours(sources, path), 1) | nearest
    if any(path.endswith(".py") for path in changed):
        rules = (path for path in sources.texts if path.startswith(_HOUSE_RULES))
        nearest = dict.fromkeys(filter(is_test, rules), 1) | nearest
    return sorted(nearest, key=lambda path: (nearest[path] > 0, _rank(path), nearest[path], path))


def is_test(path: str) -> bool:
    """Tell whether a file holds tests."""
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")


def _list_readers(sources: Sources, path: str) -> list[str]:
    """Return a changed module itself, or the modules that read a changed file of data.

    These write its name, or that of the nearest folder above it that anybody writes.
    """
    if path in sources.texts:
        return [path]
    for name in (PurePosixPath(path).name, *_list_folders(path)):
        ends = f'{name}"', f"{name}'"
        readers = [
            reader for reader, text in sources.texts.items() if any(end in text for end in ends)
        ]
        if readers:
            return readers
    return []


def _list_folders(path: str) -> Iterator[str]:
    return (folder.name for folder in PurePosixPath(path).parents if folder.name)


def _list_neighbours(sources: Sources, path: str) -> list[str]:
    """Return the unit tests of a file's room: of its folder, or the nearest one that has some."""
    tests = [test for test in sources.texts if is_test(test)]
    for folder in PurePosixPath(path.removeprefix("service/")).parents:
        room = f"tests/unit/{folder.as_posix()}/"
        beside = [test for test in tests if test.startswith(room)]
        if beside and folder.name:
            return beside
    return []


def _rank(path: str) -> int:
    kind = path.split("/")[1]
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
