"""Backends by name: each is one value, and one line of the registry."""

from importlib import import_module

import pytest

from service.estimator.backends import registry
from service.estimator.backends.registry import BACKENDS, get_backend, select_backend
from service.estimator.estimate import estimate
from service.estimator.values.backend import Task
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, Framework, ServeWorkload
from tests.builders import a_device, a_model, a_training

_SERVING = ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.VLLM, engine_version="2.0")


@pytest.fixture
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = {"vllm": "tests.unit.estimator.backends.fake_backend"}
    monkeypatch.setattr(registry, "BACKENDS", {**BACKENDS, **fake})


@pytest.mark.parametrize("name", [*Framework, *Engine])
def test_every_name_of_a_request_has_a_backend(name: Framework | Engine) -> None:
    """Its name is that of the request, and each of its tasks has a module with an answer."""
    backend = get_backend(name)

    assert backend.name == name.value
    assert (Task.TRAIN if isinstance(name, Framework) else Task.SERVE) in backend.tasks
    assert all(callable(import_module(module).answer) for module in backend.answers.values())


@pytest.mark.usefixtures("_fake")
def test_a_line_of_the_registry_is_an_engine() -> None:
    """A backend that is registered answers, and what is said of its releases is its own."""
    answer = estimate(a_model(), _SERVING, layout=Layout(), device=a_device())

    assert answer.allocated_bytes == a_model().weight_bytes(_SERVING.weight_dtype)
    assert any("the answer is that of 1.0.0" in warning for warning in answer.warnings)


def test_a_workload_names_its_backend() -> None:
    """Frameworks train and engines serve."""
    assert select_backend(_SERVING).default_port == 8000
    assert select_backend(a_training(framework=Framework.MEGATRON)).tasks == {Task.TRAIN}
