"""Towers of recorded models that a text's step leaves idle."""

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.trained import select_trained_parameters
from service.estimator.model.recorded.narrowing import get_unread_names
from service.estimator.values.workload import Lora, Method, TrainWorkload

STEP = TrainWorkload(sequence_length=512)


@pytest.mark.parametrize(
    ("name", "idle"),
    [
        ("glm-ocr-default", 434_120_192),
        ("qwen3.5-27b", 460_730_096),
        ("voxtral-default", 662_134_784),
        ("helium-1-preview-2b", 0),
    ],
)
def test_a_tower_that_nothing_reads_has_no_gradients(name: str, idle: int) -> None:
    """It is loaded all the same, and its parameters are counted."""
    model = load_architecture(resolve_model(name))

    trained = select_trained_parameters(model, STEP)

    assert trained.trained == model.counts.total - idle
    assert (trained.idle, trained.frozen) == (idle, idle)


def test_adapters_of_an_idle_tower_are_not_stepped() -> None:
    """PEFT puts them on its linear layers too, where nobody names others."""
    model = load_architecture(resolve_model("glm-ocr-default"))
    step = TrainWorkload(sequence_length=512, method=Method.LORA, lora=Lora(rank=8))

    trained = select_trained_parameters(model, step)

    assert trained.idle > 0
    assert not {weight.name for weight, _ in trained.weights} & get_unread_names(model)
