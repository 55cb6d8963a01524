"""Classes that transformers has for each head, beside those that configs may name."""

from collections.abc import Mapping
from typing import Any

import pytest
from transformers import BertConfig
from transformers.models.auto import modeling_auto

from service.estimator.model.families.registry import list_model_types
from service.estimator.model.heads.classes import list_classes
from service.estimator.values.heads import Head
from tests.tiny_models import tiny_config
from worker.probes.models.build import get_auto_class

_MAPPINGS: Mapping[Head, Mapping[str, Any]] = {
    Head.NONE: modeling_auto.MODEL_MAPPING_NAMES,
    Head.CAUSAL_LM: modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    Head.MASKED_LM: modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    Head.SEQUENCE_CLASSIFICATION: modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    Head.TOKEN_CLASSIFICATION: modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    Head.QUESTION_ANSWERING: modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    Head.IMAGE_CLASSIFICATION: modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
}
_IMAGES = {"clip", "vit"}
"""Families of images, whose bare models are not modelled."""
_ONE_STACK = [
    name for name in list_model_types() if Head.SEQ2SEQ_LM not in list_classes(name).values()
]


@pytest.mark.parametrize("model_type", _ONE_STACK)
def test_heads_are_those_of_transformers(model_type: str) -> None:
    """A family of one stack has every head that transformers has a class for, by its name."""
    own = {head: name for name, head in list_classes(model_type).items()}
    lacks = Head.CAUSAL_LM if Head.MASKED_LM in own else Head.MASKED_LM
    known = {
        head: mapping[model_type]
        for head, mapping in _MAPPINGS.items()
        if model_type in mapping
        and head is not lacks
        and not (head is Head.NONE and model_type in _IMAGES)
    }

    assert own == (known if own else {})


@pytest.mark.parametrize("name", list_classes("bert"))
def test_a_probe_builds_the_named_class(name: str) -> None:
    """A bare BERT was traced as a masked language model."""
    config = {**tiny_config("bert"), "architectures": [name]}
    auto_class = get_auto_class(config)

    assert auto_class._model_mapping[BertConfig].__name__ == name  # noqa: SLF001 - the factories' only table
