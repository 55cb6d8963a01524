"""Critics of requests: whose model they are, and what is refused."""

from typing import Any

import pytest

from service.base.errors import ServiceError
from service.contract.schemas.trainers import CriticRequest
from service.contract.to_question.drafts import read_critic
from service.contract.to_question.validation_errors import decode
from service.estimator.reinforcement.critic import build_value_model
from service.estimator.values.generation import Critic
from tests.builders import a_model

_CONFIG = {
    "model_type": "llama",
    "vocab_size": 512,
    "num_hidden_layers": 2,
    "intermediate_size": 512,
    "hidden_size": 256,
    "num_attention_heads": 4,
}


def _read(**request: Any) -> Critic:  # noqa: ANN401 - each its own type
    critic = read_critic(decode(request, CriticRequest))
    assert critic is not None
    return critic


def test_without_a_model_a_critic_is_the_policys() -> None:
    """What else it says is its own."""
    critic = _read(micro_batch_size=2, offload_optimizer=True)

    assert critic == Critic(micro_batch_size=2, offload_optimizer=True)


@pytest.mark.parametrize(
    ("model", "hidden_size"),
    [
        ("qwen2.5-7b", 3584),
        ("mistralai/Ministral-8B-Instruct-2410", 4096),
        ("7B", 4096),
        ({"hf_config": _CONFIG}, 256),
        ({"architecture": a_model(hidden_size=512).describe()}, 512),
    ],
)
def test_a_critic_may_be_another_model(model: object, hidden_size: int) -> None:
    """By a name of the catalogue, a config or our own specification, with a head of values."""
    value_model = build_value_model(a_model(), _read(model=model))

    assert value_model.spec.hidden_size == hidden_size
    assert (value_model.spec.head, value_model.spec.num_labels) == ("token_classification", 1)
    assert value_model.spec.head_dropout == 0.0


@pytest.mark.parametrize("model", ["no-such-model", {}])
def test_a_model_that_is_none_is_refused_by_its_field(model: object) -> None:
    """Of the critic, not of the policy."""
    with pytest.raises(ServiceError) as refusal:
        _read(model=model)

    errors: Any = refusal.value.extra["errors"]
    assert errors[0]["field"] == "workload.critic.model"
