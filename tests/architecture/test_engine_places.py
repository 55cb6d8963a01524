"""What a serving engine costs, by the places that name one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.estimator.values.workload import Engine
from tests.architecture.modules import ROOT, Module, list_nodes, load_modules

_GUIDE = Path(ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
_OWN_FOLDER, _LAUNCH_FILES = "service/estimator/backends/{}/", "service/formats/launches/"
_SMALL = (Engine.LMDEPLOY, Engine.TGI)
"""Engines that nothing else borrows from; readers of launch files have a row of their own."""


def _iter_words(module: Module) -> Iterator[str]:
    """Return the members, words and imports of a module, without its prose."""
    for node in list_nodes(module.file):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from node.module.split(".")


def _find_places(engine: Engine) -> set[str]:
    """Return the files that name an engine, outside of its own folder."""
    names, own = {engine.name, engine.value}, _OWN_FOLDER.format(engine.value)
    places = {
        module.file.relative_to(ROOT).as_posix()
        for module in load_modules("service").values()
        if not names.isdisjoint(_iter_words(module))
    }
    return {place for place in places if not place.startswith((own, _LAUNCH_FILES))}


@pytest.mark.parametrize("engine", _SMALL)
def test_an_engine_is_named_where_the_guide_says(engine: Engine) -> None:
    """Whoever adds one finds every place in CONTRIBUTING, by its file or its folder."""
    row = next(line for line in _GUIDE.splitlines() if line.startswith("| serving engine"))
    said = tuple(word for word in row.split("`") if word.startswith("service/"))
    places = _find_places(engine)

    assert len(places) > 3
    assert {place for place in places if not place.startswith(said)} == set()
