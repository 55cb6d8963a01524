"""Sources of models with another head than they name."""

from collections.abc import Mapping
from typing import Any

from msgspec import UnsetType

from service.contract.schemas.fields import get_or_none
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.model.heads.config import put_head_in_config, put_head_in_spec
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.heads import Head


def put_head_in_source(
    source: Mapping[str, Any], head: Head | UnsetType, num_labels: int | UnsetType
) -> Mapping[str, Any]:
    """Return the source of a model with the requested head.

    A number of parameters becomes a specification of our own.
    """
    labels = get_or_none(num_labels)
    if isinstance(head, UnsetType):
        if labels is None:
            return source
        message = (
            f"num_labels is {labels} without a head: say head sequence_classification, "
            "token_classification or image_classification, or put num_labels into the config"
        )
        raise InvalidInputError(message, field="num_labels")
    ((kind, value),) = source.items()
    if kind == "gguf":
        message = "a GGUF file has the head that it was written with: leave head out"
        raise InvalidInputError(message, field="head")
    if kind == "recording":
        message = (
            "a recording has the head of the class that ran: leave head out, or name another class "
            "in architectures of the config and record that"
        )
        raise InvalidInputError(message, field="head")
    if kind == "hf_config":
        return {kind: put_head_in_config(value, head, labels)}
    spec = value if kind == "architecture" else build_synthetic_architecture(value).describe()
    return {"architecture": put_head_in_spec(spec, head, labels)}
