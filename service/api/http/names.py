"""Names of stored things in paths."""

import re
from uuid import UUID

from msgspec import UnsetType

from service.api.http.problems import AnyRequest
from service.base.errors import ClusterNotFoundError, InvalidRequestError

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LOCATION = "Path of the new resource."


def is_storable_name(name: str) -> bool:
    """Tell whether anything can be stored under this name.

    A name that cannot be stored is not looked for.
    """
    return _NAME.fullmatch(name) is not None


def read_id(request: AnyRequest) -> UUID | None:
    """Return the id in a path, or None where it is none."""
    text = str(request.path_params["id"])
    return UUID(text) if _UUID.fullmatch(text) else None


def read_cluster_name(request: AnyRequest) -> str:
    """Return the name of a cluster in a path.

    Raises ClusterNotFoundError where none can be stored under it.
    """
    name = str(request.path_params["name"])
    if not is_storable_name(name):
        message = f"there is no cluster {name!r}"
        raise ClusterNotFoundError(message)
    return name


def require_same_name(path: str, body: str | UnsetType) -> None:
    """Refuse a body that names another resource than its path."""
    if not isinstance(body, UnsetType) and body != path:
        message = f"the path names {path!r}, the body {body!r}; a resource cannot be renamed"
        raise InvalidRequestError(message, errors=[{"field": "name", "message": message}])
