"""Recordings of the tape as it runs here, compiled where it was, and as its sources have it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import service
from service.catalog import models

_ROOT = Path(__file__).parents[4]
_PACKAGE = "service.estimator"
_CONFIGS = Path(models.__file__).with_name("configs")


class _Sources(MetaPathFinder):
    """A finder that overlooks what was compiled."""

    def find_spec(
        self, name: str, _path: object = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{name}.".startswith(f"{_PACKAGE}."):
            return None
        place = _ROOT.joinpath(*name.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        inside = [str(place)] if place.is_dir() else None
        return spec_from_file_location(name, file, submodule_search_locations=inside)


@contextmanager
def _load_interpreted() -> Iterator[None]:
    """Import the estimator anew, as its sources have it; the one that runs here comes back."""
    running = {name: sys.modules.pop(name) for name in [*sys.modules] if _is_ours(name)}
    finder = _Sources()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(running)
        service.estimator = running[_PACKAGE]  # type: ignore[attr-defined]  # imports set it


def _is_ours(name: str) -> bool:
    return f"{name}.".startswith(f"{_PACKAGE}.")


def _record(name: str, checkpointing: str, *, is_sharded: bool) -> tuple[str, str, str]:
    """Return which file records, and the points and events of a pass, in words."""
    recorder = import_module("service.estimator.passes.recorder")
    workloads = import_module("service.estimator.values.workload")
    layouts = import_module("service.estimator.values.layout")
    registry = import_module("service.estimator.model.families.registry")
    training = import_module("service.estimator.memory.training_pass")
    model = registry.architecture_from_config(json.loads((_CONFIGS / f"{name}.json").read_bytes()))
    workload = workloads.TrainWorkload(
        sequence_length=512, activation_checkpointing=workloads.Checkpointing(checkpointing)
    )
    fsdp = {"data_parallel": 3, "zero_stage": 3, "sharding": layouts.Sharding.FSDP2}
    layout = layouts.Layout(**fsdp if is_sharded else {})
    config = training.build_training_pass(model, workload, layout)
    points, events = recorder.record_training(model, config), recorder.log_training(model, config)
    return sys.modules["service.estimator.tape.graph"].__file__ or "", repr(points), repr(events)


@pytest.mark.parametrize(
    ("name", "checkpointing", "is_sharded"),
    [
        ("llama-3.2-1b", "none", False),
        ("gemma-2-2b", "full", False),
        ("mixtral-8x7b", "none", True),
        ("t5-base", "none", False),
    ],
)
def test_a_recording_is_that_of_the_sources(
    name: str,
    checkpointing: str,
    is_sharded: bool,  # noqa: FBT001 - a case
) -> None:
    """Point by point and event by event, whatever of it mypyc has compiled."""
    _, points, events = _record(name, checkpointing, is_sharded=is_sharded)
    with _load_interpreted():
        file, plain_points, plain_events = _record(name, checkpointing, is_sharded=is_sharded)

    assert file.endswith(".py")
    assert points == plain_points
    assert events == plain_events
