"""PEFT's other methods are timed as the adapters that they come down to."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_device
from service.estimator.backends.pass_cache import MAX_PASSES
from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.speed.throughput import WorkCache
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.builders import a_model

H100 = resolve_device("H100-SXM5-80GB")
FULL = TrainWorkload(sequence_length=512)


def time_step(workload: TrainWorkload) -> float:
    """Return the seconds of a step."""
    timer = WorkCache(MAX_PASSES).get_timer(a_model(), workload, H100)
    return timer.estimate_step_s(workload, Layout()) or 0.0


@pytest.mark.parametrize("method", ["lora", "ia3", "miss"])
def test_a_method_takes_the_time_of_its_adapters(method: str) -> None:
    """A step trains less than the whole model, and what its adapters are."""
    asked = replace(FULL, method=Method.PEFT, peft=method)

    resolved = resolve_peft_method(a_model(), asked)
    assert isinstance(resolved.lora, Lora)
    assert time_step(asked) == time_step(resolved)
    assert time_step(resolved) != time_step(FULL)
