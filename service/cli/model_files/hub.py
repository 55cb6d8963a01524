"""Models on a hub, read from this machine."""

import os
import re

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.model_files.brought import Brought
from service.usecases.hub.addresses import HUB_ENDPOINT, HubPolicy
from service.usecases.hub.hub import Hub
from service.usecases.hub.values import HubReference

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_SPELLING = re.compile(
    rf"(?P<id>{_NAME}(?:/{_NAME})?)(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{{0,127}}))?"
    r"(?:#(?P<file>[A-Za-z0-9][A-Za-z0-9._/ -]{0,254}))?"
)


def read_hub(text: str, *, hub: Hub | None = None) -> Brought:
    """Return the model of ``org/name``, ``org/name@revision`` or ``org/name#file.gguf``.

    HF_ENDPOINT names a mirror, HF_TOKEN is sent to it. Raises InvalidRequestError for what the hub
    refuses.
    """
    match = _SPELLING.fullmatch(text)
    if match is None:
        message = f"hub:{text} is no model: say hub:org/name, with @revision or #file.gguf behind"
        raise InvalidRequestError(message)
    reference = HubReference(
        repository=match["id"],
        revision=match["revision"] or "main",
        file=match["file"],
        token=os.environ.get("HF_TOKEN") or None,
    )
    try:
        model = (hub or _make_hub()).fetch(reference)
    except ServiceError as error:
        detail = error.detail.replace("in the header Hub-Token", "as HF_TOKEN")
        raise InvalidRequestError(detail) from None
    files = {"safetensors_index": model.index, "safetensors_header": model.header}
    return {
        **model.source,
        **{name: document for name, document in files.items() if document is not None},
        "origin": model.origin,
    }


def _make_hub() -> Hub:
    """Return a reader of the user's hub.

    A mirror that HF_ENDPOINT names may have an address inside.
    """
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return Hub(HubPolicy(endpoint=endpoint or HUB_ENDPOINT, private=bool(endpoint)))
