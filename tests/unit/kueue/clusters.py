"""A Kubernetes API in memory, and a death between any two requests.

Versions, conflicts, JSON patches and watches behave as those of the real API server, which
``tests/schedulers/crds`` compares them with.
"""

import copy
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx

from service.kueue.api import KubeApi, ObjectKey, Resource

Json = dict[str, Any]


class KilledError(BaseException):
    """The process died here."""


@dataclass(slots=True, kw_only=True)
class Reaper:
    """Death before or after the n-th request to either server; 0 lets live.

    Whoever is dead asks nothing any more, not even on its way out.
    """

    at: int = 0
    is_late: bool = False
    count: int = 0
    is_dead: bool = False

    async def run(self, serve: Callable[[], httpx.Response]) -> httpx.Response:
        """Serve a request, or die at it."""
        if self.is_dead:
            raise KilledError
        self.count += 1
        self.is_dead = self.count == self.at
        if self.is_dead and not self.is_late:
            raise KilledError
        answer = serve()
        if self.is_dead:
            raise KilledError
        return answer

    def revive(self) -> None:
        """Let the next process live."""
        self.at, self.is_dead = 0, False


@dataclass(slots=True, kw_only=True)
class FakeCluster:
    """Objects by path; ``requests`` are the writes, in order.

    ``refusals`` answers a method and a path with a status, once.
    """

    reaper: Reaper = field(default_factory=Reaper)
    objects: dict[str, Json] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    refusals: list[tuple[str, str, int]] = field(default_factory=list)
    before: Callable[[str, str], None] = field(default=lambda _method, _path: None)
    version: int = 10
    watches: int = 0
    changes: list[tuple[str, Json]] = field(default_factory=list)
    ended: tuple[str, ...] = ()
    """What watches say at their end, one line each; without any they stay open."""
    missing: frozenset[str] = frozenset({"jobsets", "trainjobs", "rayjobs"})
    """Resources that are not installed."""

    def put(self, resource: Resource, document: Json) -> ObjectKey:
        """Store an object as somebody else does, and return its key."""
        metadata = document["metadata"]
        key = ObjectKey(
            resource=resource, namespace=metadata.get("namespace"), name=metadata["name"]
        )
        path = resource.build_path(key.namespace, key.name)
        stored = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        self._store(path, stored)
        return key

    def get(self, key: ObjectKey) -> Json:
        """Return an object as it is stored."""
        return self.objects[key.resource.build_path(key.namespace, key.name)]

    def list_events(self) -> list[Json]:
        """Return the events, in the order of their names."""
        return [each for _, each in sorted(self.objects.items()) if each.get("kind") == "Event"]

    def list_writes(self, part: str) -> list[tuple[str, str, Any]]:
        """Return the writes to paths with a part."""
        return [request for request in self.requests if part in request[1]]

    def connect(self) -> KubeApi:
        """Return a client of this cluster."""
        transport = httpx.MockTransport(self.handle)
        return KubeApi(httpx.AsyncClient(transport=transport, base_url="https://cluster"))

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, or let the process die at it."""
        return await self.reaper.run(lambda: self._serve(request))

    def _serve(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path, request.method
        self.before(method, path)
        for refusal in self.refusals:
            if refusal[0] == method and refusal[1] in path:
                self.refusals.remove(refusal)
                return _refuse(refusal[2], "refused by a test")
        if method == "GET" and request.url.params.get("watch"):
            self.watches += 1
            return httpx.Response(200, content=self._watch(path))
        if method == "GET":
            return self._read(path, request.url.params)
        body = json.loads(request.content)
        answer = self._write(method, path, body, request)
        if answer.is_success:
            self.requests.append((method, path, body))
        return answer

    def _read(self, path: str, query: httpx.QueryParams) -> httpx.Response:
        if path in self.objects:
            return httpx.Response(200, json=self.objects[path])
        if path.rpartition("/")[2] in self.missing:
            return _refuse(404, "the server could not find the requested resource")
        if path.count("/") in {4, 6}:
            names = sorted(name for name in self.objects if _is_in_list(name, path))
            start = int(query.get("continue", "0"))
            size = min(2, int(query.get("limit", "2")))
            page = names[start : start + size]
            more = {"continue": str(start + size)} if start + size < len(names) else {}
            items = [self.objects[name] for name in page]
            metadata = {"resourceVersion": str(self.version), **more}
            return httpx.Response(200, json={"items": items, "metadata": metadata})
        return _refuse(404, f"{path} not found")

    async def _watch(self, path: str) -> AsyncIterator[bytes]:
        for name, document in list(self.changes):
            if _is_in_list(name, path):
                yield json.dumps({"type": "MODIFIED", "object": document}).encode() + b"\n"
        for line in self.ended:
            yield line.encode() + b"\n"
        if not self.ended:
            await anyio.sleep_forever()

    def _write(
        self,
        method: str,
        path: str,
        body: Any,  # noqa: ANN401 - JSON
        request: httpx.Request,
    ) -> httpx.Response:
        if method == "POST":
            name = f"{path}/{body['metadata']['name']}"
            if name in self.objects:
                return _refuse(409, f"{name} already exists")
            return self._store(name, body)
        part = path.removesuffix("/status")
        stored = self.objects.get(part)
        if stored is None:
            return _refuse(404, f"{part} not found")
        changed = copy.deepcopy(stored)
        kind = request.headers["content-type"]
        if kind == "application/json-patch+json":
            try:
                for operation in body:
                    _patch(changed, operation)
            except KeyError:
                return _refuse(
                    422, "the server rejected our request due to an error in our request"
                )
        elif kind == "application/apply-patch+yaml":
            assert path.endswith("/status")
            assert request.url.params["fieldManager"] == "headroom"
            changed["metadata"].update(body["metadata"])
            _apply(changed.setdefault("status", {}), body["status"])
        else:
            changed = body
        if changed["metadata"].get("resourceVersion") != stored["metadata"]["resourceVersion"]:
            return _refuse(409, "the object has been modified")
        return self._store(part, changed)

    def _store(self, path: str, document: Json) -> httpx.Response:
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        metadata.setdefault("uid", f"uid of {path}")
        self.objects[path] = {**document, "metadata": metadata}
        return httpx.Response(200, json=self.objects[path])


def _is_in_list(name: str, path: str) -> bool:
    """Return whether an object belongs to a list, of one namespace or of all."""
    if name.startswith(f"{path}/"):
        return "/" not in name.removeprefix(f"{path}/")
    group, _, plural = path.rpartition("/")
    return name.startswith(f"{group}/namespaces/") and name.split("/")[-2] == plural


def _patch(document: Json, operation: Json) -> None:
    *parents, last = [
        word.replace("~1", "/").replace("~0", "~") for word in operation["path"].split("/")[1:]
    ]
    inner: Any = document
    for word in parents:
        inner = inner[int(word)] if isinstance(inner, list) else inner[word]
    if operation["op"] == "remove":
        del inner[last]
        return
    if operation["op"] == "replace" and last not in inner:
        raise KeyError(last)
    inner[last] = operation["value"]


def _apply(status: Json, applied: Json) -> None:
    """Merge lists by the names of their items, as the schema of Kueue says."""
    for name, items in applied.items():
        key = "type" if name == "conditions" else "name"
        stored = {each[key]: each for each in status.get(name, [])}
        for item in items:
            stored[item[key]] = {**stored.get(item[key], {}), **item}
        status[name] = list(stored.values())


def _refuse(code: int, message: str) -> httpx.Response:
    return httpx.Response(code, json={"kind": "Status", "code": code, "message": message})
