"""The model of a request with another head than its config names."""

from typing import Any

import pytest
from msgspec import convert

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import InlineModel
from service.contract.to_question.models import ResolvedModel, resolve_reference
from service.estimator.values.errors import EstimatorError
from tests.builders import a_config
from tests.recordings import make_recorded


def _resolve(**fields: Any) -> ResolvedModel:  # noqa: ANN401 - each field has its own type
    return resolve_offline_model(convert(fields, InlineModel))


@pytest.mark.parametrize(
    "source",
    [
        {"name": "smollm2-135m"},
        {"hf_config": dict(a_config())},
        {"num_parameters": 10**9},
        {"hf_config": {**a_config(), "architectures": ["Unknown"]}},
    ],
)
def test_any_source_takes_a_head(source: dict[str, Any]) -> None:
    """The word wins over the config, and the config that a probe builds from names the class."""
    model = _resolve(**source, head="token_classification", num_labels=9)
    spec = model.architecture.spec

    assert (spec.head, spec.num_labels) == ("token_classification", 9)
    assert model.hf_config is None or model.hf_config["architectures"] == [
        "LlamaForTokenClassification"
    ]


def test_a_name_with_another_head_is_another_model() -> None:
    """Weights of that name have the head that it was trained with."""
    model = _resolve(name="smollm2-135m", head="reward")

    assert model.has_other_head
    assert model.checkpoints == ()
    assert not _resolve(name="smollm2-135m").has_other_head


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"name": "smollm2-135m", "num_labels": 2}, "model.num_labels", "without a head"),
        ({"name": "smollm2-135m", "head": "masked_lm"}, "model.head", "head masked_lm of llama"),
    ],
)
def test_a_head_that_cannot_be_is_refused(fields: dict[str, Any], field: str, message: str) -> None:
    """The refusal names the field and what would be right."""
    with pytest.raises(EstimatorError, match=message) as refused:
        _resolve(**fields)

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"head": "reward"}, "model.head"), ({"num_labels": 2}, "model.num_labels")],
)
def test_a_stored_recording_takes_no_other_head(fields: dict[str, Any], field: str) -> None:
    """What would have no effect is refused, as it is of a recording that is brought along."""
    stored = ResolvedModel(architecture=make_recorded(), name="mine")
    reference = convert({"name": "mine", **fields}, InlineModel)

    with pytest.raises(EstimatorError) as refused:
        resolve_reference(reference, lambda _name: stored)

    assert refused.value.field == field
    assert resolve_reference(InlineModel(name="mine"), lambda _name: stored) is stored
