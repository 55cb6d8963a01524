"""Stored and catalogue models as answers of /v1/models."""

from collections.abc import Mapping

from service.catalog.models import find_model
from service.contract.schemas.models import (
    GgufAnswer,
    GgufTensorAnswer,
    HubAnswer,
    ModelAnswer,
    ModelItem,
    RecordingProgressAnswer,
)
from service.contract.to_answer.catalogue_models import (
    build_catalogue_item,
    build_counts,
    build_model_answer,
)
from service.contract.to_answer.timestamps import format_timestamp
from service.formats.checkpoints.gguf_document import GgufModel
from service.formats.checkpoints.gguf_sums import sum_tensors
from service.usecases.stored import ConfigRecording, ModelState, StoredModel
from service.usecases.stored_specs.model_sources import list_warnings, load_stored_architecture
from service.usecases.stored_specs.waiting import get_refusal, load_counted


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
            supported=item.state is ModelState.READY,
            state=item.state.value,
        )
    entry = find_model(item)
    assert entry is not None  # noqa: S101 - the name came out of the catalogue
    return build_catalogue_item(entry)


def build_stored_model(stored: StoredModel) -> ModelAnswer:
    """Return a stored model at one of its revisions."""
    if stored.content.waits_for is not None:
        return _build_waiting_model(stored, stored.content.waits_for)
    return build_model_answer(
        load_stored_architecture(stored.content),
        name=stored.name,
        revision=stored.revision,
        origin="stored",
        created_at=format_timestamp(stored.created_at),
        gguf=build_gguf(stored.content.source.get("gguf")),
        hub=build_hub(stored.content.source.get("hub")),
        warnings=list_warnings(stored.content),
    )


def _build_waiting_model(stored: StoredModel, waits_for: ConfigRecording) -> ModelAnswer:
    """Return a model that waits for its architecture."""
    architecture = load_counted(waits_for)
    counted = {} if architecture is None else build_counts(architecture)
    return ModelAnswer(
        name=stored.name,
        revision=stored.revision,
        origin="stored",
        state=stored.state.value,
        recording=RecordingProgressAnswer(
            job=str(waits_for.job_id),
            progress=waits_for.progress,
            phase=waits_for.phase,
            reason=get_refusal(waits_for) if waits_for.is_refused else None,
        ),
        family=stored.content.family,
        created_at=format_timestamp(stored.created_at),
        architecture={},
        hub=build_hub(stored.content.source.get("hub")),
        warnings=[],
        **({"parameters": None, "weight_bytes": {}} | counted),
    )


def build_hub(described: object) -> HubAnswer | None:
    """Return where on a hub a model was read, if it was."""
    if not isinstance(described, Mapping):
        return None
    return HubAnswer(id=described["id"], commit=described["commit"], file=described["file"])


def build_gguf(document: object) -> GgufAnswer | None:
    """Return what a GGUF file holds, if the model came as one."""
    if not isinstance(document, Mapping):
        return None
    model = GgufModel.parse(document)
    sums = sum_tensors(model)
    return GgufAnswer(
        total_bytes=sums.total_bytes,
        num_elements=sums.num_elements,
        by_type=sums.by_type,
        by_kind=sums.by_kind,
        by_layer=list(sums.by_layer),
        tensors=[
            GgufTensorAnswer(
                name=tensor.name,
                type=tensor.type.value,
                shape=list(tensor.shape),
                bytes=tensor.bytes,
            )
            for tensor in model.tensors
        ],
    )
