"""Recordings that end with their last name, without the collector of circles."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.passes.recorder import log_training, record_training
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Lora, Method
from tests.builders import a_training

_FULL = {"activation_checkpointing": Checkpointing.FULL}
_LORA = {"method": Method.LORA, "lora": Lora(rank=4)}


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("record", [record_training, log_training])
@pytest.mark.parametrize("words", [{}, _FULL, _LORA | _FULL], ids=["plain", "checkpoints", "lora"])
@pytest.mark.parametrize("name", ["llama-3.2-1b", "gemma-3-1b", "jamba-v0.1"])
def test_a_recording_leaves_no_circles(
    name: str, words: dict[str, Any], record: Callable[..., object]
) -> None:
    """Its nodes are freed with it: a search makes a million of them."""
    model = load_architecture(resolve_model(name))
    config = build_training_pass(model, replace(a_training(), **words), Layout())
    record(model, config)  # what is loaded for the first time may have circles of its own

    with _collecting_nothing():
        record(model, config)
        num_left = gc.collect()

    assert num_left == 0
