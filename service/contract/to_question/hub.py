"""Models of requests that stand on a hub."""

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from service.base.errors import InvalidRequestError
from service.base.hub_errors import HubOffError
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import InlineModel
from service.contract.schemas.models import ModelSource
from service.contract.schemas.serving import DraftModel
from service.usecases.hub.values import HubModel, HubReference

FetchModel = Callable[[HubReference], HubModel]
_FILES = ("safetensors_index", "safetensors_header")
_WORDS = ("revision", "file")


def refuse_hub(reference: HubReference) -> HubModel:
    """Refuse a model on the hub where nobody reaches out."""
    message = (
        f"{reference.repository} is on a hub, which is asked by a server that allows it, or by "
        "the command line with --hub"
    )
    raise HubOffError(message, errors=[{"field": "model.hub", "message": message}])


def read_hub(
    sent: InlineModel | ModelSource | DraftModel, fetch: FetchModel, field: str
) -> HubModel | None:
    """Return the model on the hub that a request means.

    None where it means none. Raises InvalidRequestError for words that do not go together.
    """
    repository = get_or_none(sent.hub)
    excluded = _FILES if repository is not None else _WORDS
    name = next(
        (word for word in excluded if not isinstance(getattr(sent, word, UNSET), UnsetType)), None
    )
    if name is not None:
        message = (
            f"{name} is a word beside hub, which is missing"
            if repository is None
            else f"hub reads the files of the model itself: leave {name} out"
        )
        raise InvalidRequestError(
            message, errors=[{"field": f"{field}.{name}", "message": message}]
        )
    if repository is None:
        return None
    return fetch(
        HubReference(
            repository=repository,
            revision=get_or_none(sent.revision) or "main",
            file=get_or_none(sent.file),
        )
    )


def expand_inline(sent: InlineModel, model: HubModel) -> InlineModel:
    """Return the request as if it had brought the files along."""
    return InlineModel(
        **model.source,  # type: ignore[arg-type]  # hf_config or gguf
        head=sent.head,
        num_labels=sent.num_labels,
        safetensors_index=UNSET if model.index is None else dict(model.index),
        safetensors_header=UNSET if model.header is None else dict(model.header),
        origin=model.origin,
    )


def expand_source(sent: ModelSource, model: HubModel) -> ModelSource:
    """Return a source as if it had brought the files along."""
    return ModelSource(
        **model.source,  # type: ignore[arg-type]  # hf_config or gguf
        head=sent.head,
        num_labels=sent.num_labels,
        safetensors_index=UNSET if model.index is None else dict(model.index),
        safetensors_header=UNSET if model.header is None else dict(model.header),
    )
