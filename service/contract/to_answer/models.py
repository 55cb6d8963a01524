"""Stored and catalogue models as answers of /v1/models."""

from typing import Any

from service.catalog.models import ModelEntry, find_model, load_architecture
from service.contract.schemas.models import ModelAnswer, ModelItem, ParametersAnswer
from service.contract.to_answer.timestamps import format_timestamp
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.values.dtypes import DType
from service.usecases.stored import StoredModel
from service.usecases.stored_specs.model_sources import list_warnings, load_stored_architecture

CATALOGUE_REVISION = 1


def build_model_item(item: StoredModel | str) -> ModelItem:
    """Return a line of the list of models.

    ``item`` is a stored model, or the name of one of the catalogue.
    """
    if isinstance(item, StoredModel):
        return ModelItem(
            name=item.name,
            revision=item.revision,
            origin="stored",
            family=item.content.family,
            created_at=format_timestamp(item.created_at),
            aliases=(),
            supported=True,
        )
    entry = find_model(item)
    assert entry is not None  # noqa: S101 - the name came out of the catalogue
    return ModelItem(
        name=entry.name,
        revision=CATALOGUE_REVISION,
        origin="catalogue",
        family=entry.model_type if entry.supported else None,
        created_at=None,
        aliases=entry.aliases,
        supported=entry.supported,
    )


def build_stored_model(stored: StoredModel) -> ModelAnswer:
    """Return a stored model at one of its revisions."""
    return _build_model(
        load_stored_architecture(stored.content),
        name=stored.name,
        revision=stored.revision,
        origin="stored",
        created_at=format_timestamp(stored.created_at),
        warnings=list_warnings(stored.content),
    )


def build_catalogue_model(entry: ModelEntry) -> ModelAnswer:
    """Return a model of the catalogue."""
    return _build_model(
        load_architecture(entry),
        name=entry.name,
        revision=CATALOGUE_REVISION,
        origin="catalogue",
        created_at=None,
        aliases=entry.aliases,
        source=entry.source,
        warnings=[],
    )


def _build_model(architecture: Architecture, **origin_fields: Any) -> ModelAnswer:  # noqa: ANN401 - the fields that depend on the origin
    counts = architecture.parameter_counts()
    return ModelAnswer(
        family=architecture.family,
        parameters=ParametersAnswer(
            total=counts.total,
            active=counts.active,
            embedding=counts.embedding + counts.by_module.get("lm_head", 0),
            by_module=counts.by_module,
        ),
        weight_bytes={
            dtype.value: architecture.weight_bytes(dtype) for dtype in (DType.FP32, DType.BF16)
        }
        | _count_packed_bytes(architecture),
        architecture=architecture.describe(),
        **origin_fields,
    )


def _count_packed_bytes(architecture: Architecture) -> dict[str, int]:
    """Return the bytes of weights that the config quantises.

    Codes, scales, and what stays in 16 bit.
    """
    scheme = architecture.quantization
    return (
        {}
        if scheme is None
        else {scheme.packing.value: weight_bytes(architecture, scheme, DType.BF16).total}
    )
