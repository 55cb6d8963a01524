"""Stored and catalogue models as answers of /v1/models."""

from service.catalog.models import find_model
from service.contract.schemas.models import ModelAnswer, ModelItem
from service.contract.to_answer.catalogue_models import build_catalogue_item, build_model_answer
from service.contract.to_answer.timestamps import format_timestamp
from service.usecases.stored import StoredModel
from service.usecases.stored_specs.model_sources import list_warnings, load_stored_architecture


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
    return build_catalogue_item(entry)


def build_stored_model(stored: StoredModel) -> ModelAnswer:
    """Return a stored model at one of its revisions."""
    return build_model_answer(
        load_stored_architecture(stored.content),
        name=stored.name,
        revision=stored.revision,
        origin="stored",
        created_at=format_timestamp(stored.created_at),
        warnings=list_warnings(stored.content),
    )
