"""Models as /v1/models shows them: stored ones and those of the catalogue alike."""

from typing import Any

from service.catalog.models import ModelEntry, find_model, load_architecture
from service.contract.schemas.models import ModelAnswer, ModelItem, ParametersAnswer
from service.contract.to_answer.timestamps import timestamp
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.values.dtypes import DType
from service.usecases.stored import StoredModel
from service.usecases.stored_specs.model_sources import stored_architecture, warnings_of

CATALOGUE_REVISION = 1


def model_item(item: StoredModel | str) -> ModelItem:
    """Return a line of the list: a stored model, or the name of one of the catalogue."""
    if isinstance(item, StoredModel):
        return ModelItem(
            name=item.name,
            revision=item.revision,
            origin="stored",
            family=item.content.family,
            created_at=timestamp(item.created_at),
            aliases=(),
            supported=True,
        )
    entry = find_model(item)
    assert entry is not None  # noqa: S101  # the name came out of the catalogue
    return ModelItem(
        name=entry.name,
        revision=CATALOGUE_REVISION,
        origin="catalogue",
        family=entry.model_type if entry.supported else None,
        created_at=None,
        aliases=entry.aliases,
        supported=entry.supported,
    )


def stored_model(stored: StoredModel) -> ModelAnswer:
    """Return a stored model at one of its revisions."""
    return _model(
        stored_architecture(stored.content),
        name=stored.name,
        revision=stored.revision,
        origin="stored",
        created_at=timestamp(stored.created_at),
        warnings=warnings_of(stored.content),
    )


def catalogue_model(entry: ModelEntry) -> ModelAnswer:
    """Return a model of the catalogue."""
    return _model(
        load_architecture(entry),
        name=entry.name,
        revision=CATALOGUE_REVISION,
        origin="catalogue",
        created_at=None,
        aliases=entry.aliases,
        source=entry.source,
        warnings=[],
    )


def _model(architecture: Architecture, **known: Any) -> ModelAnswer:  # noqa: ANN401  # the fields that depend on the origin
    counts = architecture.parameter_counts()
    return ModelAnswer(
        family=architecture.family,
        parameters=ParametersAnswer(
            total=counts.total,
            active=counts.active,
            embedding=counts.embedding + counts.by_module.get("lm_head", 0),
            by_module=counts.by_module,
        ),
        weight_bytes={dtype.value: architecture.weight_bytes(dtype) for dtype in (DType.FP32, DType.BF16)}
        | _packed(architecture),
        architecture=architecture.describe(),
        **known,
    )


def _packed(architecture: Architecture) -> dict[str, int]:
    """Return the bytes of weights that the config quantises: codes, scales, and what stays in 16 bit."""
    scheme = architecture.quantization
    return {} if scheme is None else {scheme.packing.value: weight_bytes(architecture, scheme, DType.BF16).total}
