"""Drafts and critics of requests: named, brought along, or on a hub."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

from msgspec import Struct, UnsetType, structs

from service.base.errors import ServiceError
from service.catalog.models import find_model, load_config
from service.catalog.spellings import read_spelling
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.serving import DraftModel, SpeculativeRequest
from service.contract.schemas.trainers import CriticRequest
from service.contract.to_question.defaults import copy_set_fields
from service.contract.to_question.hub import FetchModel, read_hub, refuse_hub
from service.contract.to_question.models import prefix_error_field, require_one
from service.estimator.model.families.speculative import FIELD
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.values.generation import Critic
from service.estimator.values.speculative import Speculative
from service.usecases.stored_specs.model_sources import read_source

R = TypeVar("R", bound=Struct)
_CRITIC_MODEL = "workload.critic.model"
_CRITIC_FIELDS = tuple(
    field.name for field in fields(Critic) if field.name not in {"config", "spec", "name"}
)
_SOURCES = ("hf_config", "architecture", "gguf", "hub")


def find_hub_draft(workload: object) -> DraftModel | None:
    """Return the draft model of a workload that is on a hub."""
    speculative = getattr(workload, "speculative", None)
    draft = speculative.draft if isinstance(speculative, SpeculativeRequest) else None
    if not isinstance(draft, DraftModel) or isinstance(draft.hub, UnsetType):
        return None
    return draft


def expand_draft(request: R, fetch: FetchModel) -> R:
    """Return a request as if it had brought its draft along.

    One without a draft on a hub is returned as it is.
    """
    workload = getattr(request, "workload", None)
    draft = find_hub_draft(workload)
    if draft is None or workload is None:
        return request
    brought = structs.replace(workload.speculative, draft=_read_hub(draft, fetch))
    return structs.replace(request, workload=structs.replace(workload, speculative=brought))


def read_speculative(
    request: SpeculativeRequest | UnsetType,
) -> tuple[Speculative | None, list[str]]:
    """Return who guesses tokens, and where the draft was read.

    Raises HubOffError for a draft on a hub, which ``expand_draft`` reads where one is asked.
    """
    if isinstance(request, UnsetType):
        return None, []
    values: dict[str, Any] = {"num_tokens": request.num_tokens, "head": get_or_none(request.head)}
    if isinstance(request.draft, UnsetType):
        return Speculative(**values), []
    if isinstance(request.draft, str):
        model, note = _read_name(request.draft, FIELD)
        return Speculative(**values, **model), [] if note is None else [f"draft: {note}"]
    draft = _read_hub(request.draft, refuse_hub)
    ((kind, value),) = require_one(draft, _SOURCES, FIELD).items()
    with prefix_error_field(f"{FIELD}.{kind}"):
        model = {
            "config" if kind == "hf_config" else "spec": json.dumps(
                value if kind == "hf_config" else read_source({kind: value}).describe(),
                sort_keys=True,
            )
        }
    origin = get_or_none(draft.origin)
    return Speculative(**values, **model), (
        [] if origin is None else [f"draft model read from {origin}"]
    )


def read_critic(request: CriticRequest | UnsetType) -> Critic | None:
    """Return the critic of a request; None without one.

    Raises UnknownModelError for a name that means no model, with what would be right.
    """
    if isinstance(request, UnsetType):
        return None
    values = copy_set_fields(request, _CRITIC_FIELDS)
    if isinstance(request.model, UnsetType):
        return Critic(**values)
    if isinstance(request.model, str):
        model, _ = _read_name(request.model, _CRITIC_MODEL)
        return Critic(**values, **model)
    ((kind, value),) = require_one(
        request.model, ("hf_config", "architecture"), _CRITIC_MODEL
    ).items()
    values["config" if kind == "hf_config" else "spec"] = json.dumps(value, sort_keys=True)
    return Critic(**values)


def _read_name(name: str, field: str) -> tuple[dict[str, Any], str | None]:
    """Return what a name means, and how it was read.

    The latter is said where it is no name of the catalogue.
    """
    entry, note, config = find_model(name), None, None
    if entry is None:
        spelling = read_spelling(name, field=field)
        entry, note, config = spelling.entry, spelling.note, spelling.config
        if spelling.num_parameters is not None:
            spec = build_synthetic_architecture(spelling.num_parameters).describe()
            return {"spec": json.dumps(spec, sort_keys=True), "name": name}, note
    if config is None:
        assert entry is not None  # noqa: S101 - a spelling is an entry, a config or a size
        config = load_config(entry)
    title = name if entry is None else entry.name
    return {"config": json.dumps(config, sort_keys=True), "name": title}, note


def _read_hub(draft: DraftModel, fetch: FetchModel) -> DraftModel:
    require_one(draft, _SOURCES, FIELD)
    with _rename_error_fields():
        model = read_hub(draft, fetch, FIELD)
    return draft if model is None else DraftModel(**model.source, origin=model.origin)  # type: ignore[arg-type]  # hf_config or gguf


@contextmanager
def _rename_error_fields() -> Iterator[None]:
    """Name the draft where a hub's refusal names the model."""
    try:
        yield
    except ServiceError as error:
        errors: Any = error.extra.get("errors", ())
        for entry in errors:
            entry["field"] = entry["field"].replace("model.", f"{FIELD}.", 1)
        raise
