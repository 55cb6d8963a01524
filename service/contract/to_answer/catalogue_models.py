"""Models of the catalogue as answers of /v1/models."""

from typing import Any

from service.catalog.models import ModelEntry, load_architecture
from service.contract.schemas.models import ModelAnswer, ModelItem, ParametersAnswer
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.values.dtypes import DType

CATALOGUE_REVISION = 1


def build_catalogue_item(entry: ModelEntry) -> ModelItem:
    """Return a line of the list of models."""
    return ModelItem(
        name=entry.name,
        revision=CATALOGUE_REVISION,
        origin="catalogue",
        family=entry.model_type if entry.supported else None,
        created_at=None,
        aliases=entry.aliases,
        supported=entry.supported,
    )


def build_catalogue_model(entry: ModelEntry) -> ModelAnswer:
    """Return a model of the catalogue."""
    return build_model_answer(
        load_architecture(entry),
        name=entry.name,
        revision=CATALOGUE_REVISION,
        origin="catalogue",
        created_at=None,
        aliases=entry.aliases,
        source=entry.source,
        warnings=[],
    )


def build_model_answer(architecture: Architecture, **origin_fields: Any) -> ModelAnswer:  # noqa: ANN401 - the fields that depend on the origin
    """Return a model with what is counted of its architecture."""
    return ModelAnswer(
        family=architecture.family,
        architecture=architecture.describe(),
        **build_counts(architecture),
        **origin_fields,
    )


def build_counts(architecture: Architecture) -> dict[str, Any]:
    """Return the parameters of a model and their bytes."""
    counts = architecture.parameter_counts()
    return {
        "parameters": ParametersAnswer(
            total=counts.total,
            active=counts.active,
            embedding=counts.embedding + counts.by_module.get("lm_head", 0),
            by_module=counts.by_module,
        ),
        "weight_bytes": {
            dtype.value: architecture.weight_bytes(dtype) for dtype in (DType.FP32, DType.BF16)
        }
        | _count_packed_bytes(architecture),
    }


def _count_packed_bytes(architecture: Architecture) -> dict[str, int]:
    """Return the bytes of weights that the config quantises.

    Codes, scales, and what stays in 16 bit.
    """
    scheme, file = architecture.quantization, architecture.gguf
    if file is not None:
        return {"gguf": sum(size for _, size in file.types)}
    return (
        {}
        if scheme is None
        else {scheme.packing.value: weight_bytes(architecture, scheme, DType.BF16).total}
    )
