"""Recordings that end with their last name, without the collector of circles."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.recorder import log_training, record_training
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Lora, Method
from tests.builders import a_training
from tests.tiny_models import tiny_config

_FULL = {"activation_checkpointing": Checkpointing.FULL}
_LORA = {"method": Method.LORA, "lora": Lora(rank=4)}


@pytest.fixture(autouse=True, scope="module")
def _leave_out_what_is_there() -> None:
    """Have collections here look at what these tests make, and not at a million objects of all."""
    gc.collect()
    gc.freeze()


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
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "jamba"])
def test_a_recording_leaves_no_circles(
    family: str, words: dict[str, Any], record: Callable[..., object]
) -> None:
    """Its nodes are freed with it: a search makes a million of them.

    Layers are alike, alternate, or have a period of four, which comes three times.
    """
    model = architecture_from_config(dict(tiny_config(family)) | {"num_hidden_layers": 12})
    config = build_training_pass(model, replace(a_training(), **words), Layout())
    record(model, config)  # what is loaded for the first time may have circles of its own

    with _collecting_nothing():
        record(model, config)
        num_left = gc.collect()

    assert num_left == 0
