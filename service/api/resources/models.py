"""/v1/models: stored models with immutable revisions, and the catalogue beside them."""

from functools import partial
from typing import Any

from litestar import Request, Router, delete, get, post, put
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import (
    ETAG,
    SEEN,
    build_etag_headers,
    build_versioned_response,
    read_header,
)
from service.api.http.names import LOCATION, is_storable_name, require_same_name
from service.api.http.operation import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response, no_content
from service.api.resources.resolving import list_recording_options, read_content
from service.base.errors import ModelNotFoundError
from service.catalog.models import ModelEntry, find_model, list_all_models
from service.contract.schemas.fields import HubName, IfMatch, IfNoneMatch, Name, get_or_none
from service.contract.schemas.models import (
    HubToken,
    ModelAnswer,
    ModelCreate,
    ModelPage,
    ModelQuery,
    ModelReplace,
    RevisionQuery,
)
from service.contract.to_answer.catalogue_models import CATALOGUE_REVISION, build_catalogue_model
from service.contract.to_answer.models import build_model_item, build_stored_model
from service.usecases.stored import ModelState
from service.usecases.stored_specs import models

TAG = "models"
MAX_BODY_BYTES = 16 * 2**20
"""An index of 91,000 tensors, as DeepSeek-V3 has, is some 9 MB."""
PATH = {"name": Name}
EXAMPLE_SOURCE = {
    "hf_config": {
        "model_type": "llama",
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
}
AnyRequest = Request[Any, Any, Any]


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listModels",
        tag=TAG,
        summary="List the stored models, newest first, then the catalogue.",
        query=ModelQuery,
        replies={200: Reply(description="One page.", bodies=(ModelPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: AnyRequest) -> ASGIApp:
    """List the stored models, then the catalogue."""
    query = read_query(request.scope, ModelQuery)
    names = [entry.name for entry in list_all_models()]
    page = models.list_page(
        get_dependencies(request).sessions,
        make_page_request(query.limit, query.cursor),
        catalogue=names,
    )
    return json_response(
        ModelPage(
            items=[build_model_item(item) for item in page.items], next_cursor=page.next_cursor
        ),
    )


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    request_max_body_size=MAX_BODY_BYTES,
    operation=Operation(
        id="createModel",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Store a model.",
        description="A `config.json` of a type without a module is recorded by a trace worker: "
        "`state` is `recording`, and questions about it are refused with 409 `model-recording` "
        "until it is `ready`. What was recorded before is not recorded again.",
        body=ModelCreate,
        headers={"Hub-Token": HubToken},
        example={"name": "my-llama", "source": EXAMPLE_SOURCE},
        replies={
            201: Reply(
                description="Stored.",
                bodies=(ModelAnswer,),
                headers={"ETag": ETAG, "Location": LOCATION},
            ),
        },
        problems=(*BODY_PROBLEMS, 409, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Store a model."""
    payload = read_body(request.scope, body, ModelCreate)
    deps = get_dependencies(request)
    content = read_content(deps, payload.source, request.scope)
    stored = models.create(
        deps.sessions,
        name=payload.name,
        content=content,
        in_catalogue=is_in_catalogue,
        **list_recording_options(deps, content),
    )
    deps.specs.forget(stored.name)
    headers = {"location": f"/v1/models/{stored.name}", **build_etag_headers(stored.etag)}
    return json_response(build_stored_model(stored), status=201, headers=headers)


@get(
    "/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readModel",
        tag=TAG,
        summary=(
            "Show a stored model at its newest or a named revision, or a model of the catalogue by "
            "a name that it has."
        ),
        path={"name": HubName},
        query=RevisionQuery,
        headers={"If-None-Match": IfNoneMatch},
        replies={
            200: Reply(description="The model.", bodies=(ModelAnswer,), headers={"ETag": ETAG}),
            304: Reply(description=SEEN, headers={"ETag": ETAG}),
        },
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read(request: AnyRequest) -> ASGIApp:
    """Show a model."""
    revision = get_or_none(read_query(request.scope, RevisionQuery).revision)
    entry = find_model(str(request.path_params["name"]))
    if entry is not None:
        return _respond_entry(request, entry, revision)
    stored = models.read(get_dependencies(request).sessions, _read_name(request), revision=revision)
    if stored.state is not ModelState.READY:  # Its progress changes without a new version.
        return json_response(build_stored_model(stored), headers=build_etag_headers(stored.etag))
    return build_versioned_response(request.scope, stored.etag, partial(build_stored_model, stored))


@get(
    "/{organization:str}/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readHubModel",
        tag=TAG,
        summary="Show a model of the catalogue by its Hugging Face id.",
        path={"organization": HubName, "name": HubName},
        query=RevisionQuery,
        headers={"If-None-Match": IfNoneMatch},
        replies={
            200: Reply(description="The model.", bodies=(ModelAnswer,), headers={"ETag": ETAG}),
            304: Reply(description=SEEN, headers={"ETag": ETAG}),
        },
        problems=(404, 422),
    ),
)
def read_by_id(request: AnyRequest) -> ASGIApp:
    """Show a model of the catalogue."""
    revision = get_or_none(read_query(request.scope, RevisionQuery).revision)
    hub_id = f"{request.path_params['organization']}/{request.path_params['name']}"
    entry = find_model(hub_id)
    if entry is None:
        message = (
            f"no model of the catalogue has the Hugging Face id {hub_id!r}; GET /v1/models lists "
            "the ids that are known"
        )
        raise ModelNotFoundError(message)
    return _respond_entry(request, entry, revision)


@put(
    "/{name:str}",
    sync_to_thread=True,
    request_max_body_size=MAX_BODY_BYTES,
    operation=Operation(
        id="replaceModel",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Store a new revision of a model.",
        path=PATH,
        headers={"If-Match": IfMatch, "Hub-Token": HubToken},
        body=ModelReplace,
        example={"source": EXAMPLE_SOURCE},
        replies={200: Reply(description="Stored.", bodies=(ModelAnswer,), headers={"ETag": ETAG})},
        problems=(*BODY_PROBLEMS, 404, 409, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def replace(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Store a new revision."""
    payload = read_body(request.scope, body, ModelReplace)
    name = _read_name(request)
    require_same_name(name, payload.name)
    deps = get_dependencies(request)
    content = read_content(deps, payload.source, request.scope)
    stored = models.replace(
        deps.sessions,
        name,
        content=content,
        if_match=read_header(request.scope, b"if-match"),
        in_catalogue=is_in_catalogue,
        **list_recording_options(deps, content),
    )
    deps.specs.forget(name)
    return json_response(build_stored_model(stored), headers=build_etag_headers(stored.etag))


@delete(
    "/{name:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="deleteModel",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Remove a stored model with all its revisions.",
        path=PATH,
        headers={"If-Match": IfMatch},
        replies={204: Reply(description="Removed.")},
        problems=(404, 409, 422, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def remove(request: AnyRequest) -> ASGIApp:
    """Remove a stored model."""
    deps, name = get_dependencies(request), _read_name(request)
    models.delete(
        deps.sessions,
        name,
        if_match=read_header(request.scope, b"if-match"),
        in_catalogue=is_in_catalogue,
    )
    deps.specs.forget(name)
    return no_content()


def is_in_catalogue(name: str) -> bool:
    """Return whether the catalogue has this name or alias."""
    return find_model(name) is not None


def _read_name(request: AnyRequest) -> str:
    name = str(request.path_params["name"])
    if not (is_storable_name(name) or is_in_catalogue(name)):
        message = f"there is no model {name!r}"
        raise ModelNotFoundError(message)
    return name


def _respond_entry(request: AnyRequest, entry: ModelEntry, revision: int | None) -> ASGIApp:
    _require_catalogue_revision(entry, revision)
    return build_versioned_response(
        request.scope,
        f"catalogue-{get_dependencies(request).version}",
        partial(build_catalogue_model, entry),
    )


def _require_catalogue_revision(entry: ModelEntry, revision: int | None) -> None:
    if revision not in {None, CATALOGUE_REVISION}:
        message = (
            f"{entry.name!r} is a model of the catalogue and has revision {CATALOGUE_REVISION} "
            f"only, not {revision}"
        )
        raise ModelNotFoundError(message, name=entry.name)


router = Router(
    path="/v1/models", route_handlers=[list_all, create, read, read_by_id, replace, remove]
)
