"""Models and caches of questions that are answered without a server."""

import os
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError, UnknownModelError
from service.catalog.models import (
    find_model,
    list_checkpoints,
    load_architecture,
    load_config,
    resolve_model,
)
from service.contract.schemas.fit import ModelReference
from service.contract.to_question.models import ResolvedModel, read_spelled, resolve_reference
from service.estimator.cache import PlanCache
from service.estimator.values.memo import keep_latest
from service.runtime.recording_files import make_recording_store

Document = dict[str, Any]


def get_plan_cache() -> PlanCache:
    """Return this process's cache, with the recordings that are kept in HEADROOM_CACHE_DIR."""
    return _make_plan_cache(os.environ.get("HEADROOM_CACHE_DIR"))


@keep_latest(1)
def _make_plan_cache(cache_dir: str | None) -> PlanCache:
    return PlanCache(
        store=make_recording_store(Path(cache_dir).expanduser() if cache_dir else None)
    )


def refuse_cluster(document: Document) -> None:
    """Refuse a cluster: what is measured on one is a server's."""
    if document.get("cluster") is not None:
        message = "clusters are stored on a server; say which with --server URL or HEADROOM_URL"
        raise InvalidRequestError(message, errors=[{"field": "cluster", "message": message}])


def resolve_offline_model(reference: ModelReference) -> ResolvedModel:
    """Return an inline model or one of the catalogue."""
    return resolve_reference(reference, _find_model)


def _find_model(name: str) -> ResolvedModel:
    return _resolve_entry(name) if find_model(name) is not None else _read_spelled(name)


def _resolve_entry(name: str) -> ResolvedModel:
    entry = resolve_model(name)
    return ResolvedModel(
        architecture=load_architecture(entry),
        name=entry.name,
        revision=1,
        hf_config=load_config(entry),
        checkpoints=list_checkpoints(name),
    )


def _read_spelled(text: str) -> ResolvedModel:
    try:
        return read_spelled(text, _resolve_entry)
    except UnknownModelError as error:
        message = f"{error.detail} What is stored on a server is found with --server URL."
        errors = [{"field": "model", "message": message}]
        raise UnknownModelError(message, **(error.extra | {"errors": errors})) from None
