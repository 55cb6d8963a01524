"""Kubernetes' API over HTTP: objects, and watched lists."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import httpx

from service.kueue.errors import CONFLICT, GONE, NOT_FOUND, KubeError

Json = dict[str, Any]
MANAGER = "headroom"
"""Name under which the API server notes the fields that are ours."""
TIMEOUT_S = 10.0
_PAGE = 500
_SHOWN_MESSAGE = 400


class PatchKind(StrEnum):
    """Media type of a patch."""

    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of the API, as its paths spell it."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """Group and version, as an object says them."""
        return f"{self.group}/{self.version}"

    def build_path(
        self, namespace: str | None = None, name: str | None = None, part: str | None = None
    ) -> str:
        """Return the path of an object or list.

        ``part`` is a subresource, such as ``status``.
        """
        segments = ["apis", self.group, self.version]
        segments += [] if namespace is None else ["namespaces", namespace]
        segments += [segment for segment in (self.plural, name, part) if segment is not None]
        return "/" + "/".join(quote(segment, safe="") for segment in segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKey:
    """Place of an object; some kinds have no namespace."""

    resource: Resource
    namespace: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Event of a watch, and its object.

    ``word`` is ``ADDED``, ``MODIFIED`` or ``DELETED``.
    """

    word: str
    document: Json


class KubeApi:
    """Objects of a cluster.

    Every method raises KubeError for what is no success.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        """Store a client whose base is the API server."""
        self._client = client

    async def get(self, key: ObjectKey) -> Json | None:
        """Return an object, ``None`` where there is none."""
        try:
            return await self._send("GET", _build_path(key))
        except KubeError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    async def create(self, resource: Resource, namespace: str | None, body: Json) -> bool:
        """Create an object; return False where it exists."""
        try:
            await self._send("POST", resource.build_path(namespace), body=body)
        except KubeError as error:
            if error.code == CONFLICT:
                return False
            raise
        return True

    async def replace(self, key: ObjectKey, body: Json) -> Json:
        """Replace the version of an object that the body names."""
        return await self._send("PUT", _build_path(key), body=body)

    async def patch_json(self, key: ObjectKey, operations: list[Json]) -> Json:
        """Change an object by a JSON patch (RFC 6902)."""
        return await self._send(
            "PATCH",
            _build_path(key),
            body=operations,
            kind=PatchKind.JSON,
            parameters={"fieldManager": MANAGER},
        )

    async def apply_status(self, key: ObjectKey, body: Json) -> Json:
        """Apply our part of an object's status.

        Kueue has written the entries before us, so that ours are taken by force.
        """
        return await self._send(
            "PATCH",
            _build_path(key, "status"),
            body=body,
            kind=PatchKind.APPLY,
            parameters={"fieldManager": MANAGER, "force": "true"},
        )

    async def list_all(
        self, resource: Resource, namespace: str | None, selector: str | None = None
    ) -> tuple[list[Json], str]:
        """Return all objects, and the version of the list."""
        items: list[Json] = []
        query = {"limit": str(_PAGE), **_select(selector)}
        while True:
            page = await self._send("GET", resource.build_path(namespace), parameters=query)
            items += page.get("items") or []
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return items, str(metadata.get("resourceVersion", ""))
            query["continue"] = metadata["continue"]

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        version: str,
        selector: str | None = None,
        timeout_s: float,
    ) -> AsyncIterator[Change]:
        """Yield the changes since a version.

        It ends after ``timeout_s`` at the latest. Raises KubeError with 410 where the version is
        too old.
        """
        query = {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(timeout_s)),
            **_select(selector),
        }
        timeout = httpx.Timeout(TIMEOUT_S, read=timeout_s + TIMEOUT_S)
        path = resource.build_path(namespace)
        try:
            async with self._client.stream("GET", path, params=query, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _read_refusal(answer)
                async for line in answer.aiter_lines():
                    if line:
                        yield _read_change(line)
        except httpx.HTTPError as error:
            raise _describe_failure(error) from error

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: Json | list[Json] | None = None,
        kind: str = "application/json",
        parameters: Mapping[str, str] | None = None,
    ) -> Json:
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"content-type": kind}
        try:
            answer = await self._client.request(
                method, path, content=content, headers=headers, params=parameters
            )
        except httpx.HTTPError as error:
            raise _describe_failure(error) from error
        if not answer.is_success:
            raise _read_refusal(answer)
        return _parse_object(answer.text)


def get_metadata(document: Json) -> Json:
    """Return an object's metadata."""
    metadata: Json = document.get("metadata") or {}
    return metadata


def format_time(moment: datetime) -> str:
    """Return a UTC time as Kubernetes writes it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _build_path(key: ObjectKey, part: str | None = None) -> str:
    return key.resource.build_path(key.namespace, key.name, part)


def _select(selector: str | None) -> dict[str, str]:
    return {} if selector is None else {"labelSelector": selector}


def _parse_object(text: str) -> Json:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        message = f"the API server answered {text[:_SHOWN_MESSAGE]!r}, which is no JSON object"
        raise KubeError(0, message)
    return document


def _read_change(line: str) -> Change:
    event = _parse_object(line)
    document = event.get("object") or {}
    if event.get("type") == "ERROR":
        raise KubeError(int(document.get("code") or GONE), str(document.get("message")))
    return Change(word=str(event.get("type")), document=document)


def _read_refusal(answer: httpx.Response) -> KubeError:
    """Return the refusal in the API server's words."""
    try:
        message = str(json.loads(answer.text)["message"])
    except (ValueError, KeyError, TypeError):
        message = answer.text.strip()
    excerpt = message[:_SHOWN_MESSAGE] or answer.reason_phrase
    return KubeError(answer.status_code, f"{answer.status_code}: {excerpt}")


def _describe_failure(error: httpx.HTTPError) -> KubeError:
    return KubeError(0, f"the API server does not answer: {str(error) or type(error).__name__}")
