"""Which of our files names which, read off their text without running them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path, PurePosixPath

TREES = ("service", "worker", "migrations", "deploy", "tests", "docs/examples")
_NAME = re.compile(r"\b(?:service|worker|migrations|deploy|tests)(?:\.\w+)+(\.\{)?")
_IMPORTED = re.compile(r"^ *from ([\w.]+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_ASSEMBLED = 3
"""How far a module lies whose name a program puts together: it may be any of a folder's."""
_ROOT_CONFTEST = "tests/conftest.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The text of our Python files by path, and the path of each module."""

    texts: Mapping[str, str]
    modules: Mapping[str, str]


def read_sources(root: Path) -> Sources:
    """Read every Python file of ours below a folder."""
    files = [file for tree in TREES for file in sorted((root / tree).rglob("*.py"))]
    texts = {file.relative_to(root).as_posix(): file.read_text() for file in files}
    return make_sources(texts)


def make_sources(texts: Mapping[str, str]) -> Sources:
    """Name the modules of some files."""
    modules = {
        ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__"): path
        for path in texts
    }
    return Sources(texts=texts, modules=modules)


Arrows = Mapping[str, Mapping[str, int]]
"""Path → the paths at the other ends of its arrows, and how long each is."""


def find_needs(sources: Sources) -> Arrows:
    """Return what every file needs: what it names, directly or put together."""
    needs: dict[str, dict[str, int]] = {}
    for path in sources.texts:
        # The shorter arrows come last, and stay.
        needs[path] = dict(sorted(_list_targets(sources, path), key=lambda arrow: -arrow[1]))
    return needs


def reverse(arrows: Arrows) -> Arrows:
    """Turn every arrow around."""
    turned: dict[str, dict[str, int]] = {}
    for start, ends in arrows.items():
        for end, length in ends.items():
            turned.setdefault(end, {})[start] = length
    return turned


def compute_distances(arrows: Arrows, starts: Iterable[str]) -> dict[str, int]:
    """Return how far everything that arrows lead to is from the nearest start."""
    distances: dict[str, int] = {}
    waiting = [(0, path) for path in sorted(set(starts))]
    while waiting:
        distance, path = heappop(waiting)
        if path in distances:
            continue
        distances[path] = distance
        for end, length in arrows.get(path, {}).items():
            if end not in distances:
                heappush(waiting, (distance + length, end))
    return distances


def _list_targets(sources: Sources, path: str) -> Iterator[tuple[str, int]]:
    """Yield the files that a file needs: modules it names, and its folders' fixtures."""
    text = sources.texts[path]
    if path != _ROOT_CONFTEST:  # it makes servers known to all, which few tests ask for
        yield from ((target, 1) for target in _list_conftests(sources, path))
        for name in _list_names(text):
            if (target := _find_module(sources, name)) is not None:
                yield target, 1
    for prefix in {match[0].removesuffix("{") for match in _NAME.finditer(text) if match[1]}:
        yield from (
            (target, _ASSEMBLED)
            for name, target in sources.modules.items()
            if name.startswith(prefix)
        )


def _list_names(text: str) -> Iterator[str]:
    """Yield every dotted name, and what is imported from a package by its short one."""
    for match in _NAME.finditer(text):
        yield match[0].removesuffix(".{")
    for package, many, one in _IMPORTED.findall(text):
        yield from (f"{package}.{word}" for word in _WORD.findall(many or one))


def _find_module(sources: Sources, name: str) -> str | None:
    """Return the file of a module, which a name of something in it may follow."""
    while "." in name:
        if name in sources.modules:
            return sources.modules[name]
        name = name.rpartition(".")[0]
    return None


def _list_conftests(sources: Sources, path: str) -> Iterator[str]:
    """Yield the fixtures' files above a test."""
    for folder in PurePosixPath(path).parents:
        conftest = (folder / "conftest.py").as_posix()
        if path.startswith("tests/") and conftest in sources.texts and conftest != path:
            yield conftest
